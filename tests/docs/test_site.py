"""The site that `make docs` has built, as readers see it: light and dark, wide and narrow, from a folder, offline."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))  # importlib mode leaves it out

from accessibility import check_accessible

pytestmark = pytest.mark.browser

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = ("index", "get-started", "reference/python")


@pytest.fixture
def page(browser: Any) -> Any:
    if not (SITE / "index.html").is_file():
        if os.environ.get("CELLWRIGHT_REQUIRE_BROWSER") == "1":
            pytest.fail("the site is not built: make docs")
        pytest.skip("the site is not built: make docs")
    page = browser.new_page()
    yield page
    page.close()


def test_pages_are_accessible_fit_their_window_and_load_nothing_from_elsewhere(page: Any) -> None:
    elsewhere: list[str] = []
    page.on("request", lambda request: elsewhere.append(request.url) if not request.url.startswith("file:") else None)
    wider = {}
    for name in PAGES:
        page.goto((SITE / f"{name}.html").as_uri())
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            check_accessible(page.locator("body"))
        page.set_viewport_size({"width": 400, "height": 800})
        wider[name] = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        page.set_viewport_size({"width": 1180, "height": 900})
    assert wider == dict.fromkeys(PAGES, 0)
    assert elsewhere == []


def test_the_search_finds_a_setting(page: Any) -> None:
    page.goto((SITE / "search.html").as_uri() + "?q=sessionBudget")
    page.locator("ul.search li", has_text="Costs").first.wait_for()
