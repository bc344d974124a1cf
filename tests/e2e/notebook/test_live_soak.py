"""Claude and the user work on one open notebook at the same time, at random: nothing is lost on either side.

Every edit puts a word of its own into a cell. A checker then compares the notebook with what each side was told: a word is
there exactly once if its edit succeeded, unless Claude knew of it when it took the cell away.
"""

import random
import re
from collections import Counter
from dataclasses import dataclass, field

import pytest

from cellwright.testing import MessagesServer, say, turn, use
from eventual import eventually

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

# what goes into an editor, seen when it does: a moment later the keyboard may be elsewhere
WATCH_TYPING = """() => {
    window.arrived = new Set();
    document.addEventListener('beforeinput', ({data, target}) => {
        if (target.closest?.('.cm-content')) window.arrived.add(data?.trim());
    }, true);
}"""
WORD = re.compile(r"\b[ck]\d+x\b")
CONNECT = 'import os\nos.environ.update(ANTHROPIC_BASE_URL="{url}", ANTHROPIC_API_KEY="{key}")\n%load_ext cellwright'
ASK = "%%claude --mode acceptEdits\nWork on the notebook while I do"


def words(text):
    return WORD.findall(text)


@dataclass
class Writer:
    """The model: it knows cells only from what it was told, as Claude does."""

    chance: random.Random
    most: int
    cells: dict[str, list[str]] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    taken_away: set[str] = field(default_factory=set)
    conflicts: int = 0
    edits: int = 0
    last: dict = field(default_factory=dict)
    is_done: bool = False

    def __call__(self, body):
        if self.last:
            [result] = [part for part in body["messages"][-1]["content"] if part["type"] == "tool_result"]
            self.learn(result)
        if self.last.get("conflict"):
            cell = self.last["cell"]
            self.last = {"read": cell}
            return turn(use("NotebookRead", notebook_path="notebook.ipynb", cell_ids=[cell]))
        if self.edits == self.most:
            self.is_done = True  # what its last edit came to is known
            return turn(say("Enough."))
        self.edits += 1
        return turn(use("NotebookEdit", notebook_path="notebook.ipynb", **self.edit()))

    def edit(self):
        word = f"c{self.edits}x"
        kind = self.chance.choices(["insert", "replace", "delete", "move"], [4, 8, 1, 2])[0] if self.cells else "insert"
        cell = self.chance.choice(list(self.cells)) if self.cells else ""
        if kind == "insert":
            self.last = {"insert": word}
            place = {"cell_id": cell} if cell and self.chance.random() < 0.7 else {"position": "end"}
            return {"edit_mode": "insert", "cell_type": "code", "new_source": f"# {word}", **place}
        if kind == "replace":
            now = [*self.cells[cell], word]
            self.last = {"replace": now, "cell": cell}
            return {"cell_id": cell, "new_source": "# " + " ".join(now)}
        self.last = {kind: True, "cell": cell}
        return {"edit_mode": kind, "cell_id": cell, **({"position": "end"} if kind == "move" else {})}

    def learn(self, result):
        content = result["content"]
        text = content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
        cell = self.last.get("cell", "")
        if result.get("is_error"):
            assert "Nothing was changed" in text, text
            self.conflicts += 1
            self.last = {"conflict": True, "cell": cell}
            return
        match self.last:
            case {"read": read}:
                self.cells[read] = words(text)
            case {"insert": word}:
                inserted = re.search(r"code cell (\S+)", text)
                assert inserted, text
                self.cells[inserted[1].rstrip(":,.")] = [word]
                self.written.append(word)
            case {"replace": now}:
                self.written += [word for word in now if word not in self.written and word.startswith("c")]
                self.cells[cell] = now
            case {"delete": _}:
                self.taken_away.update(self.cells.pop(cell))


def type_at_random(page, chance, number):
    """The user puts a word at the end of some cell; gives it if it got there."""
    word = f"k{number}x"
    cells = page.locator(".jp-Notebook .jp-CodeCell .cm-content")
    count = cells.count()
    if count < 4:
        return None
    try:
        cells.nth(chance.randrange(3, count)).click(timeout=1_000)
    except playwright.Error:  # it went away under the user's hand
        return None
    page.keyboard.press("Control+End")
    # not key by key: without the cell, keys would be commands to the notebook
    page.keyboard.insert_text(f" {word}")
    return word if page.evaluate("word => window.arrived.has(word)", word) else None


@pytest.mark.parametrize("edits", [pytest.param(50, id="fifty"), pytest.param(150, id="many", marks=pytest.mark.slow)])
def test_edits_from_both_sides_lose_nothing(notebook, page, edits):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    writer = Writer(random.Random(seed + 1), edits)
    with MessagesServer(writer) as server:
        cells = [CONNECT.format(url=server.url, key=server.api_key), ASK, "", "# mine", "# ours"]
        book = notebook(*cells)
        book.run(0)
        book.wait_done(0)
        book.run(1)
        page.evaluate(WATCH_TYPING)
        typed = []
        for number in range(edits):
            word = type_at_random(page, chance, number)
            typed += [word] if word else []
        eventually(lambda: writer.is_done, seconds=300)  # the cell that asked may be out of sight, and not drawn
        assert server.rejected == []
    saved = ["".join(cell["source"]) for cell in book.save()["cells"][2:]]
    there = Counter(word for source in saved for word in words(source))
    assert max(there.values()) == 1
    wanted = (set(typed) | set(writer.written)) - writer.taken_away
    assert set(there) == wanted
    print(f"{len(typed)} typed, {len(writer.written)} written, {writer.conflicts} conflicts")
    assert len(typed) > edits / 4  # a cell out of sight, or gone under the hand, takes no word
    assert len(writer.written) > edits / 3
