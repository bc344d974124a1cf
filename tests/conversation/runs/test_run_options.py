"""Each option of a prompt, said in every place of the table in the documentation, comes to the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from traitlets.config import Config

import cellwright
from cellwright.agent.spending import USUAL_LIMITS
from cellwright.config.settings.known_settings import KEYS
from cellwright.config.settings.option_table import OPTIONS as TABLE
from cellwright.config.settings.settings import Settings, load_settings
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.kernel.chat import prompts as panel
from cellwright.kernel.magic.cell_prompt import MagicOptions
from cellwright.kernel.magic.options import OPTIONS, Claude, parse_line
from cellwright.kernel.run.cell_run import run_options as options_of_cell
from cellwright.python_api.ask_options import ASK_DEFAULTS, checked_options
from cellwright.python_api.ask_options import run_options as options_of_ask
from cellwright.terminal.arguments import parse, parser
from cellwright.terminal.terminal_conversation import inline_settings
from cellwright.terminal.terminal_conversation import run_options as options_of_command
from cellwright.testing import MessagesServer, say

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
SURFACES = ("cell", "terminal", "Python", "panel", "config", "settings")
CODE = "def retry_upload(path):\n    '''Send the file again after a timeout.'''\n    return path\n"


def table() -> Iterator[tuple[str, dict[str, str]]]:
    """Each option, with its name on each surface; a number is the reason why it has none."""
    part = PAGE.read_text("utf-8").partition("## Options of one prompt")[2]
    for line in part[part.index("|---") :].splitlines()[1:]:
        if not line.startswith("|"):
            return
        title, *names = [cell.strip() for cell in line.strip("|").split("|")]
        yield title, dict(zip(SURFACES, (name.strip("`") for name in names), strict=True))


ROWS = dict(table())

FIELDS = {
    "the model": ("model", "claude-haiku-5-5"),
    "the permission mode": ("mode", "plan"),
    "requests to the model": ("max_turns", 3),
    "cost in US dollars": ("budget_usd", 0.5),
    "effort": ("effort", "low"),
    "way to the model": ("provider", "claude-code"),
    "tokens of one answer": ("max_tokens", 500),
    "reading tools at once": ("max_parallel_tools", 2),
    "seconds of a tool call": ("tool_timeout", 7.5),
    "allow rules": ("allow", ("Bash(ls *)",)),
    "deny rules": ("deny", ("WebFetch",)),
    "more folders": ("add_dirs", "FOLDER"),
    "calls that need permission": ("on_denied", "skip"),
    "branches of the kernel": ("branches", "ask"),
    "a preview": ("preview", True),
    "fallback models": ("fallback_models", ("claude-sonnet-5-5",)),
    "the agent that works": ("agent", "planner"),
    "the only tools": ("tool_names", ("Read", "Grep")),
    "no tools": ("builtin_tools", False),
    "the project's code": ("code_context", True),
    "sources of numbers": ("numbers", False),
    "the system prompt": ("system_prompt", "Be terse."),
    "text after it": ("append_system_prompt", "Say why."),
    "the answer's type": ("answer_type", "TYPE"),
    "more agents": ("agents", "AGENTS"),
    "more MCP servers": ("mcp_servers", {"notes": {"command": "true"}}),
    "hooks": ("hooks", {}),
    "Setup hooks": ("setup", "init"),
}
"""The field of `RunOptions` that each row comes to, and an example."""

TOGETHER = {"tools": "tool_names", "proposes_files": "builtin_tools"}
"""Fields that one row sets beside its own."""


def named(title: str, surface: str) -> str:
    name = ROWS[title][surface]
    return "" if name.startswith("(") else name


def test_every_option_is_a_row_and_every_gap_has_its_reason() -> None:
    fields = {*RunOptions.__struct_fields__}
    assert {field for field, _ in FIELDS.values()} | TOGETHER.keys() == fields
    assert ROWS.keys() == FIELDS.keys()
    reasons = re.findall(r"^(\d+)\. \w", PAGE.read_text("utf-8").partition("## Options of one prompt")[2], re.MULTILINE)
    used = {name.strip("()") for row in ROWS.values() for name in row.values() if name.startswith("(")}
    assert used == set(reasons)


def test_every_name_of_the_table_is_there_and_none_is_missing_from_it() -> None:
    command = {option for action in parser()._actions for option in action.option_strings}
    settings = {".".join(path) for path in KEYS}
    there: Mapping[str, Callable[[str], bool]] = {
        "cell": lambda name: name.removeprefix("--") in OPTIONS,
        "terminal": lambda name: name in command,
        "Python": lambda name: name in ASK_DEFAULTS,
        "panel": lambda name: name in panel.PANEL_OPTIONS,
        "config": lambda name: name in Claude.class_trait_names(config=True),
        "settings": lambda name: name in settings or name == "hooks",
    }
    said = [(title, surface, named(title, surface)) for title in ROWS for surface in SURFACES]
    wrong = [(title, surface) for title, surface, name in said if name and not there[surface](name)]
    assert wrong == []
    assert {named(title, "panel") for title in ROWS} - {""} == set(panel.PANEL_OPTIONS)
    of_place = {"new", "resume", "quiet", "format", "out", "dry-run", "record", "replay", "background", "notebook"}
    files = {"system-prompt-file", "append-system-prompt-file"}
    assert set(OPTIONS) - of_place - files == {named(title, "cell").removeprefix("--") for title in ROWS} - {""}
    of_program = {"can_use_tool", "session", "output_schema"}
    assert set(ASK_DEFAULTS) - of_program == {named(title, "Python") for title in ROWS} - {""}


def test_the_panel_has_a_field_for_each_of_its_options() -> None:
    fields = PAGE.parents[1] / "labextension" / "src" / "composer" / "options" / "run_options.ts"
    names = re.findall(r'\bname: "(\w+)"', fields.read_text("utf-8"))
    pickers = ["model", "mode", "effort"]
    assert sorted(names + pickers) == sorted(panel.PANEL_OPTIONS)


@pytest.fixture
def place(tmp_path: Path, own_place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    (folder / "lib").mkdir(parents=True)
    (folder / "agents.json").write_text(json.dumps({"poet": {"description": "Writes.", "prompt": "Write."}}), "utf-8")
    (folder / "servers.json").write_text(json.dumps({"mcpServers": {"notes": {"command": "true"}}}), "utf-8")
    (folder / "type.json").write_text(json.dumps({"type": "object", "properties": {}}), "utf-8")
    monkeypatch.chdir(folder)
    return folder


def wanted(title: str, place: Path) -> tuple[str, Any]:
    field, value = FIELDS[title]
    return field, (place / "lib",) if value == "FOLDER" else value


def words(title: str, surface: str) -> list[str]:
    """The option as a cell or a command says it."""
    name, (field, value) = named(title, surface), FIELDS[title]
    if field in ("builtin_tools", "setup"):
        return [name]
    if field in ("answer_type", "agents", "mcp_servers"):
        return [name, {"answer_type": "type.json", "agents": "agents.json", "mcp_servers": "servers.json"}[field]]
    if value == "FOLDER":
        return [name, "lib"]
    if field == "code_context":
        return [name, "code"]
    return [name, ",".join(value) if isinstance(value, tuple) else str(value)]


def test_a_cell_and_the_terminal_come_to_the_same(place: Path) -> None:
    wrong = []
    for title in ROWS:
        field, value = wanted(title, place)
        if field == "answer_type":
            continue  # a cell names a type of the kernel: test_typed_answers
        found: dict[str, Any] = {}
        if named(title, "cell"):
            name, *given = words(title, "cell")
            line = " ".join([name, *(f'"{each}"' for each in given)])
            found["cell"] = getattr(options_of_cell(parse_line(line, MagicOptions())[0]), field)
        if named(title, "terminal"):
            options = parse(words(title, "terminal"))
            found["terminal"] = getattr(options_of_command(options), field)
            if field in ("provider", "add_dirs"):  # a layer of the settings there
                found["terminal"] = layered(inline_settings(options, place), field)
        if field == "agents":
            found = {name: set(each) for name, each in found.items()}
            value = {"poet"}
        if field == "mcp_servers":
            found.pop("terminal")  # a source of servers of its own: test_mcp.py
        wrong += [(title, name, each) for name, each in found.items() if each != value]
    assert wrong == []


def layered(layers: Any, field: str) -> Any:
    [(_, values)] = layers
    if field == "provider":
        return values["cellwright"]["provider"]
    return tuple(map(Path, values["permissions"]["additionalDirectories"]))


def test_python_and_the_panel_come_to_the_same(place: Path) -> None:
    wrong = []
    for title in ROWS:
        field, value = wanted(title, place)
        if field in ("answer_type", "hooks", "agents", "setup", "branches"):
            continue  # objects of a program, whose tests are test_typed_answers, test_hooks, test_agents; what programs lack
        name = named(title, "Python")
        given = {"tool_names": list(value) if isinstance(value, tuple) else value, "code_context": "code"}.get(
            field, value
        )
        checked_options({name: given}, ASK_DEFAULTS)
        more = {"builtin_tools": False} if field == "tool_names" else {}
        found = {"Python": options_of_ask({name: given, **more}, None, place, {})}
        if name := named(title, "panel"):
            as_json = [str(each) for each in value] if isinstance(value, tuple) else value
            found["panel"] = panel.read_options({name: True if field == "builtin_tools" else as_json})
        wrong += [(title, where, each) for where, each in found.items() if getattr(each, field) != value]
    assert wrong == []


def test_numbers_of_other_libraries_are_numbers_of_python() -> None:
    wrong = []
    for option in (row for row in TABLE if row.python and row.kind.trait in ("whole", "number")):
        for given in (np.int64(3), np.uint8(3), np.array(3), *[np.float32(3)] * (option.kind.trait == "number")):
            if option.kind.trait == "number" and isinstance(given, np.ndarray):
                continue
            found = checked_options({option.name: given}, ASK_DEFAULTS)[option.name]
            wrong += [] if type(found) in (int, float) and found == 3 else [(option.name, given, found)]
        for given in (True, np.True_, "3", np.float64("nan") if option.kind.trait == "whole" else 1j):
            with pytest.raises(TypeError, match=option.name):
                checked_options({option.name: given}, ASK_DEFAULTS)
    assert wrong == []
    with pytest.raises(CellwrightError, match="greater than 0"):
        checked_options({"max_turns": np.int64(0)}, ASK_DEFAULTS)


@pytest.mark.parametrize("name", [option.name for option in TABLE if option.python_names])
def test_python_takes_no_value_that_an_option_does_not_have(name: str) -> None:
    with pytest.raises(CellwrightError) as refused:
        checked_options({name: "enormous"}, ASK_DEFAULTS)
    assert refused.value.code is ErrorCode.INVALID_PARAMETERS


def settings_with(place: Path, own_place: Path, title: str, value: Any) -> Settings:
    *outer, last = named(title, "settings").split(".")
    file = own_place / ".claude" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    content: dict[str, Any] = {last: value}
    for key in reversed(outer):
        content = {key: content}
    file.write_text(json.dumps(content), "utf-8")
    return load_settings(place, {"HOME": str(own_place), "CELLWRIGHT_HOME": str(own_place / "cellwright")})


IN_SETTINGS = {
    "the model": "model",
    "the permission mode": "default_mode",
    "requests to the model": "max_turns",
    "cost in US dollars": "run_budget",
    "effort": "effort",
    "way to the model": "provider",
    "tokens of one answer": "max_tokens",
    "reading tools at once": "max_parallel_tools",
    "seconds of a tool call": "tool_timeout",
    "more folders": "additional_directories",
    "calls that need permission": "on_denied",
    "branches of the kernel": "branches",
    "fallback models": "fallback_models",
    "the agent that works": "agent",
}


def test_the_settings_and_config_come_to_the_same(place: Path, own_place: Path) -> None:
    wrong = []
    for title, attribute in IN_SETTINGS.items():
        _, value = wanted(title, place)
        as_json = [str(each) for each in value] if isinstance(value, tuple) else value
        settings = settings_with(place, own_place, title, as_json)
        config = Claude(config=Config({"Claude": {named(title, "config"): as_json}}))
        layers = config.inline_settings()
        own = config.options().run.get({"cost in US dollars": "budget"}.get(title, attribute))
        said = json.dumps([dict(values) for _, values in layers]) if layers else json.dumps(own)
        if getattr(settings, attribute) != value or json.dumps(as_json) not in said:
            wrong.append((title, getattr(settings, attribute), said))
    assert wrong == []


def test_limits_of_the_settings_hold_and_an_option_goes_before_them(
    place: Path, own_place: Path, asked_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = own_place / ".claude" / "settings.json"
    file.parent.mkdir()
    limits = {"maxTokens": 700, "maxTurns": 5, "codeContext": "first-prompt"}
    file.write_text(json.dumps({"cellwright": limits}), "utf-8")
    (place / "upload.py").write_text(CODE, "utf-8")
    with MessagesServer([say("one"), say("two")]) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
        cellwright.ask("Where is an upload sent again after a timeout?")
        cellwright.ask("Where is an upload sent again after a timeout?", max_tokens=50)
    assert [request.body["max_tokens"] for request in server.requests] == [700, 50]
    first, second = (json.dumps(request.body["messages"][-1]) for request in server.requests)
    assert ("<project_code" in first, "<project_code" in second) == (True, False)
    assert "retry_upload" in first


def test_defaults_are_those_of_the_agent() -> None:
    assert (USUAL_LIMITS.max_parallel_tools, USUAL_LIMITS.tool_timeout) == (10, None)
