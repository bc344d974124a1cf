"""Files that an answer without tools proposes: fenced blocks whose first line names them, as `python:src/app.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from cellwright.agent.tool import Tool
from cellwright.text import lazy_pattern
from cellwright.this_process.late_imports import importing

_NAMED = lazy_pattern(r"(?P<language>[\w+#.-]*):(?P<path>(?!/{2})[^\s\x00-\x1f](?:[^\x00-\x1f]*\S)?)\s*")


class FileBlock(Struct, frozen=True):
    """One block: the path that it names, and the content of the file."""

    path: str
    content: str


class EndProposals(Protocol):
    """Calls that are made when Claude is done, for the user to decide on. `tool` is one that they may call."""

    @property
    def tool(self) -> Tool: ...

    async def calls(self, answer: str, run_id: str) -> list[dict[str, Any]]:
        """The calls that follow `answer`; `run_id` makes their ids their own."""
        ...

    def tell(
        self, calls: Sequence[Mapping[str, Any]], results: Mapping[str, Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """`calls` had these results, by their ids; gives the calls that follow from them."""
        ...


class FileProposals(Struct, frozen=True):
    """The way of a run's blocks to the disk: each is a call of `tool`, which is Write, and judged as one.

    `report` is told each path with what became of it.
    """

    tool: Tool
    report: Callable[[Sequence[tuple[str, str]]], None]

    async def calls(self, answer: str, run_id: str) -> list[dict[str, Any]]:
        """The calls that the blocks of `answer` are; `run_id` makes their ids its own."""
        return [
            {
                "type": "tool_use",
                "id": f"block_{run_id}_{number}",
                "name": self.tool.name,
                "input": {"file_path": block.path, "content": block.content},
            }
            for number, block in enumerate(find_blocks(answer), 1)
        ]

    def tell(
        self, calls: Sequence[Mapping[str, Any]], results: Mapping[str, Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Report what became of `calls`, by their results; no others follow."""
        outcomes = []
        for call in calls:
            result = results.get(call["id"])
            if result is None:
                outcome = "not written"
            else:
                outcome = f"not written: {result['content']}" if result.get("is_error") else "written"
            outcomes.append((str(call["input"]["file_path"]), outcome))
        self.report(outcomes)
        return []


def find_blocks(markdown: str) -> list[FileBlock]:
    """The blocks of `markdown` that name a file, in their order.

    >>> find_blocks("```python:src/app.py\\nprint(1)\\n```\\n```python\\nprint(2)\\n```")
    [FileBlock(path='src/app.py', content='print(1)\\n')]
    """
    if "```" not in markdown and "~~~" not in markdown:
        return []
    with importing:
        from markdown_it import MarkdownIt  # few runs go without tools

    blocks = []
    for token in MarkdownIt("commonmark").parse(markdown):
        named = _NAMED.fullmatch(token.info) if token.type == "fence" and token.level == 0 else None
        if named is not None:
            blocks.append(FileBlock(named["path"], token.content))
    # nobody looks through more of one answer
    return blocks[:50]
