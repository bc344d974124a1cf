"""What hatchling asks when it builds: the metadata that is made from the addresses, and the pages that ship."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

sys.path.insert(0, str(Path(__file__).parent))

from addresses import read_home

PAGES = "cellwright/pages"
BUILT = ("src/cellwright/labextension/package.json", "src/cellwright/kernel/widgets/static/transcript.js")
"""The built front end, which an sdist has, and a clone has after `make build`."""
WITHOUT_NPM = (
    "The front end is not built here, and npm is not in PATH. Install Node 20.19 or newer and try again, "
    "or install a built package: pip install cellwright"
)
NOT_SHIPPED = ("decisions", "examples", "images", "site", "reference", "_build", "protocol")
"""Folders of `docs` whose pages `cellwright docs` has no use for: reasons, recordings, and what `make docs` makes."""


def shipped_pages(root: Path) -> dict[str, str]:
    """The pages that are installed with the package: files, and their places in it."""
    docs = root / "docs"
    pages = {
        str(page): f"{PAGES}/{page.relative_to(docs).as_posix()}"
        for page in sorted(docs.rglob("*.md"))
        if page.relative_to(docs).parts[0] not in NOT_SHIPPED
    }
    return {**pages, str(root / "CHANGELOG.md"): f"{PAGES}/changelog.md"}


class CustomMetadataHook(MetadataHookInterface):
    """`readme`, `urls` and `authors`, from the one place of addresses."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        home = read_home(root)
        text = home.index_page((root / "README.md").read_text("utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["authors"] = home.authors()
        metadata["urls"] = home.urls()


class CustomBuildHook(BuildHookInterface):
    """The pages of `docs` in the wheel; an editable installation reads them where they are.

    It is the first hook: where the next cannot build the front end, it says so in one line.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not all((Path(self.root) / each).is_file() for each in BUILT) and shutil.which("npm") is None:
            sys.exit(WITHOUT_NPM)
        if self.target_name == "wheel" and version != "editable":
            build_data["force_include"].update(shipped_pages(Path(self.root)))
