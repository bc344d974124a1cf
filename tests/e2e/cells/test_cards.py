"""Cards of a `%%claude` cell as their user meets them: questions, plans, todos, rules to keep; by keys and by mouse."""

import json
import re
from pathlib import Path

import pytest
from accessibility import check_accessible
from lab_tab import DARK, THEMES, VIEWPORT
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright"
DOCS = Path(__file__).parents[3] / "docs"

TIDES = """\
def rolling_mean(values, window):
    means = []
    for start in range(len(values) - window):
        means.append(sum(values[start : start + window]) / window)
    return means
"""
EDIT = use(
    "Edit",
    file_path="tides.py",
    old_string="range(len(values) - window)",
    new_string="range(len(values) - window + 1)",
)

STORE = {
    "question": "How should the levels be kept for the next run?",
    "header": "Storage",
    "options": [
        {"label": "Parquet (recommended)", "description": "Small and typed; reads back in a blink."},
        {"label": "CSV", "description": "Opens everywhere, but times become text."},
        {"label": "SQLite", "description": "One file that can be queried; needs a schema."},
    ],
}
GAUGES = {
    "question": "Which gauges belong into the report?",
    "header": "Gauges",
    "multiSelect": True,
    "options": [
        {"label": "Harbour", "description": "Complete since 2019."},
        {"label": "Lighthouse", "description": "Gaps in March."},
        {"label": "Estuary", "description": "New, not calibrated yet."},
    ],
}
CLEANING = """\
# Clean the levels, in three cells

| what is wrong | where | what to do |
|---|---|---|
| no level | 06:20, "gauge stuck" | drop the row |
| times are text | `time` | convert to times of one day |
| no comment | 2 of 4 rows | leave empty |

1. **Times**: convert `time`, and sort by it.
2. **Gaps**: drop rows without a level.
3. **Check**: levels are between 0 and 6 m; no time occurs twice.

No units are given; judging by the values, they are metres.
"""
SORTED = """\
# as times of the day they can be sorted
times = pd.to_datetime(levels["time"], format="%H:%M")
clean = levels.assign(time=times.dt.time).sort_values("time")"""
COMPLETE = """\
# the gauge was stuck: no level, nothing to learn from
clean = clean.dropna(subset=["level"])"""
CHECKED = """\
# a slip of the gauge or the clock would show here
assert clean["level"].between(0, 6).all()
assert clean["time"].is_unique
clean"""
PLAN = """\
# Find the tide that is lost

1. **`tides.py`**: `rolling_mean` stops one window early; let the range end at `len(values) - window + 1`.
2. **`test_tides.py`**: a test with two values and a window of two, which has one mean.
3. Run the tests, then draw the last day again.

| | now | then |
|---|--:|--:|
| means of 36 values, window 3 | 33 | 34 |

Left alone: the plot's labels, and how the file is read.
"""


def loaded(notebook, *cells, files=None):
    book = notebook(LOAD, *cells, "", files=files)
    book.run(0)
    book.wait_done(0)
    return book


def told(model):
    """What Claude was told of its last call."""
    return model.requests[-1].body["messages"][-1]["content"][0]


def test_questions_are_answered_by_keys_alone(notebook, model):
    model.add(turn(say("Two things first.\n"), use("AskUserQuestion", questions=[STORE, GAUGES])), say("So be it."))
    book = loaded(notebook, "%%claude\nMake the report of the month ready.")
    book.run(1)
    card = book.asked_by_keys(1)
    book.page.keyboard.press("1")
    book.page.keyboard.press("1")
    book.page.keyboard.press("2")
    for label in ("Parquet", "Harbour", "Lighthouse"):
        expect(card.get_by_label(label)).to_be_checked()
    check_accessible(book.output(1), ".ask")
    book.screenshot("question-card", book.cell(1))
    book.page.keyboard.press("Enter")
    book.wait_done(1)
    assert told(model)["content"] == (
        "The user answered:\n"
        "- How should the levels be kept for the next run? → Parquet (recommended)\n"
        "- Which gauges belong into the report? → Harbour, Lighthouse"
    )
    saved = "".join(book.save()["cells"][1]["outputs"][0]["data"]["text/markdown"])
    assert "Which gauges belong into the report? → Harbour, Lighthouse" in saved


def test_a_question_is_answered_by_mouse_and_in_ones_own_words(notebook, model):
    model.add(turn(use("AskUserQuestion", questions=[STORE])), say("So be it."))
    book = loaded(notebook, "%%claude\nKeep the levels")
    book.run(1)
    card = book.asked(1)
    card.get_by_text("CSV").click()
    own = card.locator(".own")
    own.click()
    expect(own).to_be_focused()
    book.page.keyboard.type("2 files, one a year")
    expect(own).to_have_value("2 files, one a year")
    card.get_by_role("button").filter(has_text="Send").click()
    book.wait_done(1)
    assert told(model)["content"].endswith("→ 2 files, one a year")


def test_a_question_is_dismissed(notebook, model):
    model.add(turn(use("AskUserQuestion", questions=[STORE])), say("Then I choose."))
    book = loaded(notebook, "%%claude\nKeep the levels")
    book.run(1)
    book.asked_by_keys(1)
    book.page.keyboard.press("Escape")
    book.wait_done(1)
    assert told(model)["is_error"]
    assert "the question was dismissed" in told(model)["content"]


def test_a_command_can_be_allowed_for_the_project(notebook, model):
    model.add(turn(say("I build it with the project's Makefile.\n"), use("Bash", command="make report")))
    model.add(say("Then you build it yourself: `make report`."))
    book = loaded(notebook, "%%claude\nRebuild the report.")
    book.run(1)
    card = book.asked_by_keys(1)
    expect(card.get_by_role("button").filter(has_text="Always allow")).to_be_visible()
    book.screenshot("always-card", book.cell(1), width=920)
    book.asked_by_keys(1)
    book.page.keyboard.press("4")
    book.wait_done(1)


def test_the_plan_of_the_guide_to_a_clean_data_set(notebook, model):
    guide = (DOCS / "guides" / "clean-a-data-set.md").read_text("utf-8")
    start = (DOCS / "get-started.md").read_text("utf-8")
    make = re.search(r"```python\n(.*?)```", start, re.DOTALL)[1]
    load, prompt = re.search(r"```python\n(.*?)```\n```\n(.*?)\n```", guide, re.DOTALL).groups()
    model.add(turn(use("Variables", names=["levels"])))
    model.add(turn(say("Four rows, and one of them has no level.\n"), use("ExitPlanMode", plan=CLEANING)))
    model.add(turn(use("NotebookRead", notebook_path="notebook.ipynb")))
    # each below the prompt, so the last one first
    model.add(turn(*(insertion(source) for source in (CHECKED, COMPLETE, SORTED))))
    model.add(say("`clean` has three of the four rows. Dropped: 06:20, for its missing level."))
    book = loaded(notebook, f"{make}\n{load}", prompt)
    book.run(1)
    book.wait_done(1)
    book.run(2)
    book.output(2).locator(".ask[data-ready] .plan li").first.wait_for()
    book.screenshot("plan-clean", book.cell(2), width=920, height=1300)
    book.asked_by_keys(2)
    book.page.keyboard.press("1")
    bar = book.output(2).locator(".cell-changes:not([disabled])")
    expect(bar).to_contain_text("3 cell changes")
    bar.get_by_role("button", name="Accept all").click()
    book.wait_done(2)
    for index in (3, 4, 5):
        book.run(index)
        book.wait_done(index)
    expect(book.output(5).locator("tbody tr")).to_have_count(3)
    book.page.mouse.move(0, 0)
    book.screenshot("clean-cells", book.cell(2), book.cell(5), width=920, height=1200)
    assert ["".join(cell["source"]) for cell in book.save()["cells"]][3:6] == [SORTED, COMPLETE, CHECKED]


def insertion(source):
    place = {"notebook_path": "notebook.ipynb", "edit_mode": "insert", "cell_id": "cell-2"}
    return use("NotebookEdit", **place, cell_type="code", new_source=source)


def test_a_plan_is_sent_back_then_approved_and_only_then_a_file_is_changed(notebook, model):
    gate = Gate()
    model.add(
        turn(use("Read", file_path="tides.py")),
        turn(say("I would change it right away.\n"), EDIT),
        turn(use("ExitPlanMode", plan="Change `tides.py`.")),
        turn(say("More precisely:\n"), use("ExitPlanMode", plan=PLAN)),
        turn(say("Now the change.\n"), EDIT),
        turn(hold(gate), say("The last tide is there.")),
    )
    book = loaded(
        notebook, "%%claude --mode plan\nThe last tide is missing in the plot. Find out why.", files={"tides.py": TIDES}
    )
    file = (book.lab.root / book.path).parent / "tides.py"
    book.run(1)
    card = book.asked(1)
    expect(card).to_contain_text("Change tides.py.")
    expect(book.output(1).locator("footer .mode")).to_have_text("Plan")
    expect(book.output(1).locator(".decided.deny")).to_contain_text("Denied")
    card.locator("input[type=text]").fill("Which line? And say how you test it.")
    card.get_by_role("button").filter(has_text="Keep planning").click()
    book.output(1).locator(".ask[data-ready] .plan table").wait_for()
    check_accessible(book.output(1), ".ask")
    book.page.set_viewport_size({**VIEWPORT, "height": 1500})  # what is higher than the notebook is cut by its toolbar
    book.screenshot("plan-card", book.cell(1))
    book.page.set_viewport_size(VIEWPORT)
    assert file.read_text() == TIDES
    book.asked_by_keys(1)
    book.page.keyboard.press("2")
    book.output(1).get_by_text("Plan approved, edits accepted").wait_for()
    expect(book.output(1).locator("footer .mode")).to_have_text("Accept edits")
    gate.open()
    book.wait_done(1)
    assert "window + 1" in file.read_text()
    results = [
        block["content"]
        for message in model.requests[-1].body["messages"]
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    assert "Which line? And say how you test it." in str(results)
    assert "Find the tide that is lost" in "".join(book.save()["cells"][1]["outputs"][0]["data"]["text/markdown"])


def todos(*statuses):
    texts = [
        ("Read how the means are made", "Reading how the means are made"),
        ("Let the last window count", "Letting the last window count"),
        ("Add a test with two values", "Adding a test with two values"),
        ("Draw the last day again", "Drawing the last day again"),
    ]
    return use(
        "TodoWrite",
        todos=[
            {"content": content, "activeForm": form, "status": status}
            for (content, form), status in zip(texts, statuses, strict=True)
        ],
    )


def test_the_todos_are_one_list_that_goes_on(notebook, model):
    first, second = Gate(), Gate()
    model.add(
        turn(say("Four steps.\n"), todos("in_progress", "pending", "pending", "pending")),
        turn(hold(first), use("Read", file_path="tides.py")),
        turn(
            say("`rolling_mean` stops one window too early.\n"), todos("completed", "in_progress", "pending", "pending")
        ),
        turn(EDIT),
        turn(say("Now a test.\n"), todos("completed", "completed", "in_progress", "pending")),
        turn(hold(second), say("Done.")),
    )
    book = loaded(notebook, "%%claude --mode acceptEdits\nThe last tide is missing.", files={"tides.py": TIDES})
    book.run(1)
    lists = book.output(1).locator(".todos")
    lists.get_by_text("0 of 4 done").wait_for()
    first.open()
    lists.get_by_text("2 of 4 done").wait_for()
    expect(lists).to_have_count(1)
    for index, status in enumerate(("completed", "completed", "in_progress", "pending")):
        expect(lists.locator("li").nth(index)).to_have_attribute("data-status", status)
    expect(lists.locator("li")).to_have_count(4)
    book.screenshot("todos", book.cell(1))
    second.open()
    book.wait_done(1)
    saved = "".join(book.save()["cells"][1]["outputs"][0]["data"]["text/markdown"])
    assert "**Todos** · 2 of 4 done\n\n- [x] Read how the means are made" in saved


def test_every_rule_that_would_be_kept_is_shown_and_kept(notebook, model):
    model.add(turn(use("Bash", command="mkdir -p out && touch out/tides.txt")), say("Made it."))
    book = loaded(notebook, "%%claude\nMake a folder for the tables")
    book.run(1)
    card = book.asked_by_keys(1)
    shown = card.locator(".rules [data-scope=always] code")
    expect(shown).to_have_count(2)
    rules = shown.all_text_contents()
    check_accessible(book.output(1), ".ask")
    book.reel("command-card", card)
    book.page.keyboard.press("3")
    book.wait_done(1)
    folder = (book.lab.root / book.path).parent
    assert (folder / "out" / "tides.txt").exists()
    kept = json.loads((folder / ".claude" / "settings.local.json").read_text())
    assert kept["permissions"]["allow"] == rules


TRAINING = """\
import pathlib
print("epoch 2: loss 0.31")
pathlib.Path("model.json").write_text("{}")
"""


def test_a_command_that_was_tried_is_asked_about_below_its_output(notebook, model):
    train = use("Bash", command="python train.py", description="Train the model")
    model.add(turn(train), say("Then not."), turn(train), say("It is trained."))
    book = loaded(notebook, "%%claude\nTrain", "%%claude\nTrain it all the same", files={"train.py": TRAINING})
    book.run(1)
    card = book.asked_by_keys(1)
    expect(card).to_contain_text("The sandbox allowed only reading and blocked writing model.json")
    expect(book.output(1)).to_contain_text("epoch 2: loss 0.31")
    check_accessible(book.output(1), ".ask")
    book.reel("command-tried-card", card)
    book.page.keyboard.press("4")
    book.page.keyboard.press("Enter")
    book.wait_done(1)
    folder = (book.lab.root / book.path).parent
    assert not (folder / "model.json").exists()
    assert told(model)["is_error"]
    book.run(2)
    book.asked_by_keys(2)
    book.page.keyboard.press("1")
    book.wait_done(2)
    assert (folder / "model.json").exists()
    assert told(model)["content"] == "epoch 2: loss 0.31"


def test_the_cards_in_the_dark_theme(notebook, model, choose):
    model.add(
        turn(use("AskUserQuestion", questions=[STORE])),
        turn(todos("completed", "in_progress", "pending", "pending")),
        turn(say("One more thing:\n"), use("AskUserQuestion", questions=[GAUGES])),
        turn(use("ExitPlanMode", plan=PLAN)),
        say("Done."),
    )
    choose(THEMES, theme=DARK)
    book = loaded(notebook, "%%claude --mode plan\nMake the report of the month ready.")
    book.run(1)
    book.asked_by_keys(1)
    book.page.keyboard.press("1")
    book.page.keyboard.press("Enter")
    book.output(1).locator(".ask[data-ready]").get_by_text("Which gauges").wait_for()
    book.asked_by_keys(1)
    book.page.keyboard.press("2")
    check_accessible(book.output(1), ".ask")
    book.screenshot("question-card-dark", book.cell(1))
    book.page.keyboard.press("Enter")
    book.output(1).locator(".ask[data-ready] .plan").wait_for()
    check_accessible(book.output(1), ".ask")
    book.screenshot("plan-card-dark", book.output(1).locator(".ask"))
    book.asked_by_keys(1)
    book.page.keyboard.press("1")
    book.wait_done(1)
