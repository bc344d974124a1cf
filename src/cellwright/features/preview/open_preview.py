"""One preview: the numbered list of what it would change, the question that shows it, and how what is accepted is done."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from msgspec import Meta, Struct, field

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolLimits, ToolResult, tool
from cellwright.errors import ToolError
from cellwright.events import Preview
from cellwright.features.preview.staged import ACCEPT, FileChange, Stage, StagedTree
from cellwright.sessions.session import Session
from cellwright.text import counted, lazy_pattern, visible_line
from cellwright.tools.files.atomic_write import FileWrite, write_together
from cellwright.tools.files.changes import diff_texts
from cellwright.tools.files.file_state import FileState, UpcomingChange
from cellwright.tools.files.staged_file import FileChanged
from cellwright.tools.notebook.file_notebook import FileNotebook, cells_of
from cellwright.tools.notebook.open_notebook import (
    CellChange,
    CellConflict,
    CellPosition,
    Delete,
    Insert,
    OpenNotebook,
    OpenNotebooks,
    Replace,
    cell_name,
    source_sha256,
)

if TYPE_CHECKING:
    from cellwright.conversation.kernel_copies import CellOutputsKept, PreviewKernel, Variable


DETAIL_CHARS = 20_000

Kind = Literal["file", "cell", "variable", "code"]

QUESTION = "Which changes do you accept?"
ALL, NONE = "All", "None"

_NUMBERS = lazy_pattern(r"\d+(?:[ ,]+\d+)*")


class Item(Struct, frozen=True):
    """One thing to accept. `number` counts from 1; `title` names it in a line, `detail` shows it."""

    number: int
    kind: Kind
    title: str
    detail: str
    file: FileChange | None = None
    notebook: str = ""
    cell: CellChange | None = None
    behind: tuple[str, ...] = ()
    """The ids of the cells before a new one, the nearest first."""
    name: str = ""
    needed: bool = False
    """Of code: some of its variables come over in no other way."""


def items_of(
    tree: StagedTree, outputs: CellOutputsKept, variables: Sequence[Variable], codes: Sequence[str]
) -> list[Item]:
    """List the changes of the preview, as it is now."""
    found: list[Item] = []

    def add(kind: Kind, title: str, detail: str, **more: Any) -> None:
        if (rest := len(detail) - DETAIL_CHARS) > 0:
            detail = f"{detail[:DETAIL_CHARS]}\n[… {rest:,} characters more]"
        found.append(Item(len(found) + 1, kind, visible_line(title, 200), detail, **more))

    changed = tree.changed()
    several = sum(change.name.endswith(".ipynb") for change in changed) > 1
    for change in changed:
        if change.name.endswith(".ipynb") and change.before is not None and change.after is not None:
            for title, detail, cell, behind in _cell_changes(change, outputs):
                add(
                    "cell",
                    f"{title} in {change.name}" if several else title,
                    detail,
                    notebook=change.name,
                    cell=cell,
                    behind=behind,
                )
            continue
        add("file", *_file_words(change, conflict=not tree.is_as_copied(change.name)), file=change)
    for variable in variables:
        if not variable.why_not:
            add("variable", variable.text, "", name=variable.name)
    others = [f"{variable.text} ({variable.why_not})" for variable in variables if variable.why_not]
    if codes and variables:
        title = f"Run the turn's code in your kernel ({counted(len(codes), 'call')})"
        add("code", title, "\n".join([*others, "", "\n\n".join(codes)]).strip(), needed=bool(others))
    return found


def _file_words(change: FileChange, *, conflict: bool) -> tuple[str, str]:
    what = "new file" if change.before is None else "deleted" if change.after is None else ""
    if conflict:
        what = "it has changed on disk since, so it will stay as it is there"
    title = f"{change.name} ({what})" if what else change.name
    try:
        texts = [None if data is None else data.decode() for data in (change.before, change.after)]
    except UnicodeDecodeError:
        return f"{title} {len(change.after or b''):,} bytes", "(not text)"
    diff = diff_texts(texts[0], texts[1], change.name)
    return f"{title} {diff.counts}", diff.text


CellWords = tuple[str, str, CellChange, tuple[str, ...]]


def _cell_changes(change: FileChange, outputs: CellOutputsKept) -> list[CellWords]:
    """The cells that differ; a cell that only moved is none."""
    assert change.before is not None
    assert change.after is not None
    try:
        before, after = cells_of(change.before), cells_of(change.after)
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    was = {cell.id: cell for cell in before}
    there = {cell.id for cell in after}
    found: list[CellWords] = []
    for index, cell in enumerate(after):
        kept = outputs.get((change.name, cell.id))
        given = kept[1] if kept is not None and kept[0] == cell.sha256 else None
        shown = f"\n[{counted(len(given), 'output')}]" if given else ""
        name = cell_name(cell.position, cell.execution_count, cell.source)
        old = was.get(cell.id)
        if old is None:
            insert = Insert(
                place=CellPosition("start"),
                cell_type=cell.cell_type,  # type: ignore[arg-type]  # judged by who makes the change
                source=cell.source,
                cell_id=cell.id,
                outputs=given or (),
            )
            behind = tuple(each.id for each in reversed(after[:index]))
            found.append((f"New {name}", cell.source + shown, insert, behind))
        elif (old.source, old.cell_type) != (cell.source, cell.cell_type) or given is not None:
            diff = diff_texts(old.source, cell.source, name).text
            replaced = Replace(
                cell_id=cell.id,
                expect=old.sha256,
                source=cell.source,
                cell_type=cell.cell_type,  # type: ignore[arg-type]  # as above
                outputs=given,
            )
            words = f"Edit {name}" if old.source != cell.source else f"Outputs of {name}"
            found.append((words, (diff or cell.source) + shown, replaced, ()))
    for cell in before:
        if cell.id not in there:
            name = cell_name(cell.position, cell.execution_count, cell.source)
            gone = Delete(cell_id=cell.id, expect=source_sha256(cell.source))
            found.append((f"Delete {name}", cell.source, gone, ()))
    return found


class Acceptance(Struct):
    """Brings what is accepted of a preview into the project, kept like any other change: `recorded` keeps a notebook's."""

    tree: StagedTree
    state: FileState
    notebooks: OpenNotebooks
    recorded: Callable[[OpenNotebook], OpenNotebook]

    async def take(self, item: Item) -> str:
        """Make one change; gives why it could not be made, "" when it is."""
        try:
            if item.file is not None:
                return await asyncio.to_thread(self._file, item.file)
            assert item.cell is not None
            return await self._cell(item, item.cell)
        except CellConflict:
            return "the cell was changed since; nothing of it was changed"
        except FileChanged:
            return "the file was changed since; it was left as it is"
        except ToolError as error:
            return error.message
        except OSError as error:
            return f"{error.strerror or error}"

    def _file(self, change: FileChange) -> str:
        path = self.tree.project / change.name
        if Path(path.parent).resolve() != path.parent:
            return "a folder on its way is a link now"
        if self.state.is_unsaved(path):
            return "it is open in an editor with unsaved changes, which would be lost"
        status = path.lstat() if path.exists() or path.is_symlink() else None
        if not self.tree.is_as_copied(change.name):
            return "it has changed on disk since the turn began, so it was left as it is there"
        before = path.read_bytes() if status is not None else None
        self.state.keeper.before_changes([UpcomingChange(path=path, before=before, after=change.after, status=status)])
        executable = change.executable if change.after is not None and status is None else None
        write_together([FileWrite(path=path, replacing=status, after=change.after, executable=executable)])
        self.state.keeper.after_changes([path])
        self.state.forget([path])
        return ""

    async def _cell(self, item: Item, change: CellChange) -> str:
        await self.notebooks.settled()
        path = self.tree.project / item.notebook
        notebook: OpenNotebook | None = self.notebooks.at(path)
        if notebook is None:
            if why := self.notebooks.refusal(path):
                return why
            notebook = FileNotebook(path)
        if isinstance(change, Insert):
            there = {cell.id for cell in await notebook.cells(outputs=False)}
            anchor = next((each for each in item.behind if each in there), None)
            place = CellPosition("start") if anchor is None else CellPosition("after", anchor)
            change = Insert(
                place=place,
                cell_type=change.cell_type,
                source=change.source,
                cell_id=change.cell_id,
                outputs=change.outputs,
            )
        await self.recorded(notebook).change([change])
        return ""


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
