"""Keys and clicks of the ten commonest tasks, counted in a real browser, beside the best peer's.

`python -m benchmarks.keys [--write] [TASK ...]` starts JupyterLab and Chromium, does each task with real keys and clicks,
and checks that it is done; the words that are typed count for nothing. A peer's count is read from its documented
shortcuts, not played. The
model is the local Messages API server. What the tests need has to be installed (`make build` first).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbformat.sign import NotebookNotary

from cellwright.testing import MessagesServer, say, turn, use

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- keys -->", "<!-- /keys -->"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "shared"), str(ROOT / "tests" / "e2e")]

LOAD = "%load_ext cellwright"
FAILING = "rates = {'de': 1.0}\nrates['dk']"
FIXED = "rates = {'de': 1.0}\nrates.get('dk', 1.0)"
PANEL = ".cellwright-panel"

CLAUDE_CODE = "[Claude Code](https://code.claude.com/docs/en/interactive-mode)"
CURSOR = "[Cursor](https://cursor.com/docs/configuration/kbd)"


@dataclass
class Hands:
    """The user's hands on a notebook: what they press is counted."""

    book: Any
    page: Any
    model: Any
    acts: list[str] = field(default_factory=list)

    def press(self, key: str) -> None:
        self.acts.append(f"`{key}`")
        self.page.keyboard.press(key)

    def write(self, words: str) -> None:
        self.page.keyboard.type(words)

    def click(self, node: Any) -> None:
        self.acts.append("a click")
        node.click()

    def select(self, index: int) -> None:
        """The state in which a task begins: a cell is selected in command mode. Nothing of it counts."""
        self.book.cell(index).locator(".jp-InputPrompt").click()

    def waits(self, index: int) -> Any:
        """The change at a cell, once it takes keys."""
        from playwright.sync_api import expect

        card = self.book.cell(index).locator(".cellwright-proposal .ask[data-ready]")
        expect(card).to_be_focused()
        return card

    def edits(self, cell: str, source: str) -> None:
        self.model.add(
            turn(use("NotebookRead", notebook_path="notebook.ipynb")),
            turn(use("NotebookEdit", notebook_path="notebook.ipynb", cell_id=cell, new_source=source)),
            turn(say("Done.")),
        )


def fix(hands: Hands) -> None:
    hands.book.run(1)
    hands.book.wait_done(1)
    hands.select(1)
    hands.edits("cell-1", FIXED)
    hands.press("Alt+F")
    hands.waits(1)
    hands.press("Enter")
    hands.book.cell(1).locator(".jp-OutputArea-executeResult").get_by_text("1.0").wait_for()


def change(hands: Hands) -> None:
    hands.select(2)
    hands.edits("cell-2", "tide = 4.5\ntide")
    hands.press("Alt+K")
    hands.book.cell(2).get_by_role("textbox").and_(hands.page.locator("input, textarea")).first.wait_for()
    hands.write("use 4.5")
    hands.press("Enter")
    hands.waits(2)
    hands.press("Enter")
    hands.book.cell(2).locator(".jp-OutputArea-executeResult").get_by_text("4.5").wait_for()


def explain(hands: Hands) -> None:
    hands.select(2)
    hands.model.add(say("It sets the tide."))
    hands.press("Alt+E")
    hands.page.get_by_text("It sets the tide.").first.wait_for()


def ask(hands: Hands) -> None:
    hands.select(2)
    hands.model.add(say("At full moon."))
    hands.press("p")
    hands.book.cell(3).locator(".cm-content.cm-focused, .cm-focused .cm-content").first.wait_for()
    hands.write("When are tides highest?")
    hands.press("Shift+Enter")
    hands.page.get_by_text("At full moon.").first.wait_for()


def ask_about_output(hands: Hands) -> None:
    hands.book.run(2)
    hands.book.wait_done(2)
    hands.select(2)
    hands.model.add(say("It is the level in metres."))
    hands.press("Alt+Shift+A")
    hands.page.locator(f"{PANEL} .cellwright-prompt:focus").wait_for()
    hands.write("What does it mean?")
    hands.press("Enter")
    hands.page.get_by_text("It is the level in metres.").first.wait_for()
    assert "3.5" in str(hands.model.requests[-1].body["messages"])


def approve(hands: Hands) -> None:
    hands.model.add(turn(use("Bash", command="touch made.txt")), turn(say("Made.")))
    hands.book.run(3)
    hands.book.asked_by_keys(3)
    hands.press("1")
    hands.page.get_by_text("Made.").first.wait_for()


def accept_edit(hands: Hands) -> None:
    hands.model.add(turn(use("Write", file_path="made.py", content="x = 1\n")), turn(say("Written.")))
    hands.book.run(3)
    hands.book.asked_by_keys(3)
    hands.press("1")
    hands.page.get_by_text("Written.").first.wait_for()
    assert (hands.book.lab.root / hands.book.path).with_name("made.py").exists()


def stop(hands: Hands) -> None:
    hands.model.add(turn(say("word " * 4_000)))
    hands.book.run(3)
    button = hands.book.output(3).get_by_role("button", name="Stop", exact=True)
    button.wait_for()
    hands.click(button)
    hands.book.output(3).locator("footer[data-state='interrupted']").wait_for()


def undo(hands: Hands) -> None:
    hands.model.add(turn(use("Write", file_path="made.py", content="x = 1\n")), turn(say("Written.")))
    hands.book.run(3)
    hands.book.asked_by_keys(3)
    hands.page.keyboard.press("1")
    hands.book.wait_done(3)
    made = (hands.book.lab.root / hands.book.path).with_name("made.py")
    assert made.exists()
    hands.click(hands.book.output(3).locator("footer").get_by_role("button", name="Undo", exact=True))
    hands.book.cell(3).locator(".cellwright-undo .card").wait_for()
    hands.press("Enter")
    hands.book.cell(3).locator(".cellwright-undo [role=status]").wait_for()
    assert not made.exists()


def switch_session(hands: Hands) -> None:
    panel = hands.page.locator(PANEL)
    hands.page.keyboard.press("Control+Shift+y")
    panel.locator(".kernel[data-connection=connected]").wait_for()
    for words in ("Which moon?", "Which rock?"):
        hands.model.add(say("This one."))
        prompt = panel.locator(".cellwright-prompt")
        prompt.fill(words)
        prompt.press("Enter")
        panel.locator("li.run[data-state=done]", has_text=words).wait_for()
        if words == "Which moon?":
            panel.get_by_role("button", name="New session").click()
    hands.click(panel.get_by_role("button", name="Sessions", exact=True))
    panel.locator(".cw-sessions .session").nth(1).wait_for()
    hands.write("moon")
    panel.locator(".cw-sessions mark", has_text="moon").first.wait_for()
    hands.press("ArrowDown")
    hands.press("Enter")
    panel.locator("li.run", has_text="Which moon?").wait_for()


@dataclass(frozen=True)
class Task:
    name: str
    do: Callable[[Hands], None]
    peer: int
    where: str
    """The peer that needs the fewest, and what of its documentation was counted."""


TASKS = (
    Task("Fix an error", fix, 3, f"{CURSOR}: Ctrl+K, Enter, Ctrl+Enter; running the code is a fourth"),
    Task("Change a cell in words", change, 3, f"{CURSOR}: Ctrl+K, Enter, Ctrl+Enter; running the code is a fourth"),
    Task("Explain a cell", explain, 2, f"{CURSOR}: Ctrl+L, Enter"),
    Task("Ask in a new cell", ask, 2, f"{CURSOR}: Ctrl+L, Enter"),
    Task("Approve a command", approve, 1, f"{CLAUDE_CODE}: Enter or 1"),
    Task("Accept an edit of a file", accept_edit, 1, f"{CLAUDE_CODE}: Enter or 1"),
    Task("Stop a run", stop, 1, f"{CLAUDE_CODE}: Esc"),
    Task("Undo a turn", undo, 4, f"{CLAUDE_CODE}: Esc, Esc, Enter, Enter"),
    Task("Switch the session", switch_session, 3, f"{CLAUDE_CODE}: /resume, Enter, a choice, Enter"),
    Task("Ask about an output", ask_about_output, 2, f"{CURSOR}: Ctrl+L, Enter"),
)


def count(tasks: list[Task]) -> list[tuple[Task, Hands | None]]:
    from lab_notebook import NotebookPage
    from lab_server import running_lab
    from lab_tab import LabTab
    from playwright.sync_api import sync_playwright

    done: list[tuple[Task, Hands | None]] = []
    with (
        tempfile.TemporaryDirectory() as made,
        MessagesServer(seconds_between_deltas=0.004) as model,
        sync_playwright() as driver,
    ):
        root, home = Path(made, "root"), Path(made, "home")
        root.mkdir()
        home.mkdir()
        with (
            running_lab(root, home, model.url, model.api_key) as lab,
            driver.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"]) as browser,
        ):
            tab = LabTab(browser.new_context(viewport={"width": 1440, "height": 900}), lab)
            for task in tasks:
                model.clear()
                page = tab.take(own=True)
                hands = Hands(NotebookPage(page, tab, _notebook(lab, task.do.__name__)).open(), page, model)
                hands.book.run(0)
                hands.book.wait_done(0)
                try:
                    task.do(hands)
                except Exception:  # noqa: BLE001  the other tasks are counted
                    traceback.print_exc()
                    done.append((task, None))
                else:
                    done.append((task, hands))
                    print(f"{task.name}: {', '.join(hands.acts)}", file=sys.stderr)
                tab.give_back(spent=True)
    return done


def _chromium() -> str:
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return next(path for name in names if (path := shutil.which(name)))


def _notebook(lab: Any, name: str) -> str:
    """A notebook in a folder of its own, trusted as if its user had written it."""
    path = Path(lab.root, name, "notebook.ipynb")
    path.parent.mkdir()
    sources = (LOAD, FAILING, "tide = 3.5\ntide", "%%claude\nDo it")
    cells = [nbformat.v4.new_code_cell(source, id=f"cell-{number}") for number, source in enumerate(sources)]
    metadata = {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)
    NotebookNotary(data_dir=str(lab.home / ".local/share/jupyter")).sign(nbformat.read(path, 4))
    return f"{name}/notebook.ipynb"


def table(counted: list[tuple[Task, Hands | None]]) -> str:
    lines = ["| task | keys and clicks | pressed | best peer |", "|---|--:|---|---|"]
    for task, hands in counted:
        peer = f"{task.peer} ({task.where})"
        if hands is None:
            lines.append(f"| {task.name} | not done | | {peer} |")
            continue
        lines.append(f"| {task.name} | {len(hands.acts)} | {', '.join(hands.acts)} | {peer} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", choices=[[], *(task.do.__name__ for task in TASKS)])
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    given = parser.parse_args()
    counted = count([task for task in TASKS if not given.tasks or task.do.__name__ in given.tasks])
    print(table(counted))
    if given.write:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table(counted)}\n{END}{rest.partition(END)[2]}", "utf-8")
    return 0 if all(hands for _, hands in counted) else 1


if __name__ == "__main__":
    sys.exit(main())
