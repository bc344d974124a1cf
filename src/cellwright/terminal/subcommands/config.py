"""`cellwright config`: the settings in force, and those in the user's own file changed."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from cellwright.commands.command import CommandPage, Section
from cellwright.commands.settings_pages import setting_rows, without_effect
from cellwright.config.settings.edit import set_value
from cellwright.config.settings.known_settings import KEYS, MODE_NAMES, WITHOUT_EFFECT, Key
from cellwright.config.settings.layers import Merged
from cellwright.config.settings.settings import Settings
from cellwright.config.settings.settings_files import start_folder, users_folder
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.config.strict_json import SettingsProblem
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.permissions.rules.rule import grant_problem, parse_rule
from cellwright.terminal.exit_codes import ExitCode

_RULES = ("permissions.allow", "permissions.ask", "permissions.deny")

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
        "~/.claude/settings.json. docs/settings.md has the keys.",
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
        sections = [Section("Settings", [head, *rows_or_none]), *without_effect(settings), *problems]
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
    value = _checked(options.key, _parsed(options.value))
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


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if value is None else value


def _checked(key: str, value: Any) -> Any:
    """The value, if the key may have it in the user's own file."""
    path = tuple(key.split("."))
    known = KEYS.get(path) or KEYS.get(path[:-1])
    if known is None and key not in WITHOUT_EFFECT:
        import difflib  # only for the sake of a typing error

        close = difflib.get_close_matches(key, [each.name for each in KEYS.values()], n=1)
        hint = f" Did you mean `{close[0]}`?" if close else " docs/settings.md lists them."
        raise CellwrightError(ErrorCode.CONFIG_INVALID, f"There is no setting `{key}`.{hint} Nothing was changed.")
    if known is not None and (problem := _problem(known, path, value)):
        raise CellwrightError(ErrorCode.CONFIG_INVALID, f"{problem} Nothing was changed.")
    return value


def _problem(known: Key, path: tuple[str, ...], value: Any) -> str:
    if known.folder == "managed":
        return f"`{known.name}` counts in the administrator's settings only."
    if known.name == "permissions.defaultMode" and value not in MODE_NAMES:
        return f"`{known.name}` is one of {', '.join(MODE_NAMES)}."
    is_member = path != known.path
    if known.shape in ("members", "lists") and not is_member:
        return f"`{known.name}` is set member by member: `{known.name}.NAME`."
    listed = known.shape == "list" or (known.shape == "lists" and is_member)
    if listed and not isinstance(value, list):
        return f'`{".".join(path)}` is a list: \'["…", "…"]\'.'
    values = value if listed else [value]
    wrong = next((expected for each in values if (expected := known.check(each))), "")
    if wrong:
        return f"`{'.'.join(path)}` is {wrong}."
    return _rule_problem(known, values) if known.name in _RULES else ""


def _rule_problem(known: Key, values: Sequence[Any]) -> str:
    for value in values:
        if not isinstance(value, str):
            return f"{value!r} is not a rule."
        try:
            rule = parse_rule(value)
        except CellwrightError as error:
            return error.message
        if known.name == "permissions.allow" and (problem := grant_problem(rule)):
            return problem
    return ""
