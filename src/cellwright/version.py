"""The version, and where its documentation is: where every room can read it."""

from __future__ import annotations

VERSION = "0.1.0"

FIRST_PAGE = "index"


def documented(page: str = FIRST_PAGE) -> str:
    """Name the place where users read a page of `docs`, without its ending: an address, or the command that prints it.

    The address is the one that our package names (`[tool.cellwright.home]` when it was built). Messages put it into a
    sentence: f"{documented('settings')} lists them."
    """
    first = _address_of_documentation()
    if first.endswith("/index.html"):
        return f"{first.removesuffix(f'{FIRST_PAGE}.html')}{page}.html"
    if first.endswith("/index.md"):
        return f"{first.removesuffix(f'{FIRST_PAGE}.md')}{page}.md"
    return "`cellwright docs`" if page == FIRST_PAGE else f"`cellwright docs {page}`"


def _address_of_documentation() -> str:
    """The address that our package names as its documentation; "" if none."""
    import importlib.metadata  # for messages and --help alone

    try:
        named = importlib.metadata.metadata("cellwright").get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    return next(
        (url.strip() for label, _, url in (each.partition(",") for each in named) if label == "Documentation"), ""
    )
