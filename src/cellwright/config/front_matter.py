"""The front matter of a Markdown file that users bring: YAML between two lines of `---` at its beginning.

Files that work in Claude Code are read, also where YAML refuses them: most often a description that has a colon and no
quotes. Then each line `key: value` counts as it stands.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from cellwright.config.settings.option_table import BY_NAME
from cellwright.model.provider import ModelChoice
from cellwright.text import lazy_pattern

MAX_CHARS = 20_000
"""A longer front matter is none."""

MAX_VALUES = 10_000
"""More values, those that aliases stand for counted each time, are none: written out they would fill the memory."""

_FENCE = lazy_pattern(r"---[ \t]*\n(?P<yaml>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PLAIN_LINE = lazy_pattern(r"(?P<key>[A-Za-z][\w-]*): (?P<value>[A-Za-z/$](?:[^\s:#]|:(?=\S)|(?<! )#| (?! |$))*)")
_QUOTED_LINE = lazy_pattern(r'(?P<key>[A-Za-z][\w-]*): "(?P<text>[ !#-\[\]-~]*)"', re.ASCII)
_NO_TEXTS = frozenset({"yes", "no", "on", "off", "null", "y", "n"})
_FLAGS = {"true": True, "True": True, "false": False, "False": False}
_LINE = lazy_pattern(r"(?P<key>[A-Za-z_][\w-]*)[ \t]*:[ \t]*(?P<value>.*)")
_REFUSED = lazy_pattern(r"^[\[{%@`,\]}*]|:\s|:$")
_BRACKETS = lazy_pattern(r"\[[^\[\]{}:]*\]|\{[^\[\]{}]*\}")


class FrontMatter(Struct, frozen=True):
    """The values at the beginning of a file, and the text after them. `problem` says where YAML refused the values."""

    values: Mapping[str, Any]
    body: str
    problem: str = ""


def model_choice(values: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """The fields of `ModelChoice` as front matter says them; what is not understood is put to `problems`."""
    found = {name: plain_text(values.get(name)) for name in ModelChoice.__struct_fields__}
    if found["model"] == "inherit":
        found["model"] = None
    for name, value in found.items():
        if value is not None and (known := BY_NAME[name].kind.names) and value not in known:
            problems.append(f"{name} is {value!r}, not one of {', '.join(known)}")
            found[name] = None
    return found


def plain_text(value: Any) -> str | None:
    """The text of a value that is no list or object, without space around it; None for an empty one."""
    return None if value is None or isinstance(value, list | Mapping) else str(value).strip() or None


def read_front_matter(text: str) -> FrontMatter:
    """Take `text` apart; a file without front matter has no values. Line ends become line feeds.

    >>> read_front_matter("---\\ndescription: Use this: always\\n---\\nBody").values
    {'description': 'Use this: always'}
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    found = _FENCE.match(text, 0, MAX_CHARS) if text.startswith("---") else None
    if found is None:
        return FrontMatter({}, text)
    body = text[found.end() :]
    if (plain := _plain(found["yaml"])) is not None:
        return FrontMatter(plain, body)
    values, problem = _yaml_values(found["yaml"])
    return FrontMatter(dict(values), body, problem)


@functools.lru_cache(maxsize=256)  # all files are read for each prompt, and YAML takes half a millisecond for each
def _yaml_values(text: str) -> tuple[Mapping[str, Any], str]:
    """The values of front matter, and what YAML has against it."""
    import yaml  # 16 ms; many sessions have no such file

    try:
        # not the loader in C: deep nesting overflows its stack, and a foreign file would end the kernel
        values = yaml.load(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 2}: " if mark is not None else ""
        if (quoted := _with_quotes(text)) is not None:
            return quoted, ""
        return _lines(text), f"{where}{getattr(error, 'problem', None) or error}"
    if values is None:
        return {}, ""
    if not isinstance(values, dict):
        return _lines(text), "the front matter is not a list of `key: value`"
    if not _can_be_written_out(values):
        return {}, f"the front matter comes to more than {MAX_VALUES:,} values"
    return {str(key): value for key, value in values.items()}, ""


def _with_quotes(text: str) -> dict[str, Any] | None:
    """The values where only texts without quotes are what YAML refuses (`[file] [lines]`, a colon); None for any other."""
    import yaml

    lines = [_quoted(line) for line in text.split("\n")]
    try:
        values = yaml.load("\n".join(lines), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or not _can_be_written_out(values):
        return None
    return {str(key): value for key, value in values.items()}


def _quoted(line: str) -> str:
    """A line `key: text` whose text YAML would take for something else, with quotes; any other as it is."""
    found = _LINE.fullmatch(line)
    value = "" if found is None else found["value"].strip()
    if found is None or not value or value[0] in "\"'|>&!" or not _REFUSED.search(value) or _is_list(value):
        return line
    return f"{found['key']}: '{value.replace(chr(39), chr(39) * 2)}'"


def _is_list(value: str) -> bool:
    """Return whether `value` is one list or object in YAML's brackets, of plain elements."""
    return _BRACKETS.fullmatch(value) is not None


def _can_be_written_out(values: Any) -> bool:
    """Return whether `values` are few: aliases can stand for more than there is room for, and for themselves."""
    waiting, count = [values], 0
    while waiting:
        value = waiting.pop()
        count += 1
        if count + len(waiting) > MAX_VALUES:
            return False
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return True


def _plain(yaml: str) -> dict[str, Any] | None:
    """The values of front matter that is only lines `key: text` or `key: "text"`, which YAML would read the same.

    None for any other.
    """
    values: dict[str, Any] = {}
    for line in yaml.splitlines():
        if (quoted := _QUOTED_LINE.fullmatch(line)) is not None and quoted["key"] not in values:
            values[quoted["key"]] = quoted["text"]
            continue
        found = _PLAIN_LINE.fullmatch(line)
        if found is None or found["key"] in values or found["value"].lower() in _NO_TEXTS:
            return None
        values[found["key"]] = _FLAGS.get(found["value"], found["value"])
    return values


def texts(value: Any) -> tuple[str, ...]:
    """The texts of a list that may also be written as one text with commas, or be left empty.

    >>> texts("Read, Grep"), texts(["Read", "Grep"]), texts(None)
    (('Read', 'Grep'), ('Read', 'Grep'), ())
    """
    if value is None or isinstance(value, Mapping):
        return ()
    parts = value if isinstance(value, list | tuple) else _at_commas(str(value))
    return tuple(text for part in parts if part is not None and (text := str(part).strip().strip("\"'")))


def _at_commas(text: str) -> list[str]:
    """Split at commas that stand in no brackets: `src/*.{ts,tsx}` and `Bash(a, b)` are one element."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "({[") - (character in ")}]")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _lines(yaml: str) -> dict[str, Any]:
    """The values of lines `key: value`; lines that are indented, or begin with `-`, belong to the key before them."""
    values: dict[str, Any] = {}
    key = ""
    for line in yaml.split("\n"):
        if found := _LINE.fullmatch(line):
            key = found["key"]
            values[key] = found["value"].strip().strip("\"'").removeprefix("|").removeprefix(">")
        elif key and (element := line.strip()) and not element.startswith("#"):
            before = values[key]
            if element.startswith("- ") and (not before or isinstance(before, list)):
                values[key] = [*before, element[2:].strip()]
            elif isinstance(before, str):
                values[key] = f"{before}\n{element}".strip()
    return values
