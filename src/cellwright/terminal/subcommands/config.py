"""`cellwright config`: the settings in force, and those in the user's own file changed."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from cellwright.commands.command import CommandPage, Section
from cellwright.commands.settings_pages import setting_rows, unknown_settings
from cellwright.config.settings.edit import checked_value, parsed_value, set_value
from cellwright.config.settings.layers import Merged
from cellwright.config.settings.settings import Settings
from cellwright.config.settings.settings_files import start_folder, users_folder
from cellwright.config.settings.settings_in_force import SettingsInForce
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
    put = command("set", _set, "set one setting in your own file")
    unset = command("unset", _unset, "remove one setting from your own file")
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


def _set(options: argparse.Namespace) -> int:
    value = checked_value(options.key, parsed_value(options.value))
    _change(options.key, value)
    return ExitCode.OK


def _unset(options: argparse.Namespace) -> int:
    _change(options.key, None)
    return ExitCode.OK


def _change(key: str, value: Any) -> None:
    file = users_folder(os.environ) / "settings.json"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        set_value(file, key.split("."), value)
    except SettingsProblem as problem:
        raise CellwrightError(ErrorCode.CONFIG_PARSE_ERROR, f"{problem}. Nothing was changed.") from None
    except OSError as error:
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, f"{file} could not be written: {error}") from error
    print(f"{key} {'is not set any more' if value is None else f'= {json.dumps(value, ensure_ascii=False)}'} in {file}")
