"""A turn as a preview in JupyterLab: one card at its end, accepted in part by keys, in light and in dark."""

import sys

import pytest
from accessibility import check_accessible
from playwright.sync_api import expect

from cellwright.kernel.branches.bounds import branches_enforced
from cellwright.testing import say, turn, use

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        sys.platform != "linux" or branches_enforced() is not None, reason="this system confines no branch"
    ),
]

TIDES = "levels = [1.2, 1.9, 2.4]\nmean = sum(levels) / 2\n"


def test_a_preview_accepted_in_part(notebook, model):
    model.add(
        turn(use("Read", file_path="tides.py")),
        turn(
            say("I try it in a copy.\n"),
            use("Edit", file_path="tides.py", old_string="sum(levels) / 2", new_string="sum(levels) / len(levels)"),
            use("Write", file_path="notes.md", content="# Tides\n"),
            use("Python", code="levels.append(2.6)\nsum(levels) / len(levels)"),
        ),
        say("The mean was wrong by a count."),
    )
    book = notebook(
        "%load_ext cellwright\nlevels = [1.2, 1.9, 2.4]",
        "%%claude --branch\nMend the mean.",
        "levels",
        files={"tides.py": TIDES},
    )
    book.run(0)
    book.wait_done(0)
    folder = (book.lab.root / book.path).parent
    book.run(1)
    card = book.asked_by_keys(1)
    assert (folder / "tides.py").read_text() == TIDES
    for text in ("tides.py +1 −1", "notes.md (new file) +1 −0", "levels: 3 items → 4"):
        expect(card.get_by_text(text)).to_be_visible()
        expect(card.get_by_role("checkbox", name=text)).to_be_checked()
    expect(card.get_by_role("button", name="Accept 3 changes")).to_be_visible()
    expect(card.get_by_role("button", name="Accept all")).to_be_visible()
    check_accessible(book.output(1), ".ask")
    book.screenshot("preview-card", card)
    book.page.keyboard.press("1")
    expect(card.get_by_role("checkbox", name="notes.md")).not_to_be_checked()
    expect(card.get_by_role("button", name="Accept 2 changes")).to_be_visible()
    book.page.keyboard.press("Enter")
    book.wait_done(1)
    assert "len(levels)" in (folder / "tides.py").read_text()
    assert not (folder / "notes.md").exists()
    book.run(2)
    book.wait_done(2)
    expect(book.output(2)).to_contain_text("[1.2, 1.9, 2.4, 2.6]")
    saved = "".join(book.save()["cells"][1]["outputs"][0]["data"]["text/markdown"])
    assert "Which changes do you accept?" in saved
    assert "accepted: tides.py" in saved
    assert "not accepted: notes.md" in saved


def edit(**given):
    return turn(use("NotebookEdit", notebook_path="notebook.ipynb", **given))


def test_cells_changed_new_and_deleted_come_with_the_outputs_of_the_preview(notebook, model):
    model.add(
        turn(use("NotebookRead", notebook_path="notebook.ipynb")),
        edit(cell_id="cell-2", new_source="levels = [1, 2, 4]\nprint('the mean is', sum(levels) / len(levels))"),
        edit(
            cell_id="cell-2", edit_mode="insert", position="after", cell_type="markdown", new_source="**Tides** rise."
        ),
        edit(cell_id="cell-3", edit_mode="delete"),
        edit(cell_id="cell-4", edit_mode="delete"),
        turn(use("NotebookRun", notebook_path="notebook.ipynb", cell_ids=["cell-2"])),
        say("Two cells were left over."),
    )
    book = notebook(
        "%load_ext cellwright",
        "%%claude --branch\nTidy up.",
        "levels = [1, 2]",
        "'to be deleted'",
        "'to be kept'",
    )
    book.run(0)
    book.wait_done(0)
    book.run(1)
    card = book.asked_by_keys(1)
    expect(book.cell(2)).to_contain_text("levels = [1, 2]")
    for name in ("levels = ", "Tides", "to be deleted"):
        expect(card.get_by_role("checkbox", name=name)).to_be_checked()
    kept = card.get_by_role("checkbox", name="to be kept")
    book.page.keyboard.press(kept.evaluate("each => each.closest('.option').querySelector('kbd').textContent"))
    expect(kept).not_to_be_checked()
    book.screenshot("preview-cells", book.cell(1))
    book.page.keyboard.press("Enter")
    book.wait_done(1)
    expect(book.output(2)).to_contain_text("the mean is 2.33")
    expect(book.cell(3)).to_contain_text("Tides rise.")
    cells = ["".join(cell["source"]) for cell in book.save()["cells"]]
    assert cells[2:] == [
        "levels = [1, 2, 4]\nprint('the mean is', sum(levels) / len(levels))",
        "**Tides** rise.",
        "'to be kept'",
    ]
    assert "the mean is" in str(book.on_disk()["cells"][2]["outputs"])
