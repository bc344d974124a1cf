"""Trust in the cell: the folder and a foreign notebook are asked about before the first prompt; commands show settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nbformat
import pytest
from chat_panel import ChatPanel
from nbformat.sign import NotebookNotary
from notebook_kernel import NotebookKernel, Page, model_of, running_kernel

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = pytest.mark.kernel

HOOK = {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "touch ran"}]}]}


def settings(folder: Path, **content: Any) -> None:
    (folder / ".claude").mkdir(exist_ok=True)
    (folder / ".claude" / "settings.json").write_text(json.dumps(content), "utf-8")


@pytest.fixture
def kernel_in(tmp_path: Path, messages_server: Callable[..., MessagesServer]) -> Iterator[Any]:
    """Starts a kernel of its own in `tmp_path`, with Cellwright loaded and the model that plays `script`."""
    with ExitStack() as running:

        def start(script: list[Any], **environ: str) -> tuple[NotebookKernel, MessagesServer]:
            server = messages_server(script)
            kernel = running.enter_context(running_kernel(tmp_path, {**model_of(server), **environ}))
            assert kernel.run("%load_ext cellwright").status == "ok"
            return kernel, server

        yield start


def test_the_folder_is_trusted_in_the_cell(kernel_in, tmp_path):
    settings(tmp_path, hooks=HOOK)
    kernel, server = kernel_in([say("Done."), say("Again.")])
    page = Page(kernel)
    cell = kernel.begin("%%claude\ngo")
    ask = page.wait_for_op("ask", cell)
    assert (ask["kind"], ask["name"], ask["detail_kind"]) == ("trust", "Trust", "text")
    assert "hook UserPromptSubmit:" in ask["detail"]
    assert "touch ran" in ask["detail"]
    assert [(choice["key"], choice["action"], choice["label"]) for choice in ask["choices"]] == [
        ("1", "allow", "Trust this folder"),
        ("4", "deny", "Continue without trusting"),
    ]
    assert not (tmp_path / "ran").exists()
    assert server.requests == []
    page.answer(ask["question"], "allow")
    kernel.finish(cell)
    assert cell.status == "ok"
    assert "Done." in cell.outputs[0]["text/markdown"]
    assert (tmp_path / "ran").exists()
    assert page.wait_for_op("answered", cell)["behavior"] == "allow"
    assert kernel.run("%%claude\nagain").status == "ok"
    assert sum(op["op"] == "ask" for ops in page.transcripts.values() for op in ops) == 1


def test_a_no_in_the_cell_goes_on_without(kernel_in, tmp_path):
    settings(tmp_path, hooks=HOOK)
    kernel, _ = kernel_in([say("Done."), say("Again.")])
    page = Page(kernel)
    cell = kernel.begin("%%claude\ngo")
    page.answer(page.wait_for_op("ask", cell)["question"], "deny")
    assert kernel.finish(cell).status == "ok"
    assert kernel.run("%%claude\nagain").status == "ok"
    assert not (tmp_path / "ran").exists()


def test_an_interrupt_of_the_question_ends_the_cell_and_asks_again(kernel_in, tmp_path):
    settings(tmp_path, hooks=HOOK)
    kernel, server = kernel_in([say("Done.")])
    page = Page(kernel)
    cell = kernel.begin("%%claude\ngo")
    page.wait_for_op("ask", cell)
    kernel.interrupt()
    assert "KeyboardInterrupt" in kernel.finish(cell).error
    assert server.requests == []
    cell = kernel.begin("%%claude\ngo")
    page.answer(page.wait_for_op("ask", cell)["question"], "deny")
    assert kernel.finish(cell).status == "ok"


def test_input_asks_about_trust_where_no_widget_answers(kernel_in, tmp_path):
    settings(tmp_path, hooks=HOOK)
    kernel, _ = kernel_in([say("Done.")])
    Page(kernel, says_ready=False)
    cell = kernel.begin("%%claude\ngo", allow_stdin=True)
    assert "Trust the folder" in kernel.answer_input(cell, "1")[0]
    assert kernel.finish(cell).status == "ok"
    assert (tmp_path / "ran").exists()


def test_with_nobody_there_the_cell_goes_on_and_says_so(kernel_in, tmp_path):
    settings(tmp_path, hooks=HOOK)
    kernel, _ = kernel_in([say("Done.")])
    cell = kernel.run("%%claude\ngo", cell_id=None)
    assert cell.status == "ok"
    assert ": Trust the folder" in cell.outputs[0]["text/markdown"].replace("\\", "")
    assert not (tmp_path / "ran").exists()


def test_a_callback_of_a_program_is_not_asked(kernel_in, tmp_path):
    settings(tmp_path, hooks=HOOK)
    kernel, _ = kernel_in([say("Done.")])
    page = Page(kernel)
    code = """
import cellwright
asked = []
async def yes(use):
    asked.append(use.name)
    return cellwright.Allow()
cellwright.ask("go", can_use_tool=yes)"""
    cell = kernel.begin(code)
    ask = page.wait_for_op("ask", cell)
    page.answer(ask["question"], "deny")
    assert kernel.finish(cell).status == "ok"
    assert kernel.value("asked") == "[]"
    assert not (tmp_path / "ran").exists()


def test_code_of_claude_cannot_loosen_the_mode(kernel_in, tmp_path):
    loosen = turn(use("Python", code="get_ipython().run_line_magic('config', 'Claude.mode = \"bypassPermissions\"')"))
    script = [loosen, say("First."), turn(use("Python", code="free = 1")), say("Second.")]
    kernel, _ = kernel_in(script, IS_SANDBOX="1")
    page = Page(kernel)
    cell = kernel.begin("%%claude\ngo")
    page.answer(page.wait_for_op("ask", cell)["question"], "allow")
    assert kernel.finish(cell).status == "ok"
    cell = kernel.begin("%%claude\nagain")
    ask = page.wait_for_op("ask", cell)
    assert (ask["kind"], "permission mode bypassPermissions" in ask["detail"]) == ("trust", True)
    page.answer(ask["question"], "deny")
    kernel.wait_for(lambda _: [op for op in page.ops if op["op"] == "ask" and op["kind"] == "permission"], cell)
    page.answer(page.wait_for_op("ask", cell)["question"], "deny")
    assert kernel.finish(cell).status == "ok"
    assert kernel.value("'free' in dir()") == "False"


def foreign(tmp_path: Path, *, signed: bool) -> dict[str, str]:
    """A notebook whose prompt somebody else wrote; the environment of its kernel."""
    data = tmp_path / "jupyter"
    data.mkdir()
    notary = NotebookNotary(data_dir=str(data))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%%claude\ngo")])
    notary.sign(nbformat.v4.new_notebook())
    if signed:
        notary.sign(notebook)
    nbformat.write(notebook, tmp_path / "n.ipynb")
    return {"JUPYTER_DATA_DIR": str(data), "JPY_SESSION_NAME": str(tmp_path / "n.ipynb")}


def test_a_foreign_notebook_asks_before_its_first_prompt(kernel_in, tmp_path):
    kernel, server = kernel_in([say("Done."), say("Again.")], **foreign(tmp_path, signed=False))
    page = Page(kernel)
    cell = kernel.begin("%%claude\ngo")
    ask = page.wait_for_op("ask", cell)
    assert (ask["kind"], ask["choices"][0]["label"]) == ("trust", "Let it ask")
    assert "%%claude ⏎ go" in ask["detail"]
    page.answer(ask["question"], "deny")
    failed = kernel.finish(cell)
    assert "PERMISSION_DENIED" in failed.error + str(failed.reply)
    assert server.requests == []
    cell = kernel.begin("%%claude\ngo")
    page.answer(page.wait_for_op("ask", cell)["question"], "allow")
    assert kernel.finish(cell).status == "ok"
    assert kernel.run("%%claude\nagain").status == "ok"
    assert len(server.requests) == 2


def test_what_the_user_types_in_a_panel_is_no_prompt_of_the_notebook(kernel_in, tmp_path):
    kernel, server = kernel_in([say("Done.")], **foreign(tmp_path, signed=False))
    panel = ChatPanel(kernel).connect()
    run = panel.prompt("go")
    panel.wait_for_end(run)
    assert panel.runs[run]["state"] == "done"
    assert len(server.requests) == 1
    panel.close()


def test_code_of_a_foreign_notebook_asks_nothing_by_itself(kernel_in, tmp_path):
    kernel, server = kernel_in([], **foreign(tmp_path, signed=False))
    cell = kernel.run("import cellwright\nasync for event in cellwright.stream('go'):\n    pass")
    assert "PERMISSION_DENIED" in str(cell.reply)
    assert server.requests == []


def test_a_foreign_notebook_does_not_run_where_nobody_can_be_asked(kernel_in, tmp_path):
    kernel, server = kernel_in([], **foreign(tmp_path, signed=False))
    cell = kernel.run("%%claude\ngo", cell_id=None)
    assert cell.reply["evalue"].startswith("PERMISSION_DENIED: ")
    assert "jupyter trust n.ipynb" in str(cell.reply["traceback"])
    assert server.requests == []


def test_the_users_own_notebook_asks_nothing(kernel_in, tmp_path):
    kernel, _ = kernel_in([say("Done.")], **foreign(tmp_path, signed=True))
    assert kernel.run("%%claude\ngo").status == "ok"


def test_commands_show_markdown_and_send_nothing(kernel_in, tmp_path):
    settings(tmp_path, permissions={"deny": ["Bash(rm *)"]})
    kernel, server = kernel_in([])
    kernel.run_ok("%config Claude.model = 'haiku'")
    (shown,) = kernel.run("%claude /config").outputs
    assert "| model | haiku |" in shown["text/markdown"]
    assert "haiku" in shown["text/plain"]
    (shown,) = kernel.run("%%claude --model sonnet\n/config").outputs
    assert "| claude-sonnet-5-5 | options |" in shown["text/markdown"]
    (shown,) = kernel.run("%%claude\n/permissions").outputs
    assert "Bash(rm \\*)" in shown["text/markdown"]
    (shown,) = kernel.run("%claude /status").outputs
    assert "ANTHROPIC_API_KEY" in shown["text/markdown"]
    assert server.api_key not in json.dumps(shown)
    assert "/permissions" in kernel.run("%claude /help").outputs[0]["text/plain"]
    cell = kernel.run("%%claude --format json\n/status")
    assert json.loads(cell.stdout)["status"].startswith("**Status**")
    failed = kernel.run("%claude /nonsense")
    assert "/nonsense was" in str(failed.reply["traceback"])
    assert server.requests == []


def test_config_of_ipython_is_a_layer_of_the_settings(kernel_in, tmp_path):
    touch = turn(use("Bash", command="touch made"))
    kernel, server = kernel_in([touch, say("Done."), touch, say("Done.")])
    kernel.run_ok("%config Claude.allow = ['Bash(touch *)']")
    kernel.run("%%claude\ngo", cell_id=None)
    assert (tmp_path / "made").exists()
    (tmp_path / "made").unlink()
    kernel.run("%config Claude.deny = ['Bash(touch *)']")
    kernel.run("%%claude\ngo", cell_id=None)
    assert not (tmp_path / "made").exists()
    # IPython tells of what is refused, and the value stays
    cell = kernel.run("%config Claude.allow = ['Write(x)']")
    assert "write `Edit(x)`" in cell.stdout
    assert "Bash(touch *)" in str(kernel.run("%config Claude.allow").of_type("execute_result"))
    assert len(server.requests) == 4
