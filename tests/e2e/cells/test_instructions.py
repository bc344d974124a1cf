"""Instructions and skills of a project: the folder is asked about first, then all that is told stands in the fold."""

import pytest
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

FILES = {
    "CLAUDE.md": "Prices are in euros. The tests are run by `make check`.\n",
    ".claude/rules/python.md": "---\npaths: '**/*.py'\n---\nNames are English.\n",
    ".claude/commands/explain.md": '---\nargument-hint: "[file]"\n---\nExplain $0 to somebody who is new here.\n',
    "prices.py": "pears = 3\n",
}


def test_a_projects_instructions_are_told_when_its_folder_is_trusted(notebook, model, page):
    gate = Gate()
    book = notebook(
        "%load_ext cellwright", "%%claude\n/explain prices.py", "%claude /memory", "%claude /skills", files=FILES
    )
    book.run(0)
    book.wait_done(0)
    model.add(
        turn(say("I read it first."), use("Read", file_path="prices.py")),
        turn(say("It holds **one** price."), hold(gate), say(" That is all.")),
    )
    book.run(1)
    card = book.asked_by_keys(1)
    expect(card).to_contain_text("instructions to Claude: CLAUDE.md")
    expect(card).to_contain_text("skills and commands: .claude/commands/explain.md")
    page.keyboard.press("1")
    output = book.output(1)
    output.get_by_text("It holds one price.").wait_for()
    output.get_by_role("button", name="Context sent").press("Enter")
    expect(output.get_by_role("list", name="Context sent").locator("li summary > b")).to_have_text(
        ["Where Claude works", "CLAUDE.md", "The notebook so far", "/explain", ".claude/rules/python.md"]
    )
    gate.open()
    book.wait_done(1)
    sent = str(model.requests[-1].body["messages"])
    for told in ("Prices are in euros.", "Names are English.", "Explain prices.py to somebody who is new here."):
        assert told in sent
    for cell in (2, 3):
        book.run(cell)
        book.wait_done(cell)
    expect(book.output(2)).to_contain_text("CLAUDE.md")
    expect(book.output(3)).to_contain_text("/explain [file]")
