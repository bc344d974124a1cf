"""What a run leaves in the notebook."""

from __future__ import annotations

import base64
import io
from typing import Any

from markdown_it import MarkdownIt
from PIL import Image

from cellwright.events import (
    Asked,
    Call,
    Changed,
    Event,
    Notice,
    Preview,
    Retrying,
    RunEnd,
    Steered,
    TextDelta,
    ThinkingDelta,
    TodosChanged,
    ToolEnd,
    ToolStart,
    TurnChanged,
    TurnEnd,
    UserPrompt,
)
from cellwright.kernel.output.code_displays import PICTURES_BYTES, kept_displays
from cellwright.kernel.output.saved_markdown import (
    SavedTranscript,
    short_plain,
)
from cellwright.telemetry.view_limits import KEPT_OF_RUN

DIFF = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = '```'\n"


def call(id: str, name: str, title: str) -> Call:
    return Call({"type": "tool_use", "id": id, "name": name, "input": {}}, title)


def turn_end(stop_reason: str = "tool_use") -> TurnEnd:
    return TurnEnd({"role": "assistant", "content": []}, stop_reason, {}, "claude-opus-5-5", context_tokens=5230)


def run_end(stop_reason: str = "end_turn", error: dict[str, Any] | None = None) -> RunEnd:
    return RunEnd(stop_reason, "", {}, 0.0123, 65_000.0, 2, 2, 1, session_cost_usd=0.5, error=error)


def saved(*events: Event, quiet: bool = False) -> SavedTranscript:
    transcript = SavedTranscript(quiet=quiet)
    for event in events:
        transcript.emit(event)
    return transcript


WHOLE_RUN: tuple[Event, ...] = (
    UserPrompt("fix it", "claude-opus-5-5"),
    ThinkingDelta("secret thoughts", 0),
    TextDelta("I look ", 1),
    TextDelta("at it.", 1),
    turn_end(),
    ToolStart((call("t1", "Read", "a.py"), call("t2", "Grep", "Grep `x`\nin all")), parallel=True),
    ToolEnd("t1", "Read", "success", "x = 1", 12.0),
    ToolEnd("t2", "Grep", "success", "a.py:1", 1500.0),
    ToolStart((call("t3", "Edit", "a.py"),)),
    ToolEnd("t3", "Edit", "success", "Edited.", 3.0, {"diff": DIFF}),
    ToolStart((call("t4", "Bash", "rm -rf x"),)),
    ToolEnd("t4", "Bash", "denied", "no", 0.0, None, {"code": "PERMISSION_DENIED", "message": "the user\nsaid no"}),
    Notice("just so you know"),
    Notice("the session was forked", "warning"),
    TextDelta("**Done**: see `a.py`.", 0),
    turn_end("end_turn"),
    run_end(),
)


def test_the_answer_the_tools_the_diff_and_the_cost():
    assert saved(*WHOLE_RUN).markdown() == (
        "<details open><summary>4 steps · 1 denied · a.py +1 −1</summary>\n\n"
        "I look at it.\n\n"
        "- ✓ Read: `a.py` · 12 ms\n"
        "- ✓ Grep &#96;x&#96; in all · 1.5 s\n"
        "- ✓ Edit: `a.py` · 3 ms\n"
        "- ✗ Run `rm -rf x` · denied: `the user said no`\n\n"
        "<details><summary>Changes: Edit: a.py</summary>\n\n"
        "````diff\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = '```'\n````\n\n"
        "</details>\n\n</details>\n\n"
        "*the session was forked*\n\n"
        "**Done**: see `a.py`.\n\n"
        "*Opus 5.5* · *1 min 5 s* · *\\$0.012*"
    )


def test_the_line_of_the_steps_counts_changes_as_the_last_line_does():
    def edits(*names: str, more: tuple[Event, ...] = (), changes: TurnChanged) -> str:
        calls = [
            each
            for at, name in enumerate(names)
            for each in (
                ToolStart((call(f"t{at}", "Edit", name),)),
                ToolEnd(f"t{at}", "Edit", "success", "Edited.", 3.0, {"diff": DIFF.replace("a.py", name)}),
            )
        ]
        end = TextDelta("Done.", 0), turn_end("end_turn"), changes, run_end()
        return saved(*calls, turn_end(), *more, *end).markdown()

    names = "a.py", "n.ipynb#c1", "n.ipynb#c2", "n.ipynb#c2"
    file, notebook, cell = Changed("a.py", "changed"), Changed("n.ipynb", "changed"), Changed("cell [1]", "changed")
    open_in_page = edits(*names, changes=TurnChanged(1, (file,), (cell, cell)))
    assert "<summary>4 steps · 1 file, 2 cells +4 −4</summary>" in open_in_page
    assert "1 file, 2 cells changed" in open_in_page
    assert "4 steps · 2 files +4 −4" in edits(*names, changes=TurnChanged(1, (file, notebook)))
    accept = (
        ToolStart((call("p", "AcceptPreview", "Preview"),)),
        ToolEnd("p", "AcceptPreview", "success", "accepted", 1.0),
    )
    preview = edits(*names, more=accept, changes=TurnChanged(1, (file,)))
    assert "<summary>5 steps</summary>" in preview
    assert "1 file changed" in preview


def test_plain_text_says_the_same_without_markup_of_ours():
    plain = saved(*WHOLE_RUN).plain()
    assert "✓ Read: a.py · 12 ms" in plain
    assert "✗ Run rm -rf x · denied: the user said no" in plain
    assert "**Done**: see `a.py`." in plain
    assert "details" not in plain
    assert "secret thoughts" not in plain


def test_steps_fold_and_what_people_read_stays():
    def read(*ids: str) -> list[Event]:
        calls = call(ids[0], "Read", "Read a.py"), call(ids[1], "Grep", "Search for “x”")
        ends = ToolEnd(ids[0], "Read", "success", "x", 10.0), ToolEnd(ids[1], "Grep", "success", "x", 20.0)
        return [ToolStart(calls), *ends]

    first = TextDelta("First.", 0), turn_end(), *read("t1", "t2")
    answer = saved(*first, TextDelta("# All\n\nof it", 0), turn_end(), *read("t3", "t4"), run_end())
    blocks = answer.markdown().split("\n\n")
    assert [block for block in blocks if "details" in block or "#" in block] == [
        "<details><summary>2 steps</summary>",
        "</details>",
        "# All",
        "<details><summary>2 steps</summary>",
        "</details>",
    ]
    assert blocks[1:3] == ["First.", "- ✓ Read a.py · 10 ms\n- ✓ Searched for “x” · 20 ms"]
    assert "details" not in saved(*first).markdown()


def test_a_quiet_cell_keeps_the_answer_alone():
    assert saved(*WHOLE_RUN, quiet=True).markdown() == (
        "I look at it.\n\n*the session was forked*\n\n**Done**: see `a.py`."
    )


def test_what_streamed_and_is_void_is_not_kept():
    again = Retrying(1, 8, 1.0, "API_OVERLOADED", "busy")
    streamed = TextDelta("same", 0), turn_end(), TextDelta("same", 0), again, TextDelta("new", 0)
    # until as much of the new answer has come, what was read stays, marked
    marked = "> *The connection broke. So far:*\n>\n> same"
    assert saved(*streamed).markdown() == f"same\n\n{marked}\n\nnew"
    assert saved(*streamed).plain() == "same\n\nThe connection broke. So far:\nsame\n\nnew"
    assert saved(*streamed, TextDelta("er", 0)).markdown() == "same\n\nnewer"
    assert saved(*streamed, turn_end(), run_end()).markdown().startswith("same\n\nnew\n\n")
    lost = run_end("error", {"code": "API_NETWORK_ERROR", "message": "no answer"})
    assert marked in saved(*streamed[:4], lost).markdown()
    refused = saved(TextDelta("half", 0), turn_end("refusal"), run_end("refusal", {"code": "REFUSED", "message": "no"}))
    assert "half" not in refused.markdown()
    assert "**Refused:** no" in refused.markdown()


def test_an_interrupted_run_keeps_what_there_was():
    error = {"code": "INTERRUPTED", "message": "Interrupted."}
    markdown = saved(
        TextDelta("half an ans", 0),
        turn_end(),
        ToolStart((call("t", "Bash", "sleep 9"),)),
        run_end("interrupted", error),
    ).markdown()
    assert markdown.startswith("half an ans\n\n- ✗ Ran `sleep 9` · interrupted\n\n**Stopped.**")


def test_a_run_that_could_not_begin_is_its_error_alone():
    error = {"code": "PERMISSION_DENIED", "message": "Nothing was sent.", "details": {}, "recoverable": False}
    end = RunEnd("error", "", {}, 0.0, 1_100.0, 0, 0, 0, error=error)
    assert saved(end).markdown() == "**Failed:** Nothing was sent."


def test_amounts_in_dollars_are_no_formula():
    error = {"code": "BUDGET_EXCEEDED", "message": "Stopped before $0.50 is passed: $0.4900 is spent, $1,000.00."}
    markdown = saved(Notice("$1 and $2", "warning"), run_end("budget", error)).markdown()
    assert "$" not in markdown.replace("\\$", ""), "but where it stands alone in its element"
    dollar = "<span>&#36;</span>"  # in an element of its own, where MathJax finds no second one
    assert f"*{dollar}1 and {dollar}2*" in markdown
    assert f"Stopped before {dollar}0.50 is passed: {dollar}0.4900 is spent, {dollar}1,000.00." in markdown


def test_before_anything_happened_it_says_so():
    assert saved().markdown() == "*No answer.*"
    assert saved().plain() == "No answer."


def test_nothing_of_the_models_or_a_tools_is_active():
    evil = "<img src=https://evil.example> ![x](https://evil.example) </details>"
    transcript = saved(
        TextDelta(evil, 0),
        ToolStart((call("t", "Edit", evil),)),
        ToolEnd("t", "Edit", "error", "", 1.0, {"diff": f"```\n{evil}"}, {"code": "X", "message": f"`{evil}"}),
        Notice(evil, "error"),
        run_end("error", {"code": "API_NETWORK_ERROR", "message": evil}),
    )
    tokens = MarkdownIt("commonmark", {"html": True}).parse(transcript.markdown())
    kinds = [child.type for token in tokens for child in (token, *(token.children or ()))]
    html = [token.content.strip() for token in tokens if token.type == "html_block"]
    assert "image" not in kinds
    assert "html_inline" not in kinds
    assert len(html) == 2
    assert html[0].startswith("<details><summary>Changes: Edit: &#60;img")
    assert html[1] == "</details>"


def test_what_is_said_again_stands_there_once() -> None:
    notice = Notice("The answer was cut off.", "warning")
    markdown = saved(notice, TextDelta("Half", 0), notice, Notice("Other.", "warning"), notice, run_end()).markdown()
    assert markdown.count("The answer was cut off") == 1
    assert "(3 times)" in markdown.replace("\\", "")


def todo(content: str, status: str) -> dict[str, str]:
    return {"content": content, "status": status, "activeForm": f"doing {content}"}


def test_the_last_state_of_the_todos_is_kept_as_a_task_list_and_their_calls_are_not():
    first = (todo("read", "in_progress"), todo("write <b>", "pending"))
    last = (todo("read", "completed"), todo("write <b>", "in_progress"), todo("test", "pending"))
    run = (
        TextDelta("Begin.", 0),
        turn_end(),
        ToolStart((call("t1", "TodoWrite", "TodoWrite"),)),
        TodosChanged(first),
        ToolEnd("t1", "TodoWrite", "success", "kept", 1.0),
        ToolStart((call("t2", "TodoWrite", "TodoWrite"),)),
        ToolEnd("t2", "TodoWrite", "error", "bad", 1.0, None, {"code": "INVALID_PARAMETERS", "message": "no status"}),
        TodosChanged(last),
        run_end(),
    )
    kept = saved(*run)
    markdown, plain = kept.markdown(), kept.plain()
    assert "**Todos** · 1 of 3 done\n\n- [x] read\n- [ ] write &lt;b>\n- [ ] test\n" in f"{markdown}\n"
    assert "Todos: 1 of 3 done\n[x] read\n[ ] write <b>\n[ ] test" in plain
    assert markdown.count("TodoWrite") == plain.count("TodoWrite") == 1
    assert "no status" in markdown
    assert "read" not in saved(*run, quiet=True).markdown()


def test_what_the_user_answered_and_approved_is_kept():
    run = (
        ToolStart((call("t1", "AskUserQuestion", "Where to?"),)),
        ToolEnd("t1", "AskUserQuestion", "success", "…", 1.0, {"answers": {"Where to?": "the `attic`"}}),
        ToolStart((call("t2", "ExitPlanMode", "Plan"),)),
        ToolEnd("t2", "ExitPlanMode", "success", "…", 1.0, {"plan": "1. **Do** it </details><img src=x>\n"}),
        run_end(),
    )
    kept = saved(*run)
    assert "- ✓ Where to? · 1 ms\n  - Where to? → the &#96;attic&#96;\n- ✓ Plan: Plan" in (kept.markdown())
    assert (
        "<details><summary>The plan, as approved</summary>\n\n1. **Do** it &lt;/details>&lt;img src=x>\n\n</details>"
        in kept.markdown()
    )
    assert "✓ Where to? · 1 ms\n  Where to? → the `attic`" in kept.plain()


def test_a_command_that_failed_is_told_in_a_line():
    error = {"code": "EXECUTION_ERROR", "message": "Exit code 1\n=====\nFAIL: test_tides\n"}
    markdown = saved(
        ToolStart((call("t", "Bash", "pytest"),)), ToolEnd("t", "Bash", "error", "x", 5.0, None, error), run_end()
    ).markdown()
    assert "- ✗ Ran `pytest` · error: `Exit code 1`\n" in markdown
    assert "FAIL" not in markdown


def test_a_played_turn_reads_the_same_each_time():
    run = SavedTranscript()
    run.emit(UserPrompt("go", "claude-opus-5-5"))
    use = {"type": "tool_use", "id": "a", "name": "Bash", "input": {}}
    message = {"role": "assistant", "content": [use]}
    run.emit(TurnEnd(message, "tool_use", {}, "claude-opus-5-5", cost_usd=0.0, context_tokens=900, replayed=True))
    run.emit(ToolStart((Call(use, "Bash: make"),)))
    run.emit(ToolEnd("a", "Bash", "success", "made", 1234.5))
    run.emit(RunEnd("end_turn", "", {}, 0.0, 2345.6, 1, 1, 0, session_cost_usd=0.0))
    assert run.markdown() == "- ✓ Ran `make`\n\n*Opus 5.5* · *replayed, nothing was sent*"
    assert run.plain() == "✓ Ran make\n\nOpus 5.5 · replayed, nothing was sent"


def test_the_model_that_answered_is_named():
    message = {"role": "assistant", "content": []}
    run = saved(
        UserPrompt("go", "claude-opus-5-5"), TurnEnd(message, "end_turn", {}, "claude-sonnet-5-5-20260101"), run_end()
    )
    assert "*Sonnet 5.5*" in run.markdown()
    assert "Opus" not in run.markdown()


def test_a_long_answer_is_kept_up_to_a_limit_and_the_rest_is_in_the_transcript():
    whole, longer = "w" * 80_000, "a" * 150_000
    run = SavedTranscript(quiet=True)
    run.emit(TextDelta(whole))
    assert run.markdown() == whole
    run = SavedTranscript(quiet=True)
    run.emit(TextDelta("First.", 0))
    run.emit(TextDelta(longer, 1))
    assert len(run.markdown()) < KEPT_OF_RUN.answer + 500
    # what came last is the answer: it has the room, and what came before it none
    assert run.markdown().endswith("*… 50,000 characters more are in the session's transcript: /export writes it out*")
    assert "First." not in run.markdown()
    assert len(run.plain()) > 150_000
    assert len(short_plain(run.plain())) < KEPT_OF_RUN.plain + 200
    assert "142,0" in short_plain(run.plain())


def test_the_diffs_of_a_run_share_a_limit():
    run = SavedTranscript()
    for number in range(8):
        use = {"type": "tool_use", "id": str(number), "name": "Edit", "input": {}}
        run.emit(ToolStart((Call(use, f"Edit {number}.py"),)))
        run.emit(ToolEnd(str(number), "Edit", "success", "ok", 1.0, display={"diff": "+x\n" * 5_000}))
    assert KEPT_OF_RUN.diffs < len(run.markdown()) < KEPT_OF_RUN.diffs + 3_000
    assert "5,000 characters more are in the session's transcript" in run.markdown()


def test_pictures_are_made_smaller_until_they_fit():
    noise = Image.effect_noise((1800, 1400), 90).convert("RGB")
    out = io.BytesIO()
    noise.save(out, "PNG")
    large = {"image/png": base64.b64encode(out.getvalue()).decode(), "text/plain": "<Figure>"}
    kept = kept_displays([large] * 9, str)
    sizes = [len(picture["image/png"]) * 3 // 4 for picture in kept if "image/png" in picture]
    assert out.tell() > 2_000_000
    assert max(sizes) < 600_000
    assert sum(sizes) <= PICTURES_BYTES
    assert len(kept) == 9
    assert kept[-1]["text/plain"].endswith("bytes: not kept in the notebook]")
    small = {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"}
    assert kept_displays([small], str) == [small]


def test_words_of_the_user_stand_where_claude_got_them():
    kept = saved(
        TextDelta("Before."),
        Steered("a", "Use tabs.", "waiting"),
        Steered("gone", "Never mind.", "waiting"),
        Steered("gone", "Never mind.", "withdrawn"),
        Steered("late", "And:\n\n<b>one</b>\n![x](https://e.org/x)", "waiting", "queue"),
        turn_end(),
        Steered("a", "Use tabs.", "delivered"),
        TextDelta("After."),
        turn_end(),
        run_end(),
    )
    text = kept.markdown()
    assert (
        text.index("Before.") < text.index("> **You:** Use tabs.") < text.index("After.") < text.index("Not delivered")
    )
    assert "Never mind" not in text
    assert "<b>" not in text
    assert "![x]" not in text
    assert "> And:" in text
    assert "You: Use tabs." in kept.plain()
    assert "Not delivered" in kept.plain()


def test_a_call_without_an_end_is_interrupted_only_once_the_run_is_over():
    write = call("w", "Write", "Write two.txt")
    asked = Asked("q", write.tool_use, Preview("Write two.txt"), "")
    assert "- … Write two.txt · running" in saved(ToolStart((write,))).markdown()
    assert "… Write two.txt · waiting for you" in saved(ToolStart((write,)), asked).plain()
    over = saved(ToolStart((write,)), asked, run_end("interrupted", {"code": "INTERRUPTED", "message": "Interrupted."}))
    assert "Write two.txt · interrupted" in over.markdown()


def test_a_refusal_does_not_say_the_tool_twice():
    no = {"code": "DENIED", "message": "Write was not allowed: there was no answer"}
    end = ToolEnd("w", "Write", "denied", "", 1.0, error=no)
    assert (
        "Write two.txt · denied: `there was no answer`"
        in saved(ToolStart((call("w", "Write", "Write two.txt"),)), end).markdown()
    )
