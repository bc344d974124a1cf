"""One preview: what it would change, the question that lists that, and what an answer accepts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from msgspec import Meta, field

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolLimits, ToolResult, tool
from cellwright.events import Preview
from cellwright.features.preview.changes import Item, items_of
from cellwright.features.preview.staged_calls import ACCEPT, Stage
from cellwright.sessions.session import Session
from cellwright.text import counted, lazy_pattern

if TYPE_CHECKING:
    from cellwright.conversation.kernel_copies import PreviewKernel

QUESTION = "Which changes do you accept?"
ALL, NONE = "All", "None"

_NUMBERS = lazy_pattern(r"\d+(?:[ ,]+\d+)*")


class Choice(ToolInput):
    """One answer to choose. `marked`: a form with boxes has it ticked beforehand."""

    label: str
    description: str
    preview: str | None = None
    marked: bool = False


class Asked(ToolInput):
    """The question, as AskUserQuestion has it."""

    question: str
    header: str
    options: tuple[Choice, ...]
    multi_select: bool = field(default=True, name="multiSelect")


class AcceptPreviewInput(ToolInput):
    """The list of what would change."""

    questions: tuple[Asked, ...]


class AnsweredPreviewInput(AcceptPreviewInput):
    """The list with the user's answer."""

    answers: Annotated[Mapping[str, str | tuple[str, ...]], Meta(description="The answer, by the question.")] = field(
        default_factory=dict
    )
    annotations: Annotated[Mapping[str, Any], Meta(description="Remarks.")] = field(default_factory=dict)


class OpenPreview:
    """One preview from its beginning until it is answered. For the agent's loop."""

    def __init__(self, stage: Stage, kernel: PreviewKernel, session: Session) -> None:
        self.stage = stage
        self.kernel = kernel
        self.session = session
        self.items: list[Item] = []

    async def look(self) -> list[Item]:
        """List the changes that it would make, as it is now."""
        if self.stage.tree is None:
            return []
        variables = await self.kernel.variables() if self.stage.has_run else ()
        self.items = await asyncio.to_thread(
            items_of, self.stage.tree, self.kernel.outputs, variables, list(self.kernel.codes)
        )
        return self.items

    async def close(self) -> None:
        """Drop the copies."""
        self.stage.is_off = True
        await self.kernel.close()
        if (tree := self.stage.tree) is not None:
            await asyncio.to_thread(tree.close)


class AcceptsParts(Protocol):
    """Brings what is accepted of a preview to the user's own, and notes how it was answered."""

    async def accept(self, preview: OpenPreview, numbers: Sequence[int]) -> tuple[str, list[str]]: ...
    async def answered_with(self, preview: OpenPreview, lines: Sequence[str]) -> None: ...


class Accepting:
    """The question at the end of a preview; takes the place of `FileProposals`."""

    def __init__(self, feature: AcceptsParts, preview: OpenPreview) -> None:
        self._feature = feature
        self._preview = preview
        self._codes: list[str] = []
        self.tool = self._accept_tool()

    async def calls(self, _answer: str, run_id: str) -> list[dict[str, Any]]:
        """The question, if anything would change."""
        preview = self._preview
        if preview.stage.at_work is None:
            return []
        if not await preview.look():
            await self._feature.answered_with(preview, ["The preview would have changed nothing."])
            return []
        options = [  # the number of an item is its key
            *(
                _choice(item, label, marked=item.number in all_of(preview.items))
                for label, item in labels_of(preview.items).items()
            ),
            {"label": ALL, "description": f"{_all_words(preview.items)} {preview.kernel.problem}".strip()},
            {"label": NONE, "description": "Nothing changes; the copies are dropped."},
        ]
        asked = {"question": QUESTION, "header": "Preview", "multiSelect": True, "options": options}
        return [_call(f"preview_{run_id}", ACCEPT, {"questions": [asked]})]

    def tell(
        self, calls: Sequence[Mapping[str, Any]], results: Mapping[str, Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """The code that was accepted, to be run in the kernel as any other; what waits, where nobody answered."""
        call, stage = calls[0], self._preview.stage
        if call["name"] == ACCEPT and stage.can_ask and results.get(call["id"], {}).get("is_error"):
            stage.can_ask = False
            return [_call(f"{call['id']}_waits", ACCEPT, {"questions": []})]
        codes, self._codes = self._codes, []
        return [_call(f"{call['id']}_{number}", "Python", {"code": code}) for number, code in enumerate(codes, 1)]

    def _accept_tool(self) -> Tool:
        async def shown(input: AcceptPreviewInput) -> Preview:
            return Preview(QUESTION, listing(self._preview.items))

        @tool(
            name=ACCEPT,
            description="The user accepts parts of a preview.",
            access=ToolAccess("question"),
            read_only=True,
            has_effects=False,
            category="planning",
            offered=AcceptPreviewInput,
            asks="question",
            limits=ToolLimits(seconds=None),
            title=lambda _input: "Preview: what this turn would change",
            preview=shown,
        )
        async def accept_preview(input: AnsweredPreviewInput) -> ToolResult:
            preview = self._preview
            answer = input.answers.get(QUESTION, "")
            chosen = numbers_in(answer, preview.items)
            listed = [{"number": item.number, "kind": item.kind, "title": item.title} for item in preview.items]
            structured = {"items": listed}
            if chosen is None:
                return ToolResult(
                    f"{WAITS}\n{listing(preview.items)}",
                    display={"answers": {QUESTION: f"No answer yet. {WAITS}"}},
                    structured=structured,
                )
            text, self._codes = await self._feature.accept(preview, sorted(chosen))
            return ToolResult(
                text,
                display={"answers": {QUESTION: "; ".join(text.splitlines())}},
                structured={**structured, "accepted": sorted(chosen)},
            )

        return accept_preview


WAITS = (
    "Nothing was changed. The preview waits: /preview shows it, /preview accept 1 3 (or all) accepts, "
    "/preview decline drops it."
)


def listing(items: Sequence[Item]) -> str:
    """The items with their diffs, for those who show no form."""
    parts = [f"{item.number}. {item.title}" + (f"\n{item.detail.rstrip()}" if item.detail else "") for item in items]
    return "\n\n".join(parts)


def labels_of(items: Sequence[Item]) -> dict[str, Item]:
    """The items by their answers; answers are joined by commas, so they have none. Titles alike get a number.

    All get one if a title could be taken for another answer: Claude names files.

    >>> list(labels_of([Item(1, "file", "a, b.py (new file) +1 -0", ""), Item(2, "variable", "`n`: 3 → 4", "")]))
    ['a; b.py (new file) +1 -0', 'n: 3 → 4']
    >>> list(labels_of([Item(1, "cell", "new cell", ""), Item(2, "cell", "new cell", "")]))
    ['1. new cell', '2. new cell']
    >>> list(labels_of([Item(1, "file", "a,b", ""), Item(2, "file", "a;b", ""), Item(3, "file", "1. a;b", "")]))
    ['1. a;b', '2. a;b', '3. 1. a;b']
    """
    titles = [item.title.replace(",", ";").replace("`", "").strip() for item in items]
    labels = [
        title if titles.count(title) == 1 else f"{item.number}. {title}"
        for title, item in zip(titles, items, strict=True)
    ]
    taken = any(label in (ALL, NONE, "all") or _NUMBERS.fullmatch(label) for label in labels)
    if taken or len(set(labels)) < len(labels):
        labels = [f"{item.number}. {title}" for title, item in zip(titles, items, strict=True)]
    return dict(zip(labels, items, strict=True))


def numbers_in(answer: str | Sequence[str], items: Sequence[Item]) -> set[int] | None:
    """The numbers that an answer accepts: labels, or numbers of one's own; None: there is no answer.

    >>> items = [Item(1, "file", "a.py", ""), Item(2, "file", "b.py", ""), Item(3, "code", "run", "")]
    >>> numbers_in("a.py, run", items), numbers_in("2 3", items), numbers_in("", items)
    ({1, 3}, {2, 3}, None)
    >>> sorted(numbers_in(ALL, items)), numbers_in(NONE, items)
    ([1, 2], set())
    """
    parts = [part.strip() for part in (answer.split(", ") if isinstance(answer, str) else answer) if part.strip()]
    if not parts:
        return None
    by_label = {label: item.number for label, item in labels_of(items).items()}
    chosen: set[int] = set()
    for part in parts:
        if part in (ALL, "all"):
            chosen |= all_of(items)
        elif part in by_label:
            chosen.add(by_label[part])
        elif _NUMBERS.fullmatch(part):
            chosen |= {int(number) for number in re.findall(r"\d+", part)}
    return set() if NONE in parts else chosen & {item.number for item in items}


def all_of(items: Sequence[Item]) -> set[int]:
    """The numbers of all items; without that of the code if every variable comes over as data."""
    return {item.number for item in items if item.kind != "code" or item.needed}


def _all_words(items: Sequence[Item]) -> str:
    runs = any(item.kind == "code" and item.needed for item in items)
    return f"{counted(len(all_of(items)), 'change')}{', with the code, which asks' if runs else ''}."


def _choice(item: Item, label: str, *, marked: bool) -> dict[str, Any]:
    kinds = {
        "variable": "Copied into your kernel as data.",
        "code": "Instead of single variables. Asks, as Python does.",
    }
    choice = {"label": label, "description": kinds.get(item.kind, ""), "marked": marked}
    return {**choice, "preview": item.detail} if item.detail else choice


def _call(id: str, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": dict(given)}
