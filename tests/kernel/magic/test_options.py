"""The options of the magics: in one cell where nobody sits, on a line, and as `%config Claude`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from notebook_kernel import NotebookKernel
from traitlets import Enum, TraitError, Unicode

from cellwright.commands.registry import is_command
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.kernel.magic.cell_prompt import MagicOptions
from cellwright.kernel.magic.options import OPTIONS, Claude, help_text, parse_line
from cellwright.terminal.arguments import parser
from cellwright.terminal.claude_code.flags import FLAGS
from cellwright.testing import MessagesServer, say, use
from row_tables import for_each_row

TOUCH = use("Bash", command="touch made-by-a-rule")

NONE = MagicOptions()


def result(model: MessagesServer) -> str:
    return json.dumps(model.requests[-1].body["messages"][-1])


@pytest.mark.kernel
def test_a_rule_holds_for_its_cell(kernel: NotebookKernel, model: MessagesServer, project: Path):
    model.add(TOUCH, say("Done."), TOUCH, say("Again."))
    kernel.run_ok("%%claude --allow 'Bash(touch *)' --on-denied error\ngo")
    made = project / "made-by-a-rule"
    assert made.exists()
    made.unlink()
    kernel.run_ok("%%claude --on-denied skip\ngo")
    assert "can be asked" in result(model)
    assert not made.exists()


@pytest.mark.kernel
def test_a_denied_call_fails_the_cell(kernel: NotebookKernel, model: MessagesServer, project: Path):
    model.add(TOUCH)
    cell = kernel.run("%%claude --on-denied error\ngo")
    assert cell.reply["ename"] == "CellError"
    assert cell.reply["evalue"].startswith("PERMISSION_DENIED: ")


@pytest.mark.kernel
def test_a_denied_rule_goes_before_an_allowed_one(kernel: NotebookKernel, model: MessagesServer, project: Path):
    model.add(TOUCH, say("Done."))
    kernel.run_ok("%%claude --allow Bash --deny 'Bash(touch *)'\ngo")
    assert "not allowed" in result(model)
    assert not (project / "made-by-a-rule").exists()


@pytest.mark.kernel
def test_a_folder_is_worked_in_for_one_cell(kernel: NotebookKernel, model: MessagesServer, tmp_path: Path):
    (tmp_path / "note.txt").write_text("over here", "utf-8")
    read = use("Read", file_path=str(tmp_path / "note.txt"))
    model.add(read, say("Done."), read, say("Again."))
    kernel.run_ok(f"%%claude --add-dir '{tmp_path}' --on-denied error\ngo")
    assert "over here" in result(model)
    kernel.run_ok("%%claude --on-denied skip\ngo")
    assert "can be asked" in result(model)
    cell = kernel.run("%%claude --add-dir no/such/folder\ngo")
    assert "INVALID_PARAMETERS" in json.dumps(cell.reply["traceback"])


@pytest.mark.kernel
def test_python_says_it_in_the_same_words(kernel: NotebookKernel, model: MessagesServer, project: Path):
    model.add(TOUCH)
    cell = kernel.run("import cellwright; cellwright.ask('go', on_denied='error')")
    assert "PERMISSION_DENIED" in json.dumps(cell.reply["traceback"])
    model.add(TOUCH, say("Done."))
    kernel.run_ok("cellwright.ask('go', on_denied='error', allow=['Bash(touch *)']).text")
    (project / "made-by-a-rule").unlink()
    cell = kernel.run("cellwright.ask('go', on_denied='never')")
    assert "INVALID_PARAMETERS" in json.dumps(cell.reply["traceback"])


@for_each_row(
    ("line", "options", "rest"),
    [
        ("", NONE, ""),
        ("explain this error", NONE, "explain this error"),
        ("--new", MagicOptions(new=True), ""),
        (
            "--model claude-sonnet-5-5 --quiet why?",
            MagicOptions(run={"model": "claude-sonnet-5-5"}, quiet=True),
            "why?",
        ),
        ("--mode=plan --max-turns 3", MagicOptions(run={"mode": "plan", "max_turns": 3}), ""),
        ("--budget $1.50 do -- it --now", MagicOptions(run={"budget": 1.5}), "do -- it --now"),
        ("--record 'my file.jsonl' don't", MagicOptions(record="my file.jsonl"), "don't"),
        ('--replay "a b.jsonl"', MagicOptions(replay="a b.jsonl"), ""),
        ("--out answer --format json-lines", MagicOptions(out="answer", format="json-lines"), ""),
        ("--notebook report.ipynb Go on", MagicOptions(notebook="report.ipynb"), "Go on"),
        (
            "--resume 20261121 --effort low --no-tools",
            MagicOptions(run={"effort": "low", "builtin_tools": False}, resume="20261121"),
            "",
        ),
        ("--schema City --out city where?", MagicOptions(schema="City", out="city"), "where?"),
        ("--schema shop.City|None", MagicOptions(schema="shop.City|None"), ""),
        ("--schema 'list[dict[str, -1]]' all", MagicOptions(schema="list[dict[str, -1]]"), "all"),
        ("--dry-run what is sent", MagicOptions(dry_run=True), "what is sent"),
        ("--allow 'Bash(ls *)' --allow Edit x", MagicOptions(run={"allow": ("Bash(ls *)", "Edit")}), "x"),
        (
            "--deny Bash --add-dir ../a --add-dir b",
            MagicOptions(run={"deny": ("Bash",), "add_dirs": ("../a", "b")}),
            "",
        ),
        (
            "--append-system-prompt 'Be kind.' --append-system-prompt x --fallback-model sonnet hi",
            MagicOptions(run={"append_system_prompt": ("Be kind.", "x"), "fallback_models": ("sonnet",)}),
            "hi",
        ),
        ("--system-prompt-file a.txt hi", MagicOptions(run={"system_prompt_file": "a.txt"}), "hi"),
        ("--on-denied error go", MagicOptions(run={"on_denied": "error"}), "go"),
    ],
)
def test_options_come_first_and_the_rest_is_the_prompt(line: str, options: MagicOptions, rest: str):
    assert parse_line(line, NONE) == (options, rest)


@for_each_row(
    ("line", "says"),
    [
        ("--modell x", "Did you mean --model?"),
        ("--zzz", "--max-turns"),
        ("--model", "--model needs a value"),
        ("--model --new", "--model needs a value"),
        ("--model=", "--model needs a value"),
        ("--mode yolo", "'yolo' is not one of default, acceptEdits"),
        ("--max-turns 0", "'0' is not a whole number"),
        ("--max-turns two", "'two' is not a whole number"),
        ("--budget free", "'free' is not an amount"),
        ("--budget -1", "'-1' is not an amount"),
        ("--budget nan", "'nan' is not an amount"),
        ("--out 1st", "'1st' is not a name"),
        ("--out class", "'class' is not a name"),
        ("--schema", "--schema needs a value"),
        ("--schema City()", "'City()' is not the name of a model"),
        ("--schema list[open('x')]", "is not the name of a model"),
        ("--schema 3", "'3' is not the name of a model"),
        ("--schema a.b.", "is not the name of a model"),
        ("--format xml", "'xml' is not one of"),
        ("--new=yes", "--new takes no value"),
        ("--new --new", "--new is given twice"),
        ("--new --resume 2026", "--new and --resume do not go together"),
        ("--record a --replay b", "--record and --replay do not go together"),
    ],
)
def test_a_wrong_option_is_refused_with_what_to_do(line: str, says: str):
    with pytest.raises(CellwrightError) as error:
        parse_line(line, NONE)
    assert error.value.code == ErrorCode.INVALID_PARAMETERS
    assert says in error.value.message
    assert "Nothing was sent" in error.value.message


def test_defaults_hold_where_the_line_says_nothing():
    defaults = MagicOptions(run={"model": "claude-haiku-5-5", "max_turns": 5})
    assert parse_line("--max-turns 2 go", defaults) == (
        MagicOptions(run={"model": "claude-haiku-5-5", "max_turns": 2}),
        "go",
    )


def test_the_help_names_every_option():
    text = help_text()
    assert all(f"--{name}" in text for name in OPTIONS)


def test_config_reads_values_as_the_options_do():
    config = Claude(model="claude-haiku-5-5", mode="plan", max_turns=3, budget=0.5, quiet=True)
    assert config.options() == MagicOptions(run={"max_turns": 3, "budget": 0.5}, quiet=True)
    config.max_turns = np.int64(4)
    assert type(config.max_turns) is int
    wrong = {"mode": "yolo", "max_turns": 0, "budget": -1.0, "format": "xml", "model": "", "deny": ["Bash("]}
    for name, value in {**wrong, "allow": ["Write(x)"]}.items():
        with pytest.raises(TraitError):
            setattr(config, name, value)


def test_config_says_settings_as_a_layer_of_them():
    assert Claude().inline_settings() == ()
    config = Claude(model="claude-haiku-5-5", mode="plan", allow=["Bash(make)"], deny=["Python"])
    ((layer, values),) = config.inline_settings()
    assert layer.scope == "config"
    assert values == {
        "model": "claude-haiku-5-5",
        "permissions": {"defaultMode": "plan", "allow": ["Bash(make)"], "deny": ["Python"]},
    }


def test_every_trait_but_what_a_cell_cannot_say_is_an_option_under_its_name():
    traits = {name.replace("_", "-") for name in Claude.class_own_traits(config=True)}
    # a list has its plural there, an option may be given again
    lists = {"add-dirs": "add-dir", "fallback-models": "fallback-model"}
    named = {lists.get(name, name) for name in traits}
    assert named - set(OPTIONS) == {"recording", "session-budget", "notebook-budget", "daily-budget"}


@pytest.mark.parametrize(
    ("line", "record", "replay", "rest"),
    [
        ("--record", "auto", None, ""),
        ("--record --quiet", "auto", None, ""),
        ("--record a.jsonl Sum up", "a.jsonl", None, "Sum up"),
        ("--replay", None, "auto", ""),
        ("--replay strict Sum up", None, "strict", "Sum up"),
    ],
)
def test_a_recording_beside_the_notebook_needs_no_name(line, record, replay, rest):
    options, prompt = parse_line(line, MagicOptions())
    assert (options.record, options.replay, prompt) == (record, replay, rest)


def test_a_flag_of_the_command_is_answered_with_what_a_cell_has():
    flags = [flag for action in parser()._actions for flag in action.option_strings] + list(FLAGS)
    for flag in (each for each in flags if each.lstrip("-") not in OPTIONS and each.startswith("-")):
        with pytest.raises(CellwrightError) as error:
            parse_line(f"{flag} go", NONE)
        assert error.value.message.startswith(f"{flag} is a flag")
        assert error.value.message.endswith("Nothing was sent.")
        named = re.findall(r"`%claude /([\w-]+)", error.value.message)
        assert all(is_command(name) for name in named), named
    with pytest.raises(
        CellwrightError, match=r"continue one conversation by themselves; `--resume ID` .*`%claude /clear`"
    ):
        parse_line("--continue", NONE)


def test_an_empty_value_is_never_the_default():
    for name, option in OPTIONS.items():
        if not option.flag and name != "tools":
            for value in ('""', "''", '" "'):
                with pytest.raises(CellwrightError, match=f"--{name}: .*Nothing was sent"):
                    parse_line(f"--{name} {value} hi", NONE)
    for name, trait in Claude.class_own_traits(config=True).items():
        if isinstance(trait, Unicode | Enum) or type(trait).__name__ == "List":
            with pytest.raises(TraitError):
                setattr(Claude(), name, [""] if type(trait).__name__ == "List" else "")
