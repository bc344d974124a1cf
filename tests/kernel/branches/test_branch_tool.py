"""The tool `Branch` in a real kernel, as Claude's loop calls it from a cell: unasked, confined, and nothing stays."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_panel import ChatPanel
from everyday_calls import CALLS, SETUP
from notebook_kernel import Cell, NotebookKernel, Page, model_of, running_kernel

from cellwright.kernel.branches.bounds import branches_enforced
from cellwright.testing import MessagesServer, say, turn, use
from eventual import eventually

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(
        sys.platform != "linux" or branches_enforced() is not None, reason="this system confines no branch"
    ),
]

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()


def results(model: MessagesServer) -> list[dict[str, Any]]:
    """The tool results of the last request."""
    return results_of(model.requests[-1].body["messages"])


def results_of(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tool results of the last message."""
    content = messages[-1]["content"]
    return [block for block in content if isinstance(block, dict) and block["type"] == "tool_result"]


def text_of(result: dict[str, Any]) -> str:
    content = result["content"]
    return content if isinstance(content, str) else "\n".join(block.get("text", "[image]") for block in content)


def ask(kernel: NotebookKernel, model: MessagesServer, *codes: str, options: str = "--new") -> Cell:
    model.add(*(use("Branch", code=code) for code in codes), say("Done."))
    return kernel.run(f"%%claude {options}\ngo")


def test_what_a_branch_does_stays_there_and_goes_on_with_its_next_call(
    kernel: NotebookKernel, page: Page, model: MessagesServer
) -> None:
    kernel.run("numbers = [1, 2, 3]")
    cell = ask(kernel, model, "numbers.append(4)\nsum(numbers)", "extra = 5\nsum(numbers) + extra")
    assert cell.status == "ok", cell.error
    said = [
        text_of(block)
        for message in model.requests[-1].body["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else [])
        if block["type"] == "tool_result"
    ]
    assert said[0].startswith("[New branch: your variables as of ")
    assert ", before cell [" in said[0]
    assert said[0].endswith("\n10")
    assert said[1].startswith("[Your variables as of ")
    assert said[1].endswith("\n15")
    assert kernel.value("numbers, 'extra' in globals()") == "([1, 2, 3], False)"
    assert not [op for op in page.ops if op["op"] == "ask"]
    notices = [op["text"] for op in page.ops if op["op"] == "notice"]
    assert sum("confined copy of your kernel" in notice for notice in notices) == 1


def test_a_turn_begins_with_the_kernel_as_it_is_and_so_does_a_call_after_code_in_the_kernel(
    kernel: NotebookKernel, model: MessagesServer
) -> None:
    kernel.run("state = 'as the user left it'")
    model.add(
        use("Branch", code="state = 'tried'"),
        use("Python", code="state = 'kept'"),
        use("Branch", code="state"),
        say("Done."),
    )
    cell = kernel.run("%%claude --allow Python\ngo")
    assert cell.status == "ok", cell.error
    [last] = results(model)
    assert text_of(last).endswith("'kept'")
    assert text_of(last).startswith("[New branch")
    ask(kernel, model, "state", options="")
    assert text_of(results(model)[0]).endswith("'kept'")


def test_errors_magics_await_and_refusals_are_results(
    kernel: NotebookKernel, model: MessagesServer, project: Path
) -> None:
    code = """
import asyncio, pathlib, socket
await asyncio.sleep(0)
%time 1
!echo from a process
for tried in (lambda: pathlib.Path('made.txt').write_text('x'), lambda: socket.create_connection(('127.0.0.1', 9), 1)):
    try:
        tried()
    except OSError as error:
        print(type(error).__name__)
1 / 0
"""
    cell = ask(kernel, model, code)
    assert cell.status == "ok", cell.error
    [result] = results(model)
    said = text_of(result)
    assert result["is_error"]
    assert "from a process" in said
    assert said.count("PermissionError") == 2
    assert "ZeroDivisionError" in said
    assert not (project / "made.txt").exists()


def test_pictures_come_back_and_what_is_displayed_is_passive(
    kernel: NotebookKernel, page: Page, model: MessagesServer
) -> None:
    code = f"""
from IPython.display import HTML, Javascript, display
kept = 7  # the step's title
display(HTML('<table><tr><td onclick="x()">7</td></tr></table><script>evil()</script>'))
display(Javascript('evil()'))
display({{'image/png': {PNG!r}, 'text/plain': 'a picture'}}, raw=True)
"""
    cell = ask(kernel, model, code)
    assert cell.status == "ok", cell.error
    shown = json.dumps(cell.outputs)
    assert "evil" not in shown.replace(json.dumps(code)[1:-1], "")
    tables = [output for output in cell.outputs if "<td>7</td>" in str(output)]
    assert tables


def test_a_branch_that_takes_too_long_is_stopped_and_says_so(kernel: NotebookKernel, model: MessagesServer) -> None:
    model.add(use("Branch", code="while True: pass", timeout_seconds=1), say("Done."))
    assert kernel.run("%%claude --new\ngo").status == "ok"
    [result] = results(model)
    assert result["is_error"]
    assert "took longer than 1 s" in text_of(result)


def test_the_options_of_a_cell_ask_or_switch_it_off(kernel: NotebookKernel, page: Page, model: MessagesServer) -> None:
    model.add(use("Branch", code="40 + 2"), say("Done."))
    cell = kernel.begin("%%claude --new --branches ask\ngo")
    asked = page.wait_for_op("ask", cell)
    assert asked["detail"] == "40 + 2"
    page.answer(asked["question"], "allow")
    kernel.finish(cell)
    assert text_of(results(model)[0]).endswith("\n42")
    ask(kernel, model, "1", options="--branches off")
    assert "switched off" in text_of(results(model)[0])


def test_agents_have_branches_of_their_own(kernel: NotebookKernel, model: MessagesServer) -> None:
    kernel.run("shared = 1")

    def hand(prompt: str) -> Any:
        return use("Agent", description=prompt, prompt=prompt)

    model.add(
        turn(hand("try one"), hand("try two")),
        turn(use("Branch", code="shared += 10\nshared"), when="try one"),
        turn(use("Branch", code="shared += 10\nshared"), when="try two"),
        say("Tried."),
        say("Tried."),
        say("Both."),
    )
    cell = kernel.run("%%claude --new\ngo")
    assert cell.status == "ok", cell.error
    ends = [result for request in model.requests[-5:] for result in results_of(request.body["messages"])]
    assert [text_of(end).rpartition("\n")[2] for end in ends if "New branch" in text_of(end)] == ["11", "11"]
    assert kernel.value("shared") == "1"


def test_the_page_of_branches_and_code_of_one_run_in_the_kernel(
    kernel: NotebookKernel, page: Page, model: MessagesServer
) -> None:
    ask(kernel, model, "kept_name = 'from a branch'\nkept_name")
    [result] = results(model)
    assert "cellwright.branches: on" in str(kernel.run("%claude /branches").outputs)
    assert "was not found" in kernel.run("%claude /branches stop nobody").error
    assert kernel.value("'kept_name' in globals()") == "False"
    cell = kernel.begin(f"%claude /branches run {result['tool_use_id']}")
    asked = page.wait_for_op("ask", cell)
    assert (asked["name"], asked["detail"]) == ("Python", "kept_name = 'from a branch'\nkept_name")
    page.answer(asked["question"], "allow", scope="session", rules=["Python"])
    kernel.finish(cell)
    assert cell.status == "ok", cell.error
    assert "from a branch" in str(cell.outputs)
    assert kernel.value("kept_name") == "'from a branch'"
    # what was allowed for the session holds for it
    assert kernel.run(f"%claude /branches run {result['tool_use_id']}").status == "ok"
    unknown = kernel.run("%claude /branches run toolu_unknown")
    assert "was not found in this session" in unknown.error


def test_a_run_of_the_panel_gets_values_beside_a_cell_that_runs_and_else_a_copy(
    kernel: NotebookKernel, panel: ChatPanel, model: MessagesServer, project: Path
) -> None:
    waits = "import os, time\nprint('[begun]', flush=True)\nwhile not os.path.exists({!r}): time.sleep(0.01)"
    first, second = (str(project / name) for name in ("go-on-1", "go-on-2"))
    kernel.run("seen = 'as it was'")
    model.add(use("Branch", code="seen"), say("Busy."))
    busy = kernel.begin(waits.format(first))
    kernel.wait_for(lambda _: "[begun]" in busy.stdout, busy)
    panel.wait_for_end(panel.prompt("look"))
    [result] = results(model)
    assert text_of(result).startswith(
        "[A cell of the user's is running, so there is no moment to copy the kernel. So this"
    )
    assert text_of(result).endswith("'as it was'")
    Path(first).touch()
    assert kernel.finish(busy).status == "ok"

    model.add(use("Branch", code=f"{waits.format(second)}\nseen"), say("Seen."))
    run = panel.prompt("look again")
    panel.wait_for_op(run, "output")
    assert kernel.run("seen = 'changed meanwhile'").status == "ok"
    Path(second).touch()
    panel.wait_for_end(run)
    [result] = results(model)
    assert text_of(result).endswith("'as it was'")
    assert ", after cell [" in text_of(result)
    assert kernel.value("seen") == "'changed meanwhile'"


def test_an_agent_with_a_branch_is_told_the_variables_of_that(kernel: NotebookKernel, model: MessagesServer) -> None:
    kernel.run("shared = [1]")
    model.add(
        use("Agent", description="look", prompt="look"),
        use("Variables", names=["shared"]),
        use("Branch", code="shared = {'a': 1}; own = 2"),
        use("Variables", names=["shared", "own"]),
        use("Variables", names=["nothing"]),
        say("Looked."),
        use("Branch", code="shared = 'in the branch of Claude'"),
        use("Variables", names=["shared"]),
        say("Done."),
    )
    cell = kernel.run("%%claude --new\ngo")
    assert cell.status == "ok", cell.error
    said = [text_of(result) for request in model.requests[-9:] for result in results_of(request.body["messages"])]
    before, _, inside, missing = said[:4]
    assert before.startswith("shared: list")
    assert inside.startswith("[In your branch. Your variables as of ")
    assert "shared: dict" in inside
    assert "own: int" in inside
    assert "Variable nothing was not found" in missing
    assert said[-1].startswith("shared: list")
    assert kernel.value("shared, 'own' in globals()") == "([1], False)"


def test_errors_are_as_short_as_those_of_python(kernel: NotebookKernel, model: MessagesServer) -> None:
    code = "import json\ndef read(text):\n    return json.loads(text)\nread('{')"
    model.add(use("Branch", code=code), use("Branch", code="read('[')"), use("Branch", code="1 +"), say("Done."))
    model_asked = len(model.requests)
    assert kernel.run("%%claude --new\ngo").status == "ok"
    first, second, third = (
        text_of(result)
        for request in model.requests[model_asked + 1 :]
        for result in results_of(request.body["messages"])
    )
    assert "<this call's code>" in first
    assert "scanner.py" not in first
    assert "decoder.py" in first  # where it was raised
    assert "JSONDecodeError" in first
    assert "\x1b" not in first
    assert "<an earlier call's code>" in second
    assert "SyntaxError: invalid syntax" in third


def test_a_variable_of_the_branch_is_taken_into_the_kernel_as_data(
    kernel: NotebookKernel, panel: ChatPanel, model: MessagesServer
) -> None:
    pytest.importorskip("pyarrow")
    code = """
import pandas as pd, os
class Evil:
    def __reduce__(self): return os.system, ("touch evil.txt",)
top = pd.DataFrame({"city": ["a"] * 120, "price": range(120)})
evil, scores = Evil(), {"ridge": 0.5}
"""
    kernel.run("mine = 1")
    ask(kernel, model, code)
    assert kernel.value("'top' in globals()") == "False"
    cell = kernel.run("%claude /branches keep top as best")
    assert cell.status == "ok", cell.error
    assert "120 rows × 2 columns" in str(cell.outputs)
    assert kernel.value("len(best), int(best.price.sum()), 'top' in globals()") == "(120, 7140, False)"
    # it rests, and is asked again
    assert kernel.run("%claude /branches keep scores").status == "ok"
    assert kernel.value("scores") == "{'ridge': 0.5}"
    refused = {
        "evil": "Evil is no frame",
        "nothing": "The branch has no variable nothing",
        "top as mine": "Your kernel has mine already",
        "top as len": "Your kernel has len already",
        "top as class": "cannot be the name of a variable",
        "top.city": "cannot be the name of a variable",
    }
    for names, why in refused.items():
        assert why in kernel.run(f"%claude /branches keep {names}").error, names
    assert kernel.value("mine, 'evil' in globals(), __import__('os').path.exists('evil.txt')") == "(1, False, False)"
    listed = str(kernel.run("%claude /branches").outputs)
    assert "| Claude" in listed
    assert "| waiting" in listed
    # the next prompt ends it
    model.add(say("Yes."))
    assert kernel.run("%%claude\nall right?").status == "ok"
    assert "There is no branch" in kernel.run("%claude /branches keep top").error


def test_a_branch_that_rests_runs_nothing(kernel: NotebookKernel, model: MessagesServer, project: Path) -> None:
    code = """
import subprocess, threading, time
left = subprocess.Popen(["sleep", "600"], start_new_session=True, env={})
counted = 0
def count():
    global counted
    while True:
        counted += 1
        time.sleep(0.001)
threading.Thread(target=count, daemon=True).start()
print(left.pid)
"""
    ask(kernel, model, code)
    pid = int(text_of(results(model)[0]).rpartition("\n")[2])
    eventually(lambda: not _runs(pid))  # what it started has ended
    [snapshot] = [each for each in _children(int(kernel.value("__import__('os').getpid()"))) if _children(each)]
    # the snapshot's other child is the copy that is kept for undo: it runs no code of the branch, and waits
    eventually(lambda: sorted(_state(each) for each in _children(snapshot)) == ["S", "T"])
    assert kernel.run("%claude /branches keep counted").status == "ok"
    eventually(lambda: sorted(_state(each) for each in _children(snapshot)) == ["S", "T"])


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has just ended
            found += map(int, listed.read_text("ascii").split())
    return found


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def _runs(pid: int) -> bool:
    return _state(pid) not in ("", "Z", "X")


def test_a_recording_is_shown_and_its_code_does_not_run_again(
    tmp_path: Path, messages_server: Callable[..., MessagesServer]
) -> None:
    data = {"JUPYTER_DATA_DIR": str(tmp_path / "jupyter"), "JPY_SESSION_NAME": str(tmp_path / "n.ipynb")}
    server = messages_server([use("Branch", code="import time; stamp = time.time_ns()\nstamp"), say("Then.")])
    with running_kernel(tmp_path, {**model_of(server), **data}) as kernel:
        kernel.run("%load_ext cellwright")
        kernel.run("%config Claude.record = 'auto'")
        assert kernel.run("%%claude\nWhen?").status == "ok"
    [result] = results(server)
    stamp = text_of(result).rpartition("\n")[2]
    assert stamp.isdigit()
    with running_kernel(tmp_path, {"ANTHROPIC_BASE_URL": server.url, **data}) as kernel:
        kernel.run("%load_ext cellwright")
        kernel.run("%config Claude.replay = 'auto'")
        cell = kernel.run("%%claude\nWhen?")
        assert cell.status == "ok", cell.error
        assert stamp in str(cell.outputs)
        assert "Claude has no branch" in str(kernel.run("%claude /branches").outputs)
        assert "There is no branch" in kernel.run("%claude /branches keep stamp").error
        assert "cellwright-forker" not in kernel.value("[each.name for each in __import__('threading').enumerate()]")
    assert server.remaining_turns == 0


BUSY = """
import threading
rests, count = threading.Event(), 7
def compute():
    while not rests.is_set():
        sum(range(1000))
threading.Thread(target=compute).start()
"""


def test_the_process_for_branches_by_value_is_listed_and_stopped(kernel: NotebookKernel, model: MessagesServer) -> None:
    kernel.run(BUSY)
    ask(kernel, model, "count + 1")
    kernel.run("rests.set()")
    assert "compute without a pause" in text_of(results(model)[-1])
    shown = str(kernel.run("%claude /branches").outputs)
    assert re.search(r"template\s*\|\s*\|[^|]*\|\s*\d+ MB\s*\| starts branches by value", shown), shown
    assert "ended" in str(kernel.run("%claude /branches stop template").outputs)
    assert "starts branches by value" not in str(kernel.run("%claude /branches").outputs)
    assert "was not found" in kernel.run("%claude /branches stop template").error


def test_a_dry_run_makes_no_copy_and_leaves_the_one_that_rests(kernel: NotebookKernel, model: MessagesServer) -> None:
    asked = len(model.all_requests)
    cell = kernel.run("%%claude --new --dry-run\ngo")
    assert cell.status == "ok", cell.error
    assert "Branch" in cell.stdout
    assert len(model.all_requests) == asked
    ask(kernel, model, "only_there = 7")
    assert kernel.run("%%claude --dry-run\ngo").status == "ok"
    cell = kernel.run("%claude /branches keep only_there")
    assert cell.status == "ok", cell.error
    assert kernel.value("only_there") == "7"


NOT_IN_A_BRANCH = {
    "db.execute('select count(*) from items').fetchone()": "SQLite objects created in a thread",
    "pldf.group_by('city').agg(pl.col('price').mean())": "This branch hangs in a lock",
    "df.to_csv('data/cleaned.csv', index=False)": "Permission denied",
    "requests.get('https://example.org', timeout=2).status_code": "ConnectionError",
}
"""The everyday calls that need the kernel, and what Claude is told of each."""


@pytest.mark.thorough
def test_of_150_everyday_calls_at_most_three_in_a_hundred_need_the_kernel(
    kernel: NotebookKernel, model: MessagesServer
) -> None:
    for library in ("duckdb", "matplotlib", "pandas", "polars", "pyarrow", "requests"):
        pytest.importorskip(library)
    assert len(set(CALLS)) == 150
    cell = kernel.run(SETUP)
    assert cell.status == "ok", cell.error
    failed: dict[str, str] = {}
    for begin in range(0, len(CALLS), 30):
        codes = CALLS[begin : begin + 30]
        model.add(*(use("Branch", code=code) for code in codes), say("Done."))
        asked = len(model.requests)
        cell = kernel.run("%%claude --new --mode dontAsk\ngo")
        assert cell.status == "ok", cell.error
        ends = [end for request in model.requests[asked + 1 :] for end in results_of(request.body["messages"])]
        failed |= {code: text_of(end) for code, end in zip(codes, ends, strict=True) if end.get("is_error")}
    unexpected = {code: said for code, said in failed.items() if NOT_IN_A_BRANCH.get(code, "…") not in said}
    assert unexpected == {}
    assert len(failed) <= 0.03 * len(CALLS)
