"""`cellwright docs`: the documentation that is installed with the package, without a network."""

from __future__ import annotations

import argparse
import os
import re
import sys
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.state_dir import make_private_folder, state_folder
from cellwright.terminal.exit_codes import ExitCode
from cellwright.terminal.views.streams import print_line
from cellwright.terminal.views.terminal_text import fitting_theme
from cellwright.text import lazy_pattern
from cellwright.this_process.late_imports import importing
from cellwright.version import FIRST_PAGE, documented

PACKAGE = Path(__file__).parents[2]
NOT_FOR_USERS = ("decisions", "protocol", "reference", "examples")
"""Folders of a checkout's `docs` that are not installed."""
FIRST = ("faq", "troubleshooting", "get-started")
"""Pages that answer questions: of pages that fit as well, they come first."""

_PICTURE = lazy_pattern(r"(?s)<picture>.*?</picture>\n")  # pictures are not installed
_HEADING = lazy_pattern(r"^#+ +(.*)$", re.MULTILINE)


def docs(argv: Sequence[str], *, open_browser: Callable[[str], bool] = webbrowser.open) -> int:
    """Print a page, or list those that there are, or those that a search finds. Raises CellwrightError."""
    parser = argparse.ArgumentParser(
        prog="cellwright docs",
        description="The documentation of this version; it is installed with the package and needs no network. "
        "Without a page it lists all of them.",
        allow_abbrev=False,
    )
    parser.add_argument("page", nargs="?", metavar="PAGE", help="print this page, for example `permissions`")
    parser.add_argument("--search", nargs="+", metavar="WORD", help="list the pages that have all these words")
    parser.add_argument("--open", action="store_true", help="open the page in a browser instead")
    options = parser.parse_args(argv)
    folder = pages_folder()
    pages = read_pages(folder)
    if options.search:
        return _print_found(search(pages, options.search), options.search)
    if options.page is None and not options.open:
        _print_list(pages)
        return ExitCode.OK
    name = _page_named(options.page or FIRST_PAGE, pages)
    if options.open:
        address = documented(name)
        address = address if address.startswith("https:") else _as_html(name, pages).as_uri()
        if open_browser(address):
            return ExitCode.OK
        print(f"No browser could be started. The page is {address}")
        return ExitCode.FAILED
    _print_page(pages[name])
    return ExitCode.OK


def pages_folder() -> Path:
    """The folder of the pages: installed with the package, or `docs` of a checkout. Raises CellwrightError."""
    for folder in (PACKAGE / "pages", PACKAGE.parents[1] / "docs"):
        if (folder / f"{FIRST_PAGE}.md").is_file():
            return folder
    raise CellwrightError(
        ErrorCode.FILE_ACCESS_ERROR, f"This installation has no documentation in {PACKAGE / 'pages'}."
    )


def read_pages(folder: Path) -> dict[str, str]:
    """Read the pages in `folder`: their texts by their names, which have no ending."""
    names = {path: path.relative_to(folder).with_suffix("").as_posix() for path in sorted(folder.rglob("*.md"))}
    return {
        name: _PICTURE.sub("", path.read_text("utf-8"))
        for path, name in names.items()
        if name.partition("/")[0] not in (*NOT_FOR_USERS, "site", "_build", "images")
    }


def title_of(text: str) -> str:
    """The first heading of a page."""
    found = _HEADING.search(text)
    return found[1].strip() if found else ""


def search(pages: Mapping[str, str], words: Sequence[str]) -> list[tuple[str, str]]:
    """Find the pages that have all `words`, the best first: each with the heading that fits best.

    A word in a title counts most, then in a heading, which is as good as a title if it has all of several; then how often
    the text has it.
    """
    wanted = [word.lower() for each in words for word in each.split()]
    ranked = []
    for name, text in pages.items():
        lower = text.lower()
        if not all(word in lower for word in wanted):
            continue
        headings = [heading.strip() for heading in _HEADING.findall(text)]
        best = max(headings or [""], key=lambda heading: sum(word in heading.lower() for word in wanted))
        points = sum(
            20 * (word in title_of(text).lower() or word in name)
            + 8 * (word in best.lower())
            + min(lower.count(word), 10)
            for word in wanted
        )
        asked = all(word in best.lower() for word in wanted) and len(wanted) > 1
        ranked.append((-points - 5 * (name in FIRST) - 20 * asked, name, best))
    return [(name, heading) for _, name, heading in sorted(ranked)[:10]]


def _page_named(wanted: str, pages: Mapping[str, str]) -> str:
    """The page that `wanted` names, with or without its folder and ending. Raises CellwrightError INVALID_PARAMETERS."""
    name = wanted.removeprefix("docs/").removesuffix(".md").removesuffix(".html").lower()
    if name in pages:
        return name
    if ends := [page for page in pages if page.rpartition("/")[2] == name]:
        return ends[0]
    found = [page for page, _ in search(pages, [wanted])][:3]
    hint = f" Pages about it: {', '.join(found)}." if found else " `cellwright docs` lists the pages."
    raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"Unknown page {wanted}.{hint}")


def _print_list(pages: Mapping[str, str]) -> None:
    width = max(len(name) for name in pages)
    for name, text in pages.items():
        print(f"{name:<{width}}  {title_of(text)}")
    how = "`cellwright docs PAGE` prints one, `--open` opens it in a browser, `--search WORD` finds pages."
    print_line(f"\n{how}", sys.stdout)


def _print_found(found: Sequence[tuple[str, str]], words: Sequence[str]) -> int:
    if not found:
        print(f"No page has {' and '.join(words)}.", file=sys.stderr)
        return ExitCode.FAILED
    width = max(len(name) for name, _ in found)
    for name, heading in found:
        print(f"{name:<{width}}  {heading}")
    return ExitCode.OK


def _print_page(text: str) -> None:
    """As Markdown where a program reads it, drawn in a terminal."""
    if not sys.stdout.isatty():
        print(text)
        return
    from cellwright.terminal.views.markdown_view import drawn_markdown  # rich: for a terminal alone
    from cellwright.terminal.views.themes import theme_named

    theme = theme_named(fitting_theme(os.environ))
    console = theme.console(sys.stdout)
    with console.pager(styles=True, links=False):
        console.print(drawn_markdown(text, theme))


def _as_html(name: str, pages: Mapping[str, str]) -> Path:
    """Write all pages as HTML, since they link to each other; return the file of the page `name`."""
    with importing:
        from markdown_it import MarkdownIt  # for this alone

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    folder = state_folder() / "documentation"
    for page, text in pages.items():
        file = folder / f"{page}.html"
        make_private_folder(file.parent)
        body = re.sub(r'(<a href="(?!https?:)[^"#]*)\.md(?=["#])', r"\1.html", markdown.render(text))
        file.write_text(_HTML.format(title=title_of(text), body=body), "utf-8")
    return folder / f"{name}.html"


_HTML = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }}
body {{ max-width: 50rem; margin: 2rem auto; padding: 0 1rem }}
pre {{ overflow: auto; padding: .75rem; border: 1px solid #8888 }}
table {{ border-collapse: collapse }}
td, th {{ padding: .25rem .5rem; border: 1px solid #8888; text-align: left }}
img {{ display: none }}
</style>
<body>{body}</body></html>
"""
