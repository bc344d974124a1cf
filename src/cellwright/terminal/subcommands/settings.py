"""`cellwright config`, `trust`, `trust-recording`: the settings in force, and what of folders and recordings is trusted."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cellwright.agent.recording.recordings import parse_recording, read_recording
from cellwright.agent.recording.recordings import trust as trust_recording
from cellwright.commands.command import CommandPage, Section
from cellwright.commands.settings_pages import setting_rows, unknown_settings
from cellwright.config.settings.edit import checked_value, parsed_value, set_value
from cellwright.config.settings.layers import Merged
from cellwright.config.settings.settings import Settings
from cellwright.config.settings.settings_files import read_all, start_folder, users_folder
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.config.trust.exact_text import bulleted
from cellwright.config.trust.trust import Item, Trust, accept, judge, refusal_text, revoke
from cellwright.config.user_files import SettingsProblem
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.terminal.exit_codes import ExitCode
from cellwright.version import documented

Do = Callable[[argparse.Namespace], int]


def config(argv: Sequence[str]) -> int:
    """List, get, set or unset settings. Raises `CellwrightError` CONFIG_INVALID for a key or a value that makes no sense."""
    options = _parser().parse_args(argv)
    do: Do = options.do
    return do(options)


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="cellwright config",
        description="The settings in force in this folder with where each is from; `set` and `unset` change your own file, "
        f"~/.claude/settings.json. {documented('settings')} lists the keys.",
        allow_abbrev=False,
    )
    made.set_defaults(do=_list, json=False)
    commands = made.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, do: Do, help: str) -> argparse.ArgumentParser:
        parser = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        parser.set_defaults(do=do)
        return parser

    listed = command("list", _list, "each setting with its value and where it is from")
    get = command("get", _get, "the value in force of one setting; the exit code is 1 when none is set")
    put = command("set", _change, "set one setting in your own file")
    unset = command("unset", _change, "remove one setting from your own file")
    for each in (listed, get):
        each.add_argument("--json", action="store_true", help="as JSON, for programs")
    for each in (get, put, unset):
        each.add_argument("key", metavar="KEY", help="for example permissions.defaultMode")
    put.add_argument("value", metavar="VALUE", help="JSON, or a text: true, 30, sonnet, '[\"Bash(pytest *)\"]'")
    return made


def _settings() -> Settings:
    return SettingsInForce(start_folder(os.environ), os.environ).settings


def _list(options: argparse.Namespace) -> int:
    settings = _settings()
    if options.json:
        rows = [{"key": key, "value": value, "from": origin} for key, value, origin in setting_rows(settings)]
        print(json.dumps(rows))
    else:
        rows_or_none = setting_rows(settings) or [("(none)", "", "")]
        problems = (
            [Section("Problems", [("",), *((notice,) for notice in settings.notices)])] if settings.notices else []
        )
        head = ("setting", "value", "from")
        sections = [Section("Settings", [head, *rows_or_none]), *unknown_settings(settings), *problems]
        print(CommandPage(sections).plain())
    return ExitCode.OK


def _get(options: argparse.Namespace) -> int:
    merged: Merged = _settings().merged
    value = merged.value(*options.key.split("."))
    if value is None:
        return ExitCode.FAILED
    print(value if isinstance(value, str) and not options.json else json.dumps(value, ensure_ascii=False))
    return ExitCode.OK


def _change(options: argparse.Namespace) -> int:
    """Set the setting in the user's own file, or remove it if no value was given."""
    key: str = options.key
    value: Any = checked_value(key, parsed_value(options.value)) if "value" in options else None
    file = users_folder(os.environ) / "settings.json"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        set_value(file, key.split("."), value)
    except SettingsProblem as problem:
        raise CellwrightError(ErrorCode.CONFIG_PARSE_ERROR, f"{problem}. Nothing was changed.") from None
    except OSError as error:
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, f"{file} could not be written: {error}") from error
    print(f"{key} {'is not set any more' if value is None else f'= {json.dumps(value, ensure_ascii=False)}'} in {file}")
    return ExitCode.OK


def trust(argv: Sequence[str]) -> int:
    """Trust what a folder brings along as it is now, or show it; FAILED where `--show` finds something that waits.

    Raises `CellwrightError` for what is not a folder, and where the administrator lets none be trusted.
    """
    parser = argparse.ArgumentParser(
        prog="cellwright trust",
        description="Trust the Claude settings of a folder (hooks, variables, allow rules, tools) as they are now, so that "
        "they count in non-interactive runs. You are asked again about anything that is new or changed later.",
        allow_abbrev=False,
    )
    parser.add_argument("folder", metavar="FOLDER", nargs="?", type=Path, help="default: the one you are in")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--show", action="store_true", help="trust nothing; the exit code is 1 when something waits")
    what.add_argument("--revoke", action="store_true", help="stop trusting the folder")
    parser.add_argument(
        "--redirects",
        action="store_true",
        help="also settings that decide where the conversation goes and who gives the key",
    )
    parser.add_argument("--json", action="store_true", help="with --show: one JSON object, for programs")
    options = parser.parse_args(argv)
    folder = start_folder(os.environ) if options.folder is None else options.folder.expanduser()
    if not folder.is_dir():
        raise CellwrightError(ErrorCode.FILE_NOT_FOUND, f"{folder} is not a folder.")
    found = judge(read_all(folder, os.environ), os.environ)
    if options.show:
        waiting = [{"what": item.text, "redirects": item.gate == "confirm"} for item in found.waiting]
        facts = {"folder": str(found.folder), "trusted": found.trusted, "refused": found.refused, "waiting": waiting}
        print(json.dumps(facts) if options.json else _as_text(found))
        return ExitCode.FAILED if found.waiting or found.refused else ExitCode.OK
    if options.revoke:
        revoke(found.folder)
        print(f"{found.folder} is no longer trusted.")
        return ExitCode.OK
    return _accept(found, redirects=options.redirects)


def _accept(found: Trust, *, redirects: bool) -> int:
    if found.refused:
        raise CellwrightError(ErrorCode.PERMISSION_DENIED, refusal_text(found.folder))
    taken = [item for item in found.waiting if item.gate == "trust" or redirects]
    left = [item for item in found.waiting if item not in taken]
    if taken:
        accept(found, taken)
        print(f"{found.folder} is trusted as it is now:\n{_listed(taken)}")
    elif not left:
        print(f"{found.folder} contains nothing untrusted.")
    if left:
        print(
            "Not taken over, because it decides where the conversation goes or who gives the key (--redirects accepts it):\n"
            f"{_listed(left)}"
        )
    return ExitCode.OK


def _as_text(found: Trust) -> str:
    if found.refused:
        return refusal_text(found.folder)
    if not found.waiting:
        return f"{found.folder} {'is trusted' if found.trusted else 'contains nothing that needs trust'}."
    state = "is trusted, except for new or changed files" if found.trusted else "is not trusted. It contains"
    return f"{found.folder} {state}:\n{_listed(found.waiting)}"


def _listed(items: Sequence[Item]) -> str:
    return bulleted([item.text for item in items])


def trust_recordings(argv: Sequence[str]) -> int:
    """Sign the recordings that `argv` names, as they are now. Raises CellwrightError for what is none."""
    parser = argparse.ArgumentParser(
        prog="cellwright trust-recording",
        description="Allow recordings to be played although you did not make them. Playing one sends nothing, but runs "
        "its Python code and writes its files. A recording that changes afterwards is asked about again.",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    for file in parser.parse_args(argv).files:
        data = read_recording(file)
        turns = parse_recording(data, file)
        trust_recording(data)
        print(f"{file}: {len(turns)} turn{'s' if len(turns) != 1 else ''}, trusted as it is now")
    return 0
