"""All sessions on one screen, and settings by clicks: a question of a notebook that is closed, a rule, a server."""

import json

import pytest
from accessibility import check_accessible
from playwright.sync_api import expect

from cellwright.testing import say, turn, use
from eventual import eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CLOSE = "() => { for (const widget of [...window.jupyterapp.shell.widgets('main')]) widget.dispose(); }"


def run_command(page, command):
    page.evaluate("command => window.jupyterapp.commands.execute(command)", command)


def test_a_question_of_a_notebook_that_is_closed_is_seen_and_answered(notebook, model, page):
    book = notebook("%%claude\nBuild the tide tables")
    page.keyboard.press(
        "Control+Shift+Y"
    )  # so that the panel has the question, too, and connects anew when it is answered
    page.locator(".cellwright-panel .kernel[data-connection='connected']").wait_for()
    model.add(turn(use("Bash", command="echo built > tables.txt")), turn(say("The tables are built.")))
    book.run(0)
    book.asked(0)
    page.evaluate(CLOSE)
    run_command(page, "cellwright:show-all-sessions")
    view = page.locator(".cw-overview")
    row = view.locator(".kernel-row[data-state='asking']")
    expect(row).to_contain_text("notebook.ipynb")
    expect(row).to_contain_text("echo built > tables.txt")
    expect(row).to_contain_text("waiting for you · ")
    check_accessible(view)
    book.screenshot("panel-all-sessions", page.locator(".cellwright-panel"), height=600)
    answer = view.get_by_role("button", name="Answer in")
    answer.focus()
    page.keyboard.press("Enter")
    page.locator(".cellwright-panel .ask[data-ready]").wait_for()
    page.wait_for_function("() => document.activeElement.matches('.cellwright-panel .answer')")
    page.keyboard.press("1")
    file = (book.lab.root / book.path).with_name("tables.txt")
    eventually(file.exists)
    run_command(page, "cellwright:show-all-sessions")
    expect(view.locator(".kernel-row[data-state='idle']")).to_contain_text("ended ")


def test_a_rule_and_a_server_are_added_by_clicks_in_the_file_that_is_named(notebook, model, page):
    book = notebook("")
    (book.lab.root / book.path).with_name(".mcp.json").write_text(
        json.dumps({"mcpServers": {"tide-gauge": {"command": "uvx", "args": ["tide-gauge-mcp"]}}})
    )
    page.keyboard.press("Control+Shift+Y")
    page.locator(".cellwright-panel .kernel[data-connection='connected']").wait_for()
    run_command(page, "cellwright:manage")
    view = page.locator(".cw-manage")
    view.get_by_role("button", name="Add a rule…").click()
    view.get_by_label("Rule", exact=True).fill("Bash(pytest *)")
    settings = book.lab.home / ".claude" / "settings.json"
    expect(view.locator(".writes")).to_have_text("Writes ~/.claude/settings.json")
    assert not settings.exists()
    page.keyboard.press("Enter")
    rule = view.locator(".item", has_text="Bash(pytest *)")
    expect(rule).to_contain_text("Shell commands that match pytest *")
    expect(rule.locator(".saved")).to_have_text("Saved in ~/.claude/settings.json")
    expect(page.locator(".cellwright-prompt")).to_be_hidden()  # nothing is asked here
    assert json.loads(settings.read_text()) == {"permissions": {"allow": ["Bash(pytest *)"]}}
    check_accessible(view)
    view.get_by_role("button", name="Why was this asked?").click()
    view.get_by_label("Command, path").fill("pytest -q tides")
    view.get_by_role("button", name="Explain").click()
    expect(view.locator(".output")).to_contain_text("Allowed")
    book.screenshot("panel-manage-rules", page.locator(".cellwright-panel"), height=720)
    view.get_by_role("tab", name="MCP").click()
    expect(view.locator(".item", has_text="tide-gauge")).to_contain_text("waits for your approval")
    view.get_by_role("button", name="Paste JSON…").click()
    weather = {"url": "https://weather.example/mcp", "headers": {"X-Key": "hush"}}
    view.get_by_label("JSON, as").fill(json.dumps({"mcpServers": {"weather": weather}}))
    view.get_by_role("button", name="Add", exact=True).click()
    item = view.locator(".item", has_text="weather")
    item.locator("summary", has_text="More").click()
    item.get_by_role("button", name="Edit").click()
    assert "hush" not in item.locator("textarea").input_value()
    check_accessible(view)
    book.reel("manage-mcp")
    view.get_by_role("tab", name="Settings").click()
    view.get_by_label("Density").select_option("compact")
    page.locator(".cellwright-panel[data-density='compact']").wait_for()
    check_accessible(view)
    book.reel("manage-settings")
    settings.unlink()
