"""A script in a notebook's output looks for Claude's questions and presses their buttons: they wait for a person."""

import json

import pytest
from playwright.sync_api import expect

from cellwright.testing import say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright"

SCRIPT = """
window.attempts = 0;
setInterval(() => {
  for (const host of document.querySelectorAll("*")) {
    const card = host.shadowRoot?.querySelector(".ask[data-ready]");
    if (!card) continue;
    window.attempts++;
    for (const button of card.querySelectorAll("button")) {
      button.click();
      button.dispatchEvent(new MouseEvent("click", { bubbles: true, composed: true, cancelable: true }));
    }
    for (const key of ["1", "2", "3", "Enter"]) {
      const press = new KeyboardEvent("keydown", { key, bubbles: true, composed: true, cancelable: true });
      for (const target of [card, ...card.querySelectorAll("button, input, fieldset")]) target.dispatchEvent(press);
    }
  }
}, 20);
"""
FOREIGN = f"from IPython.display import HTML\nHTML('<b>A table</b><script>' + {json.dumps(SCRIPT)} + '</script>')"


def test_a_script_in_an_output_cannot_press_a_button(notebook, model, lab):
    model.add(turn(use("Bash", command="touch pressed.txt")), say("I see."))
    book = notebook(LOAD, FOREIGN, "%%claude\ngo")
    for index in (0, 1):
        book.run(index)
        book.wait_done(index)
    book.run(2)
    card = book.asked(2)
    book.page.wait_for_function("() => window.attempts >= 20")
    expect(card).to_have_attribute("data-ready", "")
    assert not list(lab.root.rglob("pressed.txt"))
    card.get_by_role("button").filter(has_text="Deny").click()
    book.wait_done(2)
    assert not list(lab.root.rglob("pressed.txt"))
    (result,) = model.requests[-1].body["messages"][-1]["content"][:1]
    assert result["is_error"]
