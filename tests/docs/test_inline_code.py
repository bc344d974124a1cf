"""Commands, magics, options and extras that the pages name within their lines: all of them are there."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves it out

from fences import PAGES, ROOT

import cellwright
from cellwright.commands.registry import COMMANDS, INSTEAD, OTHER_NAMES
from cellwright.config.settings.known_settings import KEYS
from cellwright.kernel.magic.options import OPTIONS, Claude
from cellwright.terminal.arguments import parser
from cellwright.terminal.subcommands.subcommand_names import SUBCOMMANDS, find_subcommand

FENCE = re.compile(r"(?ms)^ *(`{3,}).*?^ *\1 *$")
INLINE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
ELSEWHERE = {
    "docs/telemetry.md": {"cellwright.cost", "cellwright.cost_usd", "cellwright.requests", "cellwright.tool.status"},
    "docs/tools.md": {"cellwright.search_engines", "cellwright.tools"},
}
"""Attributes and metrics of spans, and groups of entry points."""


WITH_WORDS = ("auth", "config", "mcp", "plugin", "sessions")
"""Subcommands whose first word says what they do."""


def inline() -> dict[str, set[str]]:
    """The pieces of code within lines, by page."""
    return {
        str(page.relative_to(ROOT)): {
            found[2].strip() for found in INLINE.finditer(FENCE.sub("", page.read_text("utf-8")))
        }
        for page in PAGES
    }


def lines_of(*starts: str) -> list[tuple[str, str]]:
    """The pieces that begin so, with their pages."""
    return [(page, text) for page, texts in inline().items() for text in sorted(texts) if text.startswith(starts)]


def options_in(text: str) -> set[str]:
    return set(re.findall(r"(?:(?<= )|^)--([a-z][a-z-]*)", text))


def test_options_of_cells_are_those_of_the_magic() -> None:
    unknown = {text: page for page, text in lines_of("%claude ", "%%claude ") if options_in(text) - OPTIONS.keys()}
    assert unknown == {}


def test_slash_commands_are_there() -> None:
    known = {*COMMANDS, *OTHER_NAMES, *INSTEAD}
    named = {
        name: page
        for page, text in lines_of("%claude /", "%%claude /")
        for name in re.findall(r"claude /([a-z-]+)", text)
    }
    assert {name: page for name, page in named.items() if name not in known} == {}


def test_traits_of_config_are_those_of_claude() -> None:
    names = {
        name: page
        for page, text in lines_of("%config Claude.", "c.Claude.")
        for name in re.findall(r"Claude\.(\w+)", text)
    }
    assert {name: page for name, page in names.items() if name not in Claude.class_trait_names(config=True)} == {}


def test_extras_are_those_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = {
        extra: page
        for page in PAGES
        for group in re.findall(r"cellwright\[([a-z,-]+)\]", page.read_text("utf-8"))
        for extra in group.split(",")
    }
    assert {extra: page for extra, page in named.items() if extra not in extras} == {}


def test_options_and_words_of_command_lines_are_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    def help_of(*words: str) -> str:
        subcommand = find_subcommand(words)
        assert subcommand is not None, words
        with contextlib.suppress(SystemExit):
            subcommand([*words[1:], "--help"])
        return capsys.readouterr().out

    unknown = {}
    for page, text in lines_of("cellwright "):
        words = shlex.split(re.sub(r"\\\||[\[\]]", " ", text))[1:]
        if words[0] not in SUBCOMMANDS:
            if re.fullmatch("[a-z]+", words[0]) and '"' not in text:
                unknown[text] = page
            shown = parser().format_help() + " --init"  # which is of hooks, and for no one who asks for help
        else:
            shown = help_of(words[0])
            if words[0] in WITH_WORDS and re.fullmatch("[a-z-]+", "".join(words[1:2])):
                if words[1] not in shown:
                    unknown[text] = page
                shown += help_of(*words[:2])
        if missing := {option for option in options_in(text) if f"--{option}" not in shown}:
            unknown[text] = f"{page}: {', '.join(sorted(missing))}"
    assert unknown == {}


def test_names_of_the_package_are_its_names_settings_or_metrics() -> None:
    wrong = {}
    for page, text in lines_of("cellwright."):
        name = re.match(r"cellwright\.([A-Za-z_]+)", text)
        assert name is not None, text
        whole = text.partition(":")[0].partition("(")[0]
        is_setting = any(".".join(key) == whole or ".".join(key).startswith(f"{whole}.") for key in KEYS)
        if not (hasattr(cellwright, name[1]) or is_setting or whole in ELSEWHERE.get(page, ()) or importable(whole)):
            wrong[text] = page
    assert wrong == {}


def importable(name: str) -> bool:
    folder = ROOT / "src" / Path(*name.split("."))
    return folder.is_dir() or folder.with_suffix(".py").is_file() or importable_parent(folder)


def importable_parent(folder: Path) -> bool:
    return folder.parent.with_suffix(".py").is_file() and folder.name in folder.parent.with_suffix(".py").read_text(
        "utf-8"
    )
