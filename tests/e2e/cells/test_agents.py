"""Agents at work as their user sees them: a card for each in cell and panel, its steps, Stop, what is kept."""

import re

import pytest
from accessibility import check_accessible
from lab_tab import DARK, LIGHT
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def hand(description, prompt, kind="Explore"):
    return use("Agent", description=description, prompt=prompt, subagent_type=kind)


def test_two_agents_work_side_by_side_and_one_is_stopped(notebook, model, tab, lab):
    first, second = Gate(), Gate()
    model.add(
        turn(
            say("Two agents look at it, at the same time."),
            hand("Find who reads the gauge", "task one"),
            hand("Review the tests", "task two", "code-reviewer"),
        ),
        turn(
            say("I look for its name, then for those that call it."),
            use("Grep", pattern="gauge", glob="*.py"),
            use("Grep", pattern="high_tide", glob="*.py"),
            when="task one",
        ),
        turn(hold(first), say("Only `high_tide` in **tides.py** reads it."), when="tides.py"),
        turn(use("Glob", pattern="*.md"), when="task two"),
        turn(hold(second), say("There are none."), when="README.md"),
        turn(say("The gauge is read in one place; I went on without the review."), when="The user stopped"),
    )
    book = notebook("%load_ext cellwright", "%%claude\nWho reads the gauge, and is it tested?", "")
    folder = (lab.root / book.path).parent
    (folder / "tides.py").write_text("def high_tide(gauge):\n    return max(gauge)\n")
    (folder / "README.md").write_text("How the tides are read.\n")
    book.run(0)
    book.wait_done(0)
    book.run(1)
    first.wait_until_reached()
    second.wait_until_reached()
    cards = book.output(1).locator(".of-agent")
    expect(cards).to_have_count(2)
    # between two calls it says that it thinks
    expect(cards.locator(".fold .status")).to_have_text([re.compile("working|thinking")] * 2)
    expect(cards.first.locator(".agent .took")).to_contain_text("2 tool calls")
    steps = cards.first.get_by_role("button", name="Steps")
    steps.focus()
    book.page.keyboard.press("Enter")
    expect(steps).to_have_attribute("aria-expanded", "true")
    expect(cards.first.locator(".stream li")).to_have_count(3)
    book.page.keyboard.press("Control+Shift+Y")
    panel = book.page.locator(".cellwright-panel")
    panel.locator(".of-agent").first.wait_for()
    panel.locator(".of-agent").first.get_by_role("button", name="Steps").click()
    for theme in (DARK, LIGHT):
        tab.choose_theme(theme)
        check_accessible(book.output(1), "steps")
        book.screenshot(f"agents-{'dark' if theme == DARK else 'light'}", book.cell(1))
    book.screenshot("agents-panel", panel)
    cards.last.get_by_role("button", name="Stop the agent code-reviewer").click()
    expect(cards.last.locator(".fold .status")).to_have_text("stopped")
    first.open()
    second.open()
    past = panel.locator(".of-agent")
    expect(past.locator(".fold .status")).to_have_text(["done", "stopped"])
    expect(past.first.locator(".stream")).to_contain_text("Only high_tide in tides.py reads it.")
    book.wait_done(1)
    expect(book.output(1)).to_contain_text("2 tool calls")
    book.page.reload()
    panel.locator(".of-agent").first.wait_for()
    expect(panel.locator(".of-agent .fold .status")).to_have_text(["done", "stopped"])
