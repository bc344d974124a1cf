"""The site that `make docs` has built, as readers see it: light and dark, wide and narrow, from a folder, offline."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves both out
sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))

from accessibility import check_accessible

from users_words import USERS_WORDS

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "_build" / "html"
PAGES = {"index": "", "get-started": "", "reference/python": "#classes"}
"""What is looked at, and of a page that is long the part that is like the rest of it."""

FOR_USERS = (
    "faq",
    "troubleshooting",
    "get-started",
    "guides/",
    "settings",
    "costs",
    "permissions",
    "providers",
    "security",
)
"""Pages that come before every reason."""


@pytest.fixture(scope="module")
def site() -> Path:
    """The site, which is built where it is not there: what changes in it is for `make docs` to see."""
    if not (SITE / "index.html").is_file():
        subprocess.run(["make", "docs"], cwd=ROOT, check=True)
    return SITE


@pytest.fixture
def page(browser: Any, site: Path) -> Any:
    page = browser.new_page()
    yield page
    page.close()


def test_pages_are_accessible_fit_their_window_and_load_nothing_from_elsewhere(page: Any) -> None:
    elsewhere: list[str] = []
    page.on("request", lambda request: elsewhere.append(request.url) if not request.url.startswith("file:") else None)
    wider = {}
    for name, more in PAGES.items():
        page.emulate_media(color_scheme="light")
        page.goto((SITE / f"{name}.html").as_uri())
        page.set_viewport_size({"width": 400, "height": 800})
        wider[name] = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        page.set_viewport_size({"width": 1180, "height": 900})
        if more:
            page.locator(more).evaluate("part => part.remove()")
        for scheme, rules in (("light", ()), ("dark", ("color-contrast", "link-in-text-block"))):
            page.emulate_media(color_scheme=scheme)
            check_accessible(page.locator("body"), rules=rules)
    assert wider == dict.fromkeys(PAGES, 0)
    assert elsewhere == []


def test_each_picture_opens_its_file_and_keys_reach_the_one_that_is_shown(page: Any, site: Path) -> None:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto((site / "get-started.html").as_uri())
        pictures = page.locator("article img")
        assert pictures.count() == page.locator("article a.picture > img").count() > 4
        for link in page.locator("article a.picture").all():
            shown = link.locator("img").is_visible()
            link.focus()
            assert link.evaluate("node => node === document.activeElement") == shown
            assert (site / link.get_attribute("href")).is_file()
            assert not shown or scheme == ("dark" if "-dark" in link.get_attribute("href") else "light")


def test_the_search_answers_the_words_of_users_and_puts_reasons_last(page: Any) -> None:
    found: dict[str, list[str]] = {}
    for words in USERS_WORDS:
        page.goto((SITE / "search.html").as_uri() + f"?q={quote(words)}")
        page.locator("#search-results", has_text=re.compile("Search finished|did not match")).wait_for()
        links = page.locator("ul.search li > a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
        found[words] = [link.partition("#")[0].removesuffix(".html") for link in links]
    first = {words: list(dict.fromkeys(pages))[:3] for words, pages in found.items()}
    assert {words: first[words] for words, page in USERS_WORDS.items() if page not in first[words]} == {}
    for words, pages in found.items():
        reasons = [name.startswith("decisions/") for name in pages if name.startswith(("decisions/", *FOR_USERS))]
        assert reasons == sorted(reasons), words
