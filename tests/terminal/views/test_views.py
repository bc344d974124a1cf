"""The parts of the terminal's view: markdown cut in blocks, text made harmless, rules taken apart, lines in words."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from pygments.token import STANDARD_TYPES
from rich.cells import cell_len
from rich.color import Color, ColorSystem
from rich.console import Console
from rich.style import Style

from cellwright.agent.calls.approval import Allow, Decision, Deny, ToolUse
from cellwright.commands.command import CommandPage, Section
from cellwright.commands.registry import COMMANDS, GROUPS, brief_row
from cellwright.config.settings.known_settings import THEMES
from cellwright.config.settings.settings import Settings
from cellwright.errors import ErrorCode
from cellwright.events import (
    Answered,
    Asked,
    Call,
    ContextCompacted,
    FollowingCall,
    ModeChanged,
    Notice,
    Number,
    NumbersTraced,
    Preview,
    Retrying,
    RunEnd,
    SubagentEvent,
    Suggestion,
    TextDelta,
    ThinkingDelta,
    TodosChanged,
    ToolEnd,
    ToolProgress,
    ToolStart,
    TurnEnd,
    UserPrompt,
)
from cellwright.telemetry.run_state import RunState
from cellwright.telemetry.view_limits import ON_TERMINAL
from cellwright.terminal.arguments import split_rules
from cellwright.terminal.exit_codes import MEANINGS, ExitCode, exit_code_of
from cellwright.terminal.interactive.answer_menu import Menu
from cellwright.terminal.main import Redacting
from cellwright.terminal.question import Asker, OfferedAnswer
from cellwright.terminal.views import run_lines
from cellwright.terminal.views.diff_view import DiffView, coloured_lines, drawn_preview, lexer_of
from cellwright.terminal.views.live_view import LiveView, MarkdownBlocks
from cellwright.terminal.views.markdown_view import drawn_markdown
from cellwright.terminal.views.page_view import draw_fresh_page, draw_page
from cellwright.terminal.views.plain_view import PlainView
from cellwright.terminal.views.streams import styled_writer
from cellwright.terminal.views.terminal_text import Look, harmless, look_of
from cellwright.terminal.views.themes import theme_named
from row_tables import for_each_row


def blocks_of(text: str, size: int) -> list[str]:
    blocks = MarkdownBlocks()
    found = [blocks.add(text[start : start + size]) for start in range(0, len(text), size)]
    return [block for block in [*found, blocks.rest()] if block]


@for_each_row("size", [1, 3, 1000])
@for_each_row(
    ("text", "blocks"),
    [
        ("one\n\ntwo\n\nthree", ["one\n\n", "two\n\nthree"]),
        ("one\n\ntwo\n", ["one\n\n", "two\n"]),
        ("- a\n\n  still a\n- b\n\nafter\n", ["- a\n\n  still a\n- b\n\n", "after\n"]),
        ("```\na\n\nb\n```\n\nafter\n", ["```\na\n\nb\n```\n\n", "after\n"]),
        ("~~~~\n```\n\n~~~\n\nx\n~~~~\n\nafter\n", ["~~~~\n```\n\n~~~\n\nx\n~~~~\n\n", "after\n"]),
        ("```\nnever closed\n\nx\n\ny\n", ["```\nnever closed\n\nx\n\ny\n"]),
        ("", []),
    ],
)
def test_markdown_is_cut_where_nothing_before_can_change(text: str, blocks: list[str], size: int) -> None:
    # with all the text at once several blocks come together
    assert "".join(blocks_of(text, size)) == text
    if size == 1:
        assert blocks_of(text, size) == blocks


@settings(derandomize=True, deadline=None)
@given(st.text(alphabet="a`~- \n\t1.", max_size=200), st.integers(1, 50))
def test_no_markdown_is_lost(text: str, size: int) -> None:
    assert "".join(blocks_of(text, size)) == text


@for_each_row(
    ("text", "left"),
    [
        ("plain text\twith tab\nand line", "plain text\twith tab\nand line"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x\x1b]8;;http://a\x1b\\link", "xlink"),
        ("\x1bcreset \x1b(B \x1b[?1049h", "reset  "),
        ("\x9b31m\x85\x00\x08\x7f.", "31m."),
        ("10%\r20%\r30%", "30%"),
        ("dos\r\nline", "dos\nline"),
        ("naïve 🙂 日本", "naïve 🙂 日本"),
    ],
)
def test_nothing_that_controls_a_terminal_is_left(text: str, left: str) -> None:
    assert harmless(text) == left


@settings(derandomize=True, deadline=None)
@given(st.text())
def test_harmless_text_has_no_control_characters(text: str) -> None:
    left = harmless(text)
    assert not any(ord(character) < 32 and character not in "\t\n" for character in left)
    assert not any(127 <= ord(character) < 160 for character in left)


@for_each_row(
    ("values", "rules"),
    [
        ([], ()),
        (["Read"], ("Read",)),
        (["Read,Edit", "Bash(git log *)"], ("Read", "Edit", "Bash(git log *)")),
        (["Bash(a,b), Edit(x)"], ("Bash(a,b)", "Edit(x)")),
        (["Bash(f(a,b),c),Read"], ("Bash(f(a,b),c)", "Read")),
        ([" , Read ,, "], ("Read",)),
        (["Bash(((", "Read),Edit"], ("Bash(((", "Read)", "Edit")),
    ],
)
def test_rules_are_separated_by_commas_outside_of_parentheses(values: list[str], rules: tuple[str, ...]) -> None:
    assert split_rules(values) == rules


def test_every_error_has_an_exit_code_that_is_not_zero() -> None:
    assert all(exit_code_of(code) != ExitCode.OK for code in ErrorCode)
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.parametrize(
    ("duration", "text"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (60, "1 min 00 s"), (3725, "62 min 05 s")]
)
def test_durations(duration: float, text: str) -> None:
    assert run_lines.seconds(duration) == text


def run_end(**more: Any) -> RunEnd:
    return RunEnd("end_turn", "x", {"input_tokens": 1000, "output_tokens": 234}, 0.0123, 4500.0, 2, 1, 0, **more)


def test_the_footer() -> None:
    state = RunState()
    assert run_lines.footer(run_end(), state) == "Done · 4.5 s · $0.012"
    state.take(UserPrompt("go", "claude-opus-5-5"))
    unknown = RunEnd("interrupted", "x", {"input_tokens": 1000, "output_tokens": 234}, None, 0.0, 1, 0, 0)
    assert run_lines.footer(unknown, state) == "Stopped · 0.0 s · Opus 5.5 · 1,000 tokens in, 234 out"


def denial(reason: str) -> dict[str, Any]:
    message = f"Bash was not allowed: {reason}"
    return {"error": {"code": "PERMISSION_DENIED", "message": message}}


def end(**more: Any) -> ToolEnd:
    return ToolEnd("t", "Bash", "error", "…", 100.0, **more)


def test_a_complaint_is_the_line_that_says_most() -> None:
    failed = end(error={"code": "EXECUTION_ERROR", "message": "line 1\nTraceback\nValueError: no\n", "details": {}})
    assert run_lines.complaint(failed) == "ValueError: no"
    assert run_lines.complaint(end()) == ""


def test_a_long_diff_is_cut_and_counted() -> None:
    lines = run_lines.diff_lines("\n".join(f"+{number}" for number in range(100)))
    assert lines[-1] == "… 40 more lines"
    assert len(lines) == ON_TERMINAL.diff_lines + 1


def test_a_plain_view_never_breaks_a_line_of_the_answer() -> None:
    out = io.StringIO()
    view = PlainView(out)
    tool_use = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}
    for event in (
        UserPrompt("go", "m"),
        TextDelta("I look"),
        TextDelta(" first."),
        ToolStart((Call(tool_use, "ls"),)),
        ToolProgress("t", text="output"),
        ToolEnd("t", "Bash", "success", "output", 50.0),
        TextDelta("Done.\n"),
        run_end(),
    ):
        view.emit(event)
    assert out.getvalue().splitlines()[:3] == ["I look first.", "* Ran ls: done, 0.1 s", "Done."]


def test_a_change_that_was_seen_in_the_question_is_not_shown_again() -> None:
    tool_use = {"type": "tool_use", "id": "t", "name": "Edit", "input": {}}
    for edited, times in ((False, 0), (True, 1)):
        out = io.StringIO()
        view = PlainView(out)
        for event in (
            ToolStart((Call(tool_use, "a.py"),)),
            Asked("q", tool_use, Preview("Edit a.py", "-a\n+b", "diff"), ""),
            Answered("q", "t", "allow", "terminal", edited=edited),
            ToolEnd("t", "Edit", "success", "done", 50.0, display={"diff": "-a\n+b"}),
        ):
            view.emit(event)
        assert out.getvalue().count("+b") == times
        assert "* Edit: a.py: done" in out.getvalue()


def test_a_notice_that_is_said_again_is_counted_at_the_end() -> None:
    out = io.StringIO()
    view = PlainView(out)
    for event in (
        Notice("Cut off.", "warning", at=1.0),
        Notice("Cut off.", "warning", at=2.0),
        Notice("Cut off."),
        run_end(),
    ):
        view.emit(event)
    assert out.getvalue().splitlines()[:3] == ["warning: Cut off.", "info: Cut off.", "warning: Cut off. (2 times)"]


def test_a_summary_that_failed_is_told_once() -> None:
    why = "The conversation was not summarised. a picture is gone"
    out, screen = io.StringIO(), io.StringIO()
    views = PlainView(out), LiveView(Console(file=screen, width=120))
    for view in views:
        view.emit(ContextCompacted("started", "auto", 9_000))
        view.emit(ContextCompacted("failed", "auto", 9_000, reason="a picture is gone"))
        view.emit(Notice(why, "warning"))
    for said in (out.getvalue(), screen.getvalue()):
        assert said.count("a picture is gone") == said.count("not summarised") == 1, said


def test_the_footer_names_the_model_that_answered() -> None:
    out, screen = io.StringIO(), io.StringIO()
    views = PlainView(out), LiveView(Console(file=screen, width=120))
    for view in views:
        view.emit(UserPrompt("go", "claude-opus-5-5"))
        view.emit(TurnEnd({"role": "assistant", "content": []}, "end_turn", {}, "claude-sonnet-5-5-20260101"))
        view.emit(run_end())
    for said in (out.getvalue(), screen.getvalue()):
        assert "Done · 4.5 s · Sonnet 5.5 · $0.012" in said


def test_thinking_is_folded_to_a_line_and_unfolds() -> None:
    thought = [ThinkingDelta("First \x1b[2Jidea.\n"), ThinkingDelta("Second idea.\n")]
    answer = [TextDelta("Done.\n"), TurnEnd({"role": "assistant", "content": []}, "end_turn", {}, "m"), run_end()]

    def shown(view: Any, out: io.StringIO, events: list[Any]) -> str:
        for event in events:
            view.emit(event)
        return out.getvalue()

    out = io.StringIO()
    plain = shown(PlainView(out), out, [*thought, *answer])
    out = io.StringIO()
    view = LiveView(Console(file=out, width=120), in_session=True)
    folded = shown(view, out, [*thought, *answer])
    for said in (plain, folded):
        assert re.search(r"^Thought briefly: First .*idea\.", said, re.MULTILINE)
        assert "Second idea" not in said
        assert "\x1b[2J" not in said
        assert said.index("Thought briefly") < said.index("Done.")
    assert "(Ctrl-O)" in folded
    view.show_details(True)
    assert "  Second idea." in out.getvalue()[len(folded) :]
    out = io.StringIO()
    whole = shown(LiveView(Console(file=out, width=120), details=True, in_session=True), out, [*thought, *answer])
    assert "  Second idea." in whole
    assert "(Ctrl-O)" not in whole
    out = io.StringIO()
    void = Retrying(1, 2, 0.0, "API_OVERLOADED", "busy")
    assert "Thought briefly" not in shown(LiveView(Console(file=out, width=120)), out, [*thought, void, *answer])


DIFF = """--- a/tides.py
+++ b/tides.py
@@ -2,4 +2,5 @@

 def high_tide(levels):
-    return min(levels)
+    # the highest \x1b[2J
+    return max(levels)

@@ -40,2 +41,2 @@
-x = 1
+x = 22
 print(x)
"""


def drawn(renderable: Any, width: int = 60) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system="truecolor", highlight=False)
    console.print(renderable)
    return out.getvalue()


def test_a_diff_is_drawn_as_code_with_the_numbers_of_both_sides() -> None:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", drawn(DiffView(DIFF, theme_named("none"))))
    assert [line.rstrip() for line in plain.splitlines()] == [
        "   3  3   def high_tide(levels):",
        "   4    −     return min(levels)",
        "      4 +     # the highest ⟨U+001B⟩[2J",
        "      5 +     return max(levels)",
        "  ⋯",
        "  40    − x = 1",
        "     41 + x = 22",
        "  41 42   print(x)",
    ]
    more = DIFF.replace("@@ -2,4 +2,5 @@", "@@ -1,5 +1,6 @@\n far")
    compact = re.sub(r"\x1b\[[0-9;]*m", "", drawn(DiffView(more, theme_named("none"), compact=True)))
    assert "far" not in compact
    assert "def high_tide" in compact


@for_each_row("name", THEMES[1:])
def test_each_theme_marks_the_words_that_changed_and_only_none_has_no_colour(name: str) -> None:
    theme = theme_named(name)  # type: ignore[arg-type]
    screen = drawn(DiffView(DIFF, theme))
    words = {Style.parse(theme.added_words), Style.parse(theme.removed_words)}
    lines = DiffView(DIFF, theme).__rich_console__(Console(width=60), Console(width=60).options)
    marked = {line.plain[span.start : span.end] for line in lines for span in line.spans if _style(span.style) in words}
    assert {"max", "min", "1", "22"} <= marked
    assert "levels" not in " ".join(marked)
    colours = re.findall(r"\x1b\[[0-9;]*?(?:3[0-7]|38|48)[0-9;]*m", screen)
    assert bool(colours) == (name not in ("high-contrast", "none"))


def _style(style: Any) -> Style:
    return Style.parse(style) if isinstance(style, str) else style


def test_a_wide_line_is_folded_at_the_width_and_nothing_of_it_is_lost() -> None:
    text = "日本語 " * 12
    screen = re.sub(r"\x1b\[[0-9;]*m", "", drawn(DiffView(f"@@ -1 +1 @@\n+{text.strip()}", theme_named("none")), 40))
    assert all(cell_len(line) <= 40 for line in screen.splitlines())
    assert "".join(screen.split()).removeprefix("1+") == "".join(text.split())


def test_of_a_text_that_is_too_high_the_first_and_last_lines_are_drawn_and_the_others_counted() -> None:
    theme = theme_named("none")
    code = Preview("Run", "\n".join(f"line {number}" for number in range(1, 27)), "code")
    diff = Preview(
        "Write", "".join(["@@ -0,0 +1,26 @@", *(f"\n+{'word ' * 10}{number}" for number in range(26))]), "diff"
    )
    long = Preview("Run", "word " * 200, "text")
    shown = {}
    for preview, rows in ((code, 13), (diff, 13), (long, 13), (code, 26)):
        screen = drawn(replace(drawn_preview(preview, theme, compact=False), max_rows=rows), 40)
        lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in screen.splitlines()]
        assert len(lines) <= rows
        (at,) = [*(number for number, line in enumerate(lines) if "more lines" in line), *([] if rows < 26 else [-1])]
        shown[preview.title, preview.kind, rows] = (lines[at], at, len(lines) - at - 1)
    assert shown == {
        ("Run", "code", 13): ("  … 14 more lines · Ctrl-O shows all", 8, 4),
        ("Write", "diff", 13): ("  … 20 more lines · Ctrl-O shows all", 8, 4),
        ("Run", "text", 13): ("  … 17 more lines · Ctrl-O shows all", 8, 4),
        ("Run", "code", 26): ("  │ line 26", -1, 26),
    }


@for_each_row(
    ("command", "coloured"),
    [
        ("ls -la && echo done > out.txt", ["echo"]),
        ("for f in *.py; do test $f; done", ["for", "in", "do", "test", "done"]),
        ("if grep if a.txt; then echo then in; fi", ["if", "then", "echo", "fi"]),
        ("cat x | read line", ["read"]),
    ],
)
def test_only_a_command_of_the_shell_has_the_colour_of_a_keyword(command: str, coloured: list[str]) -> None:
    (line,) = coloured_lines([command], lexer_of("bash"), theme_named("ansi").code)
    assert [
        line.plain[span.start : span.end].strip() for span in line.spans if Style.parse(str(span.style)).color
    ] == coloured


@for_each_row(
    ("theme", "environ", "name"),
    [
        ("auto", {}, "ansi"),
        ("auto", {"COLORFGBG": "15;0"}, "dark"),
        ("auto", {"COLORFGBG": "0;default;15"}, "light"),
        ("auto", {"COLORFGBG": "0;default"}, "ansi"),
        ("dark-ansi", {"COLORFGBG": "0;15"}, "ansi"),
        ("light-daltonized", {}, "light-daltonized"),
        ("custom:mine", {}, "ansi"),
        ("none", {"COLORFGBG": "0;15"}, "none"),
    ],
)
def test_the_theme_is_the_settings_or_that_of_the_background(theme: str, environ: dict[str, str], name: str) -> None:
    assert look_of(Settings(project=Path("/"), theme=theme), environ) == Look(name)  # type: ignore[arg-type]


READS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("Read", {}, {"kind": "text", "first": 1, "last": 120, "total": 120}, "Read tides.py · 120 lines"),
    ("Read", {}, {"kind": "text", "first": 10, "last": 20, "total": 120}, "Read tides.py · lines 10–20 of 120"),
    ("Read", {}, {"kind": "image", "size": 2048}, "Read tides.py · image, 2,048 bytes"),
    (
        "Grep",
        {"pattern": "foo", "path": "src"},
        {"mode": "content", "numMatches": 12, "numFiles": 4},
        "Searched for “foo” in src · 12 hits in 4 files",
    ),
    ("Grep", {"pattern": "foo"}, {"mode": "files_with_matches", "numFiles": 1}, "Searched for “foo” · 1 file"),
    ("Grep", {"pattern": "foo"}, {"mode": "content", "numMatches": 0, "numFiles": 0}, "Searched for “foo” · no hits"),
    ("Glob", {"pattern": "*.py"}, {"totalMatches": 0}, "Looked for files “*.py” · no files"),
]


@for_each_row(("name", "tool_input", "structured", "line"), READS)
def test_a_read_or_a_search_is_one_line_that_counts(
    name: str, tool_input: dict[str, Any], structured: dict[str, Any], line: str
) -> None:
    out = io.StringIO()
    view = LiveView(Console(file=out, width=120))
    call = Call({"type": "tool_use", "id": "t", "name": name, "input": tool_input}, f"{name} tides.py")
    view.emit(ToolStart((call,)))
    view.emit(ToolEnd("t", name, "success", "…", 20.0, structured=structured))
    assert f"✓ {line}\n" in out.getvalue()


ENDED: list[tuple[str, dict[str, Any], str, dict[str, Any], list[str]]] = [
    ("Bash", {"command": "ls"}, "denied", denial("the user said no"), ["⊘ Run ls · denied"]),
    ("Bash", {"command": "ls"}, "denied", denial("not on a Friday"), ["⊘ Run ls · denied: not on a Friday"]),
    ("Bash", {"command": "ls", "description": "List"}, "denied", denial("the user said no"), ["⊘ Run ls · denied"]),
    ("Edit", {}, "success", {"display": {"diff": "--- a\n+++ a\n@@ -1 +1,2 @@\n-x\n+y\n+z"}}, ["✓ Edited ls · +2 −1"]),
    ("Edit", {}, "success", {"duration_ms": 1500.0}, ["✓ Edited ls · 1.5 s"]),
    ("AskUserQuestion", {}, "success", {"display": {"answers": {"Which?": "Dover"}}}, ["✓ ls? · Dover"]),
    ("Bash", {"command": "ls"}, "success", {}, ["✓ Ran ls"]),
    (
        "Bash",
        {"command": "ls"},
        "error",
        {
            "structured": {"exit_code": 3},
            "error": {"code": "EXECUTION_ERROR", "message": "Exit code 3\nout\nno such file\n[It had no network.]"},
        },
        ["✗ Ran ls · exit 3", "  no such file", "  It had no network."],
    ),
]
"""A call by its tool, its input, and its end; the lines that are drawn of it."""


@for_each_row(("name", "tool_input", "status", "more", "lines"), ENDED)
def test_an_ended_call_is_a_line_with_its_facts(
    name: str, tool_input: dict[str, Any], status: Any, more: dict[str, Any], lines: list[str]
) -> None:
    out = io.StringIO()
    view = LiveView(Console(file=out, width=100), compact=True)
    title = {"Edit": "Edit ls", "AskUserQuestion": "ls?"}.get(name, "ls")
    view.emit(ToolStart((Call({"type": "tool_use", "id": "t", "name": name, "input": tool_input}, title),)))
    end = {"duration_ms": 20.0, **more}
    view.emit(ToolEnd("t", name, status, "…", **end))
    assert [line.rstrip() for line in out.getvalue().splitlines()][: len(lines)] == lines


OURS = "Running `python` needs your approval."


@for_each_row(
    "draw",
    [
        lambda out: styled_writer(out)(OURS, "dim"),
        lambda out: live(out).emit(Notice(OURS, "warning")),
        lambda out: live(out).emit(Retrying(1, 2, 0.0, "API_OVERLOADED", OURS)),
        lambda out: draw_page(CommandPage([Section("Mode", text=OURS)]), out),
        lambda out: draw_fresh_page(CommandPage([Section("New", text=OURS)]), out),
        lambda out: live(out).console.print(
            Menu([OfferedAnswer("1", OURS, OURS)], "", theme_named("light"), compact=False).draw()
        ),
        lambda out: live(out).console.print(drawn_markdown(OURS, theme_named("light"))),
    ],
)
def test_no_message_of_ours_is_drawn_with_backticks(draw: Callable[[Any], object]) -> None:
    out = io.StringIO()
    draw(out)
    assert "Running python needs" in out.getvalue()
    assert "`" not in out.getvalue()


def test_at_80_columns_help_has_a_line_for_each_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = [brief_row(name, command) for name, command in COMMANDS.items()]
    out = io.StringIO()
    draw_page(CommandPage([Section("Commands", brief=[("command", ""), *rows])]), out)
    assert len(out.getvalue().splitlines()) == len(COMMANDS) + 1


def test_the_backticks_of_a_rule_are_its_own() -> None:
    out = io.StringIO()
    rows = [OfferedAnswer("2", "Allow", "rule Bash(echo `date`)", is_rule=True)]
    live(out).console.print(Menu(rows, "", theme_named("none"), compact=False).draw())
    assert "rule Bash(echo `date`)" in out.getvalue()


def live(out: Any) -> LiveView:
    return LiveView(Console(file=out, width=100))


def test_what_wraps_hangs_below_its_first_word() -> None:
    out = io.StringIO()
    console = Console(file=out, width=40)
    rows = [OfferedAnswer("2", "Allow all edits in this folder (tides) for this session")]
    console.print(Menu(rows, "", theme_named("none"), compact=False).draw())
    assert out.getvalue().splitlines()[1].startswith("     ")
    view = LiveView(console, compact=True)
    call = Call({"type": "tool_use", "id": "t", "name": "Bash", "input": {}}, "cat a.txt " * 6)
    view.emit(ToolStart((call,)))
    view.emit(ToolEnd("t", "Bash", "success", "…", 20.0))
    assert "\n  a.txt" in out.getvalue()


ANSWER = """\
| a | b |
|---|---|
| 1 | 2 |

1. one
2. two

```python
x = 1

y = 2
```

- [x] read
- [ ] test
"""


@for_each_row("name", THEMES[1:])
def test_an_answer_has_no_backgrounds_and_no_lines_that_nobody_wrote(name: str) -> None:
    screen = drawn(drawn_markdown(ANSWER, theme_named(name)))  # type: ignore[arg-type]
    assert not re.search(r"\x1b\[(?:[0-9;]*;)?4[0-8]", screen)
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", screen).splitlines()]
    lines = [line for line in lines if not line.startswith("─")]
    assert [line for line in lines if line] == [
        *("a  b", "1  2", " 1. one", " 2. two", "  x = 1", "  y = 2", " ☑ read", " ☐ test"),
    ]
    assert "\n\n\n" not in "\n".join(lines)


def test_numbers_without_a_call_and_empty_lines_are_left_out() -> None:
    out = io.StringIO()
    view = live(out)
    number = Number("2.4", 2.4, 0.1, 0, 3, "unknown", 2)
    answer = [TextDelta("It is 2.4.\n"), TurnEnd({"role": "assistant", "content": []}, "end_turn", {}, "m")]
    for event in (ThinkingDelta("Hm."), *answer, NumbersTraced((number,)), run_end()):
        view.emit(event)
    view.close()
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue()).splitlines()]
    assert lines == ["Thought briefly: Hm.", "", "It is 2.4.", "", "Done · 4.5 s · $0.012"]


def asked(
    *answers: tuple[str, str] | None, following: int = 0, detail: str = "make"
) -> tuple[Any, list[str], list[Any]]:
    """Ask about a call with others behind it, answered by these keys; gives the answer, and what was shown and offered."""
    shown: list[str] = []
    offered: list[Any] = []
    keys = iter(answers)

    def choose(rows: Any, _hint: str) -> tuple[str, str] | None:
        offered.append([row.key for row in rows])
        return next(keys)

    behind = tuple(
        FollowingCall(
            {"id": f"n{number}", "name": "Bash", "input": {}}, Preview(f"Run {number}", detail, "command"), "why"
        )
        for number in range(following)
    )
    rule = Suggestion(("Bash(make *)",), "session", "all make commands, this session")
    use = ToolUse(
        "t", "Bash", {"command": "make", "description": "Build it"},
        Decision("ask", "Running `make` needs your OK.", suggestions=(rule,)),
        Preview("Run make", "make", "command", warning="writes files"), "q", following=behind,
    )  # fmt: skip
    asker = Asker(lambda line, _: shown.append(line), lambda _: None, "terminal", lambda text: text, choose=choose)
    return asker.ask(use), shown, offered


def test_of_a_change_that_cannot_be_made_the_answer_says_what_it_does() -> None:
    labels = {}
    for warning in ("", "Somebody changed this cell since Claude read it: nothing will be changed."):
        offered: list[Any] = []

        def choose(rows: Any, _hint: str, offered: list[Any] = offered) -> tuple[str, str]:
            offered += rows
            return "4", ""

        asker = Asker(lambda _line, _style: None, lambda _: None, "terminal", choose=choose)
        shown = Preview("Edit cell [3]", "", "diff", path="a.ipynb", warning=warning)
        asker.ask(ToolUse("t", "NotebookEdit", {}, Decision("ask", ""), shown, "q"))
        labels[warning != ""] = [row.label for row in offered]
    assert labels == {False: ["Accept", "Reject"], True: ["Let Claude adapt it", "Reject"]}


CARD = """
Claude asks: Edit tides.py
Edits tides.py.
  1 1   def high_tide(levels):
  2   −     return min(levels)  # metres above the lowest low water that was
            ever seen in this harbour
    2 +     return max(levels)  # metres above the lowest low water that was
            ever seen in this harbour

❯ 1  Allow once
  2  Allow edits of tides.py, this session
     rule Edit(tides.py)
  e  Edit first…
  4  Deny
Press 1, 2, e or 4, or ↑ ↓ and Enter. Escape denies.

Claude asks: Two questions
1 of 2: Where to keep it?
❯ 1  Parquet
     small
  2  CSV
     opens anywhere
  3  Other…
  s  Skip
Press 1, 2, 3 or s, or ↑ ↓ and Enter. Escape dismisses.
❯ Storage: Parquet
2 of 2: Which gauges?
❯ 1  ☐ Harbour
  2  ☐ Estuary
  3  Other…
  s  Skip
Press 1, 2, 3 or s, Enter sends what is marked. Escape dismisses.
❯ Gauges: Harbour
"""


def test_cards_fit_a_terminal_of_80_columns() -> None:
    theme, out = theme_named("none"), io.StringIO()
    console = Console(file=out, width=80, force_terminal=True)

    def choose(rows: Any, hint: str, several: bool = False) -> tuple[str, str]:
        console.print(
            Menu(rows, hint, theme, compact=False, several=several, is_apart="denies" in hint, is_ready=True).draw()
        )
        return rows[0].key, ""

    def draw(shown: Preview, _rows: int | None) -> bool:
        console.print(drawn_preview(shown, theme, compact=False))
        return False

    asker = Asker(
        lambda line, _: console.print(line, markup=False), lambda _: None, "terminal", lambda text: text,
        choose=choose, choose_in_time=choose, draw=draw,
    )  # fmt: skip
    rest = "(levels)  # metres above the lowest low water that was ever seen in this harbour"
    diff = f"@@ -1,2 +1,2 @@\n def high_tide(levels):\n-    return min{rest}\n+    return max{rest}\n"
    rule = Suggestion(("Edit(tides.py)",), "session", "edits of tides.py, this session")
    asker.ask(
        ToolUse(
            "t", "Edit", {"file_path": "tides.py"}, Decision("ask", "Edits tides.py.", suggestions=(rule,)),
            Preview("Edit tides.py", diff, "diff", path="tides.py"), "q",
        )
    )  # fmt: skip
    store = {"question": "Where to keep it?", "header": "Storage", "options": [
        {"label": "Parquet", "description": "small"}, {"label": "CSV", "description": "opens anywhere"},
    ]}  # fmt: skip
    gauges = {"question": "Which gauges?", "header": "Gauges", "multiSelect": True, "options": [
        {"label": name, "description": ""} for name in ("Harbour", "Estuary")
    ]}  # fmt: skip
    asked = {"questions": [store, gauges]}
    asker.ask(
        ToolUse("t", "AskUserQuestion", asked, Decision("ask", ""), Preview("Two questions"), "q", kind="question")
    )
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert [line.rstrip() for line in plain.splitlines()] == CARD.removesuffix("\n").split("\n")
    assert all(cell_len(line) <= 80 for line in plain.splitlines())


def test_the_card_has_the_browsers_facts_in_their_order() -> None:
    answer, shown, offered = asked(("2", ""))
    assert shown[1:] == [
        "Claude asks: Run make",
        "Build it",
        "Running `make` needs your OK.",
        "Careful: writes files",
        "  │ make",
        "❯ 2  Allow all make commands, this session",
    ]
    assert offered == [["1", "2", "e", "4"]]
    assert (answer.scope, answer.rules) == ("session", ("Bash(make *)",))


def test_a_allows_the_calls_behind_it_once_they_were_shown_whole() -> None:
    answer, shown, offered = asked(("a", ""), following=1)
    assert answer == Allow(by="terminal", following=True)
    assert "then Run 0" in shown
    assert "❯ a  Allow both" in shown
    answer, shown, offered = asked(("a", ""), ("a", ""), following=2, detail="one\ntwo")
    assert answer == Allow(by="terminal", following=True)
    assert len(offered) == 2
    assert shown.index("then Run 0") < shown.index("  │ two")
    assert asked(("4", ""), following=5)[1][-1] == "5 more wait · a reviews all 6"
    assert "❯ a  Allow all 3" in shown


def test_a_no_says_its_reason_and_an_edited_call_is_no_longer_allowed_with_others() -> None:
    answer, shown, _ = asked(("4", "not on a Friday"))
    assert answer == Deny("not on a Friday", "terminal")
    assert shown[-1] == "  │ make"  # the line of the call says that it was denied
    answer, _, offered = asked(("e", ""), ("\x1b", ""), following=1)
    assert answer == Deny("", "terminal")
    assert ["a" in keys for keys in offered] == [True, False]


def test_logs_hold_no_secrets() -> None:
    environ = {"MY_API_KEY": "abcdefgh-secret", "HOME": "/home/ada", "SHORT_TOKEN": "abc"}
    message = "key abcdefgh-secret, sk-ant-api03-XyZ, Authorization: Bearer abc.def/ghi=, home /home/ada, abc"
    record = logging.LogRecord("x", logging.INFO, "", 0, message, (), None)
    shown = Redacting(environ).format(record)
    marks = [
        f"[secret removed: {kind}]" for kind in ("value of $MY_API_KEY", "Anthropic API key", "authorization header")
    ]
    assert shown.endswith(f"key {marks[0]}, {marks[1]}, Authorization: Bearer {marks[2]}, home /home/ada, abc")


def todos(*statuses: str) -> tuple[dict[str, str], ...]:
    names = ("read\x1b[2J", "fix", "test")
    return tuple({"content": name, "status": status} for name, status in zip(names, statuses, strict=False))


def test_a_page_with_an_answer_is_drawn_as_answers_are() -> None:
    out = io.StringIO()
    answer = Section("By the way", answer="- It was **tides.py**.\x1b[2J")
    draw_page(CommandPage([answer, Section("Beside the conversation", text="It cost $0.01.")]), out)
    title, item, *rest = [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]
    assert title == "By the way"
    assert item.startswith(" • It was tides.py.")
    assert "\x1b" not in item
    assert rest == ["Beside the conversation", "  It cost $0.01."]


def test_of_the_todos_the_lines_that_changed_are_shown() -> None:
    out = io.StringIO()
    view = PlainView(out)
    call = Call({"type": "tool_use", "id": "t", "name": "TodoWrite", "input": {}}, "TodoWrite")
    view.emit(ToolStart((call,)))
    view.emit(TodosChanged(todos("in_progress", "pending")))
    view.emit(ToolEnd("t", "TodoWrite", "success", "kept", 1.0))
    view.emit(TodosChanged(todos("completed", "in_progress")))
    view.emit(TodosChanged(todos("completed", "in_progress", "pending")))
    view.emit(ModeChanged("plan"))
    view.emit(ToolEnd("t", "TodoWrite", "error", "x", 1.0, None, {"code": "X", "message": "no list"}))
    assert out.getvalue().splitlines() == [
        "Todos: 0 of 2 done",
        "  [>] read⟨U+001B⟩[2J",
        "  [ ] fix",
        "Todos: 1 of 2 done",
        "  [x] read⟨U+001B⟩[2J",
        "  [>] fix",
        "Todos: 1 of 3 done",
        "  [x] read⟨U+001B⟩[2J",
        "  [>] fix",
        "  [ ] test",
        "Mode: Plan",
        "* TodoWrite: failed, 0.0 s",
        "  no list",
    ]


@pytest.mark.parametrize("details", [False, True])
def test_an_agent_is_one_line_and_its_steps_are_details(details: bool) -> None:
    from rich.console import Console

    out = io.StringIO()
    view = LiveView(
        Console(file=out, force_terminal=True, width=100, highlight=False, color_system=None), details=details
    )
    hand = Call({"type": "tool_use", "id": "a", "name": "Agent", "input": {}}, "Explore: Find retries")
    look = Call({"type": "tool_use", "id": "t", "name": "Grep", "input": {}}, "Grep: retry")
    for event in (UserPrompt("go", "m"), ToolStart((hand,)), SubagentEvent("a", "id", "Explore", ToolStart((look,)))):
        view.emit(event)
    first, *steps = [line.plain for line in view._status()]
    assert first.endswith("· 1 tool call · Grep: retry")
    assert steps == (["  Grep: retry"] if details else [])
    end = RunEnd("end_turn", "", {"output_tokens": 300}, 0.02, 900.0, 2, 1, 0)
    view.emit(SubagentEvent("a", "id", "Explore", end))
    view.emit(ToolEnd("a", "Agent", "success", "It is in a.py", 900.0))
    view.close()
    assert "✓ Agent: Explore: Find retries · 1 tool call · $0.020 · 300 tokens" in out.getvalue()


def luminance(triplet: tuple[int, int, int]) -> float:
    parts = [value / 255 for value in triplet]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Color, other: Color) -> float:
    dark, bright = sorted(luminance(each.get_truecolor()) for each in (one, other))
    return (bright + 0.05) / (dark + 0.05)


GROUNDS = {"dark": "#1e1e1e", "dark-daltonized": "#1e1e1e", "light": "#ffffff", "light-daltonized": "#ffffff"}
"""Of the themes with colours of their own; the others draw in the terminal's, on its own background."""


@for_each_row("name", list(GROUNDS))
def test_each_colour_of_a_theme_is_readable_on_its_ground(name: Any) -> None:
    theme = theme_named(name)
    behind = {"accent": theme.accent, "added": theme.added_words, "removed": theme.removed_words}
    low = {}
    for use, style in {**theme.styles, **theme.markdown, **behind}.items():
        drawn = Style.parse(style)
        if drawn.color is not None:
            back = drawn.bgcolor or Color.parse(GROUNDS[name])
            if (ratio := contrast(drawn.color, back)) < 4.5:
                low[use] = ratio
    assert not low


@for_each_row("name", THEMES[1:])
def test_each_colour_of_code_is_readable_on_each_band_of_a_diff(name: Any) -> None:
    theme = theme_named(name)
    bands = [band for band in (Style.parse(each).bgcolor for each in (theme.added, theme.removed)) if band]
    assert bool(bands) == (name in GROUNDS)
    bands += [Color.parse(GROUNDS[name])] if name in GROUNDS else []
    low = {}
    for token in STANDARD_TYPES:
        color = theme.code.get_style_for_token(token).color
        for band in bands if color is not None else ():
            for system in (ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT):
                ratio = contrast(color.downgrade(system), band.downgrade(system))
                if ratio < 4.5:
                    low[token, band.name, system.name] = ratio
    assert not low


def test_help_lists_each_command_in_one_group() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)
