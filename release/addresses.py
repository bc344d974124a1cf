"""The addresses of the project, from the one place that a maintainer fills: `[tool.cellwright.home]` in `pyproject.toml`.

Everything that names an address is made from it: the metadata of packages, the page on an index, messages, `CITATION.cff`
and the recipe for conda-forge. Nothing is guessed: an address that is not filled is left out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_ONLY_HERE = re.compile(r"(?s)<!-- in the repository -->.*?<!-- everywhere -->\n")
_MARKS = re.compile(r"<!-- (?:in the repository|everywhere) -->\n")
_PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)#]*)\)")
_PICTURE_BLOCK = re.compile(r"<picture>(?s:.*?)</picture>\n")
_PICTURE_SOURCE = re.compile(r'(\bsrc(?:set)?=")(?!https?:)([^"]*)"')
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:)([^)#]*)(#[^)]*)?\)")
_FOR_TESTS = re.compile(r' (?:not-run|run-by)="[^"]*"')


class Home:
    """Where the project lives. `repository`, `documentation` and `email` are "" until the maintainer fills them."""

    def __init__(self, project: Mapping[str, Any], filled: Mapping[str, str]) -> None:
        self.version = str(project["version"])
        self.names = [str(author["name"]) for author in project.get("authors", ())]
        self.repository = filled.get("repository", "").rstrip("/")
        self.documentation = filled.get("documentation", "").rstrip("/")
        self.email = filled.get("email", "")
        if unknown := set(filled) - {"names", "repository", "documentation", "email"}:
            raise ValueError(f"[tool.cellwright.home] has no {', '.join(sorted(unknown))}")
        for address in (self.repository, self.documentation):
            if address and not address.startswith("https://"):
                raise ValueError(f"[tool.cellwright.home]: {address} does not begin with https://")
        if self.email and "@" not in self.email:
            raise ValueError(f"[tool.cellwright.home]: {self.email} is not an email address")

    @property
    def pages(self) -> str:
        """The address of the documentation's first page: of the site, or of the files in the repository; "" if neither."""
        if self.documentation:
            return f"{self.documentation}/index.html"
        return self.of_file("docs/index.md")

    def urls(self) -> dict[str, str]:
        """What `[project.urls]` says; empty as long as nothing is filled."""
        named = {"Homepage": self.repository or self.documentation, "Documentation": self.pages}
        if self.repository:
            named |= {
                "Source": self.repository,
                "Issues": f"{self.repository}/issues",
                "Changelog": self.of_file("CHANGELOG.md"),
            }
        return {name: address for name, address in named.items() if address}

    def authors(self) -> list[dict[str, str]]:
        """What `authors` says; the first has the address."""
        first, *others = self.names
        return [{"name": first, **({"email": self.email} if self.email else {})}, *({"name": each} for each in others)]

    def of_file(self, path: str) -> str:
        """The address of a file as it is in this version's tag; "" without a repository."""
        return f"{self.repository}/blob/v{self.version}/{path}" if self.repository else ""

    def of_picture(self, path: str) -> str:
        """The address of a picture's bytes as they are in this version's tag."""
        return f"{self.repository}/raw/v{self.version}/{path}"

    def of_link(self, path: str, anchor: str = "") -> str:
        """The address of what a document of the repository links to; a page of the documentation is the site's."""
        page = re.fullmatch(r"docs/(?!decisions/)(.*)\.md", path)
        if page and self.documentation:
            return f"{self.documentation}/{page[1]}.html{anchor}"
        return self.of_file(path) + anchor

    def index_page(self, readme: str) -> str:
        """The README as a package index shows it, which has no files beside it.

        With a repository, pictures and links are absolute; without one, those that would lead nowhere are left out, and so
        is what is for a clone.
        """
        text = _FOR_TESTS.sub("", readme)
        if self.repository:
            text = _MARKS.sub("", text)
            text = _PICTURE.sub(lambda found: f"![{found[1]}]({self.of_picture(found[2])})", text)
            text = _PICTURE_SOURCE.sub(lambda found: f'{found[1]}{self.of_picture(found[2])}"', text)
            return _LINK.sub(lambda found: f"[{found[1]}]({self.of_link(found[2], found[3] or '')})", text)
        text = _ONLY_HERE.sub("", text)
        text = re.sub(r"\s\(\[[^\]]*\]\((?!https?:)[^)]*\)\)", "", text)
        text = re.sub(f"(?:{_PICTURE.pattern}|{_PICTURE_BLOCK.pattern})\\n+", "", text)
        return _LINK.sub(r"\1", text)


def read_home(root: Path = ROOT) -> Home:
    """Read the place in `root`. Raises ValueError for what cannot be an address."""
    said = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    home = said.get("tool", {}).get("cellwright", {}).get("home", {})
    project = {"version": said["project"]["version"], "authors": [{"name": name} for name in home.get("names", ())]}
    return Home(project, home)
