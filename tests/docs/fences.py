"""The code blocks of the documents: what each is, what it needs, and why one is not executed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
    ROOT / "docs" / "protocol" / "results.md",
)
_ATTRIBUTE = re.compile(r'(not-run|run-by)="([^"]+)"')
_GIVEN = re.compile(r"<!-- given:\s(.*?)\s-->", re.DOTALL)


@dataclass(frozen=True)
class Fence:
    """One block. `given` is code that makes what the block takes for granted.

    `run_by` is the test that runs it where it is not one for the tests of this folder; `not_run` says why nothing can.
    """

    page: str
    line: int
    language: str
    code: str
    given: str = ""
    not_run: str = ""
    run_by: str = ""

    @property
    def elsewhere(self) -> bool:
        return bool(self.not_run or self.run_by)

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def kind(self) -> str:
        """How it is executed: a block without a language is a cell."""
        if self.language == "python" and re.search(r"^c\.", self.code, re.MULTILINE):
            return "config"
        return {"": "cell", "python": "cell", "sh": "shell", "console": "shell"}.get(self.language, self.language)


def fences() -> list[Fence]:
    """All blocks, page by page, in their order."""
    return [fence for page in PAGES for fence in _fences_of(page)]


def _fences_of(page: Path) -> list[Fence]:
    found, given = [], ""
    for token in MarkdownIt("commonmark").parse(page.read_text("utf-8")):
        if token.type == "html_block":
            said = _GIVEN.search(token.content)
            given = said[1] if said else ""
        elif token.type == "fence" and token.map:
            words = token.info.split(maxsplit=1)
            said_of_it = dict(_ATTRIBUTE.findall(token.info))
            found.append(
                Fence(
                    page=str(page.relative_to(ROOT)),
                    line=token.map[0] + 1,
                    language=words[0] if words else "",
                    code=token.content,
                    given=given,
                    not_run=said_of_it.get("not-run", ""),
                    run_by=said_of_it.get("run-by", ""),
                )
            )
            given = ""
    return found
