"""`/stability` in a cell: the answer's footer writes the command, the question names frame and label, the table comes."""

import re
import sys

import pytest
from accessibility import check_accessible
from lab_tab import DARK, LIGHT
from playwright.sync_api import expect

from cellwright.testing import say, turn, use

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux copies a kernel"),
]

DATA = """\
import numpy as np, pandas as pd
rng = np.random.default_rng(3)
arm = rng.permutation(np.repeat(["new", "old"], 150))
df = pd.DataFrame({
    "arm": arm,
    "minutes": rng.normal(41, 4, 300) + 2 * (arm == "new"),
    "clicks": rng.poisson(12, 300),
})"""
CODE = """\
means = df.groupby("arm").mean(numeric_only=True)
print("minutes_new", round(means.minutes["new"], 2))
print("minutes_gap", round(means.minutes["new"] - means.minutes["old"], 3))
print("clicks_gap", round(means.clicks["new"] - means.clicks["old"], 3))"""
ANSWER = (
    "Visitors of the new arm stay {minutes_new} minutes, a gap of {minutes_gap} minutes. "
    "They also click more often: clicks_gap is {clicks_gap}."
)


def test_numbers_of_an_answer_are_tested_from_its_footer(notebook, model, page, tab):
    names = {}
    exec(DATA, names)
    means = names["df"].groupby("arm").mean(numeric_only=True)
    gaps = {f"{name}_gap": round(means[name]["new"] - means[name]["old"], 3) for name in ("minutes", "clicks")}
    answer = ANSWER.format(minutes_new=round(means.minutes["new"], 2), **gaps)
    book = notebook(
        "%load_ext cellwright", DATA, "%%claude\nDo visitors of the new arm stay longer?", "%claude /stability n=20"
    )
    model.add(turn(use("Branch", code=CODE)), turn(say(answer)))
    for cell in range(3):
        book.run(cell)
        book.wait_done(cell)
    book.output(2).get_by_role("button", name=re.compile(r"\d numbers? traced")).click()
    test = book.output(2).get_by_role("button", name="Test stability")
    test.scroll_into_view_if_needed()
    test.press("Enter")
    composer = page.locator(".cellwright-composer textarea.cellwright-prompt")
    expect(composer).to_have_value(re.compile(r'/stability answer="\w[^"]+"'))
    book.run(3)
    card = book.asked_by_keys(3)
    expect(card).to_contain_text("Test these numbers on resampled df?")
    expect(card).to_contain_text("arm permuted as a null")
    page.keyboard.press("1")
    book.wait_done(3)
    rows = book.output(3).locator("tr")
    expect(rows.filter(has_text=str(gaps["clicks_gap"]))).to_contain_text("could be chance")
    expect(rows.filter(has_text=str(gaps["minutes_gap"]))).not_to_contain_text("could be chance")
    page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-right-area')")
    expect(composer).to_be_hidden()
    page.mouse.move(5, 5)  # a row under it would be blue
    for theme in (DARK, LIGHT):
        tab.choose_theme(theme)
        book.cell(3).scroll_into_view_if_needed()
        check_accessible(book.output(3), "table")
        book.screenshot("stability-dark" if theme == DARK else "stability", book.cell(3))
