"""The notebook's news told with a prompt, within a budget: everything that changed since Claude was told last.

The session's own messages say what was told: the opening tag says up to where. So nothing is told twice, and what a
fork, `/rewind`, a compaction or a refused prompt takes away is told again. Besides, the prompts of a kernel are told
the cells and variables they mention.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.tool_names import name_with
from cellwright.agent.prompt import ContextItem, ContextItems, ContextProvider, PromptContext, text_context
from cellwright.config.settings.option_table import How
from cellwright.conversation.feature import without_secrets
from cellwright.conversation.mentions import AttachedMention, Mention, attachment, find_mentions, read_for, together
from cellwright.errors import ToolError
from cellwright.events import CHARS_PER_TOKEN
from cellwright.kernel.namespace.cell_log import is_hidden
from cellwright.kernel.namespace.hidden_state import BEFORE_ALL, hidden_state, hidden_state_text
from cellwright.kernel.namespace.namespace import NamespaceNews, describe_all
from cellwright.text import code_fence, counted, lazy_pattern
from cellwright.tools.notebook.open_notebook import Cell, OpenNotebook, OpenNotebooks, cell_name

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.kernel.namespace.cell_log import CellLog, RanCell
    from cellwright.kernel.namespace.namespace import NamespaceSnapshot
    from cellwright.sessions.session import Session

_NUMBER = lazy_pattern(r"(?:In)?\[(\d{1,6})\]|(\d{1,6})")

Describe = Callable[[Mapping[str, Any], Sequence[str]], str]
"""Describes variables of a namespace, bounded in time and size; called on the thread that runs the cells."""

SOURCE_CHARS = 1_200
"""Of one cell's source; two thirds from its beginning, the rest from its end."""

LINE_CHARS = 300
NAMES_CHARS = 600

ERROR_SHARE, HIDDEN_SHARE, VARIABLES_SHARE = 0.2, 0.12, 0.35
"""The parts of the budget that these may take at most; cells get the rest."""

AUTO_TOKENS = 1_500
CELLS_TOKENS = 10_000
FULL_TOKENS = 20_000
"""The part of a prompt the notebook may take; tokens are estimated, at four characters each."""

LINES: Mapping[How, int] = {"none": 0, "auto": 60, "code": 60, "cells": 0, "full": 500}
"""The most variables that are described: what the budget holds, and some more."""

TITLES = {"auto": "The notebook since the last prompt", "cells": "The notebook's code", "full": "The whole notebook"}

UNSEEN = "--context {how}: the notebook's cells cannot be seen from this kernel, so they were not sent."

TAG = "notebook_context"
_ID = lazy_pattern(r"[\w-]{1,64}")


def mentioned_cells(notebooks: OpenNotebooks, instructions: str | None = None) -> ContextProvider:
    """Attach the cells of this kernel's notebook that a prompt's words, or its `instructions`, mention."""

    async def provide(prompt_context: PromptContext) -> ContextItems:
        words = prompt_context.words if instructions is None else instructions
        mentions = [mention for mention in find_mentions(words) if mention.kind == "cell"]
        if not mentions:
            return ContextItems()
        own = notebooks.own()
        if own is None:
            why = "the notebook's file is unknown here, so it was sent as text."
            return ContextItems(notices=tuple(f"{mention.text}: {why}" for mention in mentions))
        try:
            cells = await own.cells(outputs=False)
        except ToolError as error:
            return ContextItems(notices=tuple(f"{mention.text}: not attached. {error.message}" for mention in mentions))
        return together([await attached_cell(mention, own, cells, prompt_context) for mention in mentions])

    return provide


async def attached_cell(
    mention: Mention, own: OpenNotebook, cells: Sequence[Cell], prompt_context: PromptContext
) -> AttachedMention:
    """The cell of `own` that is mentioned, read as Claude would read it; `cells` are those of `own`."""
    cell = find_cell(mention.name, cells)
    if cell is None:
        return AttachedMention(notice=f"{mention.text}: no such cell in {own.path.name}. It was sent as text.")
    tool_input = {"notebook_path": str(own.path), "cell_ids": [cell.id], "outputs": "full"}
    content = await read_for(mention, name_with("read", "notebook_path"), tool_input, prompt_context)
    if isinstance(content, AttachedMention):
        return content
    if (redaction := prompt_context.agent.redaction) is not None:
        if isinstance(content, str):
            content = redaction.clean_outputs(content).text
        else:
            content = [
                {**block, "text": redaction.clean_outputs(block["text"]).text} if block["type"] == "text" else block
                for block in content
            ]
    title = f"{cell_name(cell.position, cell.execution_count, '')}, id {cell.id}"
    return AttachedMention(attachment(mention, title, "cell", content))


def find_cell(name: str, cells: Sequence[Cell]) -> Cell | None:
    """The cell with this id, else with this number beside it; `3` without brackets may be the third cell, too."""
    if (found := next((cell for cell in cells if cell.id == name), None)) is not None:
        return found
    if (number := _NUMBER.fullmatch(name)) is None:
        return None
    wanted = int(number[1] or number[2])
    if (numbered := next((cell for cell in cells if cell.execution_count == wanted), None)) is not None:
        return numbered
    return cells[wanted - 1] if number[2] and 0 < wanted <= len(cells) else None


def mentioned_variables(words: str, namespace: Mapping[str, Any], describe: Describe) -> ContextProvider | None:
    """Tells the variables of `namespace` that `words` mention, as they are now; None where they mention none.

    A `$name` that is no variable is text: prompts hold `$PATH`, too.
    """
    named = [mention for mention in find_mentions(words) if mention.kind == "variable"]
    mentions = [mention for mention in named if mention.name in namespace and not is_hidden(mention.name)]
    if not mentions:
        return None
    described = [(mention, describe(namespace, [mention.name])) for mention in mentions]

    async def provide(prompt_context: PromptContext) -> ContextItems:
        attached = []
        for mention, text in described:
            cleaned, notices = await without_secrets(text, prompt_context, mention.text)
            part = attachment(mention, mention.text, "variable", cleaned)
            attached.append(AttachedMention(part, " ".join(notices)))
        return together(attached)

    return provide


class ContextFacts(Struct, frozen=True):
    """The facts to tell. `first`: nothing was told of this kernel before, so all of it is news.

    `runs` and `variables` (name, line) are the newest first. `cell_id` is the prompt's cell and `position` where it stands,
    from 1, of `total`; 0 where not known. `hidden` and `whole` are texts that are told as they are.
    """

    first: bool = False
    runs: tuple[RanCell, ...] = ()
    failure: RanCell | None = None
    variables: tuple[tuple[str, str], ...] = ()
    names: tuple[tuple[str, tuple[str, ...]], ...] = ()
    deleted: tuple[str, ...] = ()
    cell_id: str = ""
    position: int = 0
    total: int = 0
    hidden: str = ""
    whole: str = ""

    @property
    def anything(self) -> bool:
        """True when there is anything to tell."""
        return bool(
            self.runs or self.variables or self.names or self.deleted or self.cell_id or self.hidden or self.whole
        )

    def with_notebook(self, *, cell_id: str, cells: Sequence[Cell], hidden: str, whole: str) -> ContextFacts:
        """These facts with what the notebook as it stands adds to them."""
        position = next((cell.position + 1 for cell in cells if cell.id == cell_id), 0) if cell_id else 0
        return replace(self, cell_id=cell_id, position=position, total=len(cells), hidden=hidden, whole=whole)


@dataclass(slots=True, eq=False, repr=False)
class Budget:
    """So many characters; what is taken is gone."""

    chars: int
    whole: int = field(init=False)

    def __post_init__(self) -> None:
        self.whole = self.chars

    def take(self, text: str, share: float = 1.0) -> str:
        """`text`, or its beginning where it is more than is left or than `share` of the whole budget."""
        room = max(min(self.chars, round(self.whole * share)), 0)
        kept = text if len(text) <= room else _cut(text, room)
        self.chars -= len(kept)
        return kept

    def holds(self, text: str) -> bool:
        """Return whether all of `text` fits; then it is taken."""
        if len(text) > self.chars:
            return False
        self.chars -= len(text)
        return True


def context_text(facts: ContextFacts, budget: Budget) -> str:
    """The text; never longer than the budget, but for the sentence about what was left out."""
    position = f", number {facts.position} of {facts.total}" if facts.position else ""
    parts = [budget.take(f"This prompt is in the cell {facts.cell_id}{position}." if facts.cell_id else "")]
    if facts.failure is not None:
        parts.append(budget.take(f"The cell {_named(facts.failure)} failed:\n{facts.failure.error}", ERROR_SHARE))
    if facts.hidden:
        parts.append(budget.take(f"State of the notebook:\n{facts.hidden}", HIDDEN_SHARE))
    variables, more_variables = _variables(facts, budget)
    parts.append(variables)
    cells, more_cells = _cells(facts, budget)
    parts.append(cells)
    if facts.whole:
        parts.append(budget.take(facts.whole))
    left = [
        counted(number, what) for number, what in ((more_cells, "older cell"), (more_variables, "variable")) if number
    ]
    if left:
        parts.append(f"[Left out: {' and '.join(left)}; NotebookRead and Variables or Python show them.]")
    return "\n\n".join(part for part in parts if part)


def _variables(facts: ContextFacts, budget: Budget) -> tuple[str, int]:
    """The variables as text, and how many were left out."""
    room = Budget(round(budget.whole * VARIABLES_SHARE))
    lines = []
    left = 0
    for name, line in facts.variables:
        text = f"{name}: {_cut(line, LINE_CHARS)}\n"
        if left or not line or not room.holds(text):
            left += 1
        else:
            lines.append(text)
    for what, names in facts.names:
        listed = _cut(f"{what}: {', '.join(names)}", NAMES_CHARS)
        if room.holds(listed):
            lines.append(f"{listed}\n")
    if facts.deleted:
        lines.append(_cut(f"deleted: {', '.join(facts.deleted)}", NAMES_CHARS))
    if not lines:
        return "", left
    title = "Variables:" if facts.first else "Variables that are new or changed:"
    return budget.take(f"{title}\n{''.join(lines)}".rstrip("\n")), left


def _cells(facts: ContextFacts, budget: Budget) -> tuple[str, int]:
    """The cells as text, the newest first, and how many were left out."""
    latest = list(_latest(facts.runs))
    title = (
        "Cells that were run, the newest first:" if facts.first else "Cells the user has run since, the newest first:"
    )
    texts: list[str] = []
    for index, (run, times) in enumerate(latest):
        # of the newest cell at least a part is told; a cell takes at most 300 characters besides its source
        text = _cell(run, times, SOURCE_CHARS if index else min(SOURCE_CHARS, budget.chars - 300))
        if not budget.holds(f"{text}\n"):
            return "\n".join([title, *texts] if texts else []), len(latest) - index
        texts.append(text)
    return "\n".join([title, *texts] if texts else []), 0


def _latest(runs: Iterable[RanCell]) -> Iterator[tuple[RanCell, int]]:
    """The newest run of each cell and how often it was run; runs that have no id stand for themselves."""
    newest: dict[object, tuple[RanCell, int]] = {}
    for run in runs:
        key = run.cell_id or run.order
        kept, times = newest.get(key, (run, 0))
        newest[key] = (kept, times + 1)
    yield from newest.values()


def _cell(run: RanCell, times: int, source_chars: int) -> str:
    how = {True: "", False: ", failed", None: ""}[run.success]
    often = f", run {times} times" if times > 1 else ""
    took = f", {run.ended - run.started:.0f} s" if run.started and run.ended - run.started >= 1 else ""
    source = run.source if run.source is not None else "(its source is no longer kept)"
    shown = middle_cut(source.strip(), source_chars)
    fence = code_fence(shown)
    return f"{_named(run)}{how}{often}{took}\n{fence}\n{shown}\n{fence}"


def _named(run: RanCell) -> str:
    count = f"In[{run.execution_count}]" if run.execution_count else "In[ ]"
    return f"{count} ({run.cell_id})" if run.cell_id else count


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(room - 1, 0)]}…"[: max(room, 0)]


def middle_cut(text: str, room: int) -> str:
    """`text` without its middle when it is longer than `room`."""
    if len(text) <= room:
        return text
    head, tail = max(room, 0) * 2 // 3, max(room, 0) // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out …]\n{text[len(text) - tail :]}"


class ContextMark(Struct, frozen=True):
    """Up to where a session was told: the log's order, the cell of the prompt, and digests of what is told as a whole."""

    at: int = BEFORE_ALL
    cell: str = ""
    hidden: str = ""
    cells: str = ""

    def opening(self, log_id: str) -> str:
        return f"<{TAG} log={log_id} at={self.at} cell={self.cell} hidden={self.hidden} cells={self.cells}>"


class _Now(Struct, frozen=True):
    """The state of the kernel when a prompt was sent: the prompt's cell, the log's end, its runs, the namespace."""

    cell_id: str
    at: int
    runs: tuple[RanCell, ...]
    look: NamespaceSnapshot


class NotebookContext:
    """The context that the prompts of one kernel are told. `budget_tokens` is that of `auto`."""

    def __init__(
        self, log: CellLog, notebooks: OpenNotebooks, news: NamespaceNews, budget_tokens: int = AUTO_TOKENS
    ) -> None:
        self._log = log
        self._notebooks = notebooks
        self._news = news
        self._budget_tokens = budget_tokens
        # of this kernel: another one has other cells under the same numbers
        self._id = secrets.token_hex(4)

    def provider(self, how: How, cell_id: str | None, *, dry: bool = False) -> ContextProvider | None:
        """Build what finds the context of a prompt in the cell `cell_id`. Called on the thread that runs the cells.

        The namespace is looked at now; what of it is news, and the notebook, when the run has begun. `dry`: Claude will
        not be told.
        """
        if how == "none":
            return None
        if how == "code":  # the project's code is found elsewhere, for the terminal as well
            how = "auto"
        # the order that this prompt's news reach to: a cell that still runs, with this prompt in it, is told later
        running = (run.order for run in self._log.runs() if run.success is None and run.order > 0 and not run.is_prompt)
        now = _Now(
            cell_id or "",
            min((order - 1 for order in running), default=self._log.order),
            self._log.runs(BEFORE_ALL),
            self._news.look(LINES[how], remember=not dry),
        )

        async def provide(prompt_context: PromptContext) -> ContextItems:
            cells = await self._cells(how)
            notices = (UNSEEN.format(how=how),) if how != "auto" and not cells else ()
            part, removed = await self._part(how, now, cells, prompt_context)
            return ContextItems(before=(part,) if part is not None else (), notices=(*notices, *removed))

        return provide

    def run_ended(self) -> None:
        """Look at the namespace, for what Claude itself has changed in it is no news to it."""
        self._news.look()

    def _mark(self, session: Session) -> ContextMark:
        """Return the mark of what `session` was last told of this kernel."""
        pattern = re.compile(
            rf"<{TAG} log={self._id} at=(-?\d+) cell=([\w-]*) hidden=(\w*) cells=(\w*)>".encode(), re.ASCII
        )
        start = f"<{TAG} log={self._id} ".encode()
        for message in reversed(session.encoded):
            if start in message and (found := pattern.search(message)):
                at, *rest = (group.decode() for group in found.groups())
                return ContextMark(int(at), *rest)
        return ContextMark()

    def _facts(self, how: How, mark: ContextMark, now: _Now) -> ContextFacts:
        """Collect what the log and the namespace have that is new since `mark`."""
        if how == "cells":
            return ContextFacts()
        # prompts Claude knows, and the cell that asks is not over
        cells = (run for run in reversed(now.runs) if mark.at < run.order and run.by == "user" and not run.is_prompt)
        runs = [run for run in cells if run.success is not None or run.order <= 0]
        variables = now.look.news(mark.at, runs)
        return ContextFacts(
            first=mark.at == BEFORE_ALL,
            runs=() if how == "full" else tuple(runs),  # the whole notebook has their sources
            failure=self._unmended(runs),
            variables=variables.lines,
            names=variables.names,
            deleted=variables.deleted,
        )

    def _unmended(self, runs: Iterable[RanCell]) -> RanCell | None:
        """The latest failure, unless its cell has run well since."""
        for run in runs:
            last = self._log.last_run(run.cell_id) if run.cell_id else None
            if run.error is not None and (last is None or last.order <= run.order):
                return run
        return None

    async def _part(
        self, how: How, now: _Now, cells: Sequence[Cell], prompt_context: PromptContext
    ) -> tuple[ContextItem | None, list[str]]:
        """Build what is told, if anything, and what the user must know of secrets in it."""
        mark = self._mark(prompt_context.session)
        whole = _notebook_text(how, cells)
        hidden: str | None
        if how == "cells":  # of everything else nothing is told, so that it stays news
            new_mark, hidden = replace(mark, cells=_digest(whole)), ""
        else:
            # sources are parsed
            hidden = await self._hidden(cells, now.look)
            kept = _digest(whole) if how == "full" else mark.cells
            digest = mark.hidden if hidden is None else _digest(hidden)
            own_cell = now.cell_id if _ID.fullmatch(now.cell_id) else _digest(now.cell_id)
            new_mark = ContextMark(now.at, own_cell, digest, kept)
        facts = self._facts(how, mark, now).with_notebook(
            cell_id=now.cell_id if new_mark.cell != mark.cell else "",
            cells=cells,
            hidden=hidden if hidden and new_mark.hidden != mark.hidden else "",
            whole=whole if new_mark.cells != mark.cells else "",
        )
        if not facts.anything:
            return None, []
        tokens = {"auto": self._budget_tokens, "cells": CELLS_TOKENS, "full": FULL_TOKENS}[how]
        text = context_text(facts, Budget(tokens * CHARS_PER_TOKEN))
        text, notices = await without_secrets(text, prompt_context, "what it is told of the notebook")
        first = "The notebook so far" if cells or now.cell_id else "Your cells so far"
        title = first if how == "auto" and facts.first else TITLES[how]
        text = text.replace(f"</{TAG}", f"<\\/{TAG}")  # it cannot end the block it stands in
        return text_context(title, "context", f"{new_mark.opening(self._id)}\n{text}\n</{TAG}>"), notices

    async def _cells(self, how: How) -> list[Cell]:
        """The notebook as it stands; none where it cannot be seen, or not soon."""
        own = self._notebooks.own()
        if own is None:
            return []
        try:
            # a front end that takes longer to say what the notebook holds is not waited for: a prompt should be on its
            # way
            async with asyncio.timeout(2.0):
                return await own.cells(outputs=how == "full")
        except (ToolError, TimeoutError):
            return []

    async def _hidden(self, cells: Sequence[Cell], look: NamespaceSnapshot) -> str | None:
        """Describe what the cells hide; None if it takes too long: then the sources are read for the next prompt."""
        if not cells:
            return ""
        reading = asyncio.ensure_future(asyncio.to_thread(hidden_state, cells, self._log, look.names))
        # nor for the sources of a long notebook
        await asyncio.wait({reading}, timeout=0.25)
        return hidden_state_text(reading.result()) if reading.done() else None


def _notebook_text(how: How, cells: Sequence[Cell]) -> str:
    """The notebook itself, where all of it is told."""
    if how == "auto" or not cells:
        return ""
    shown = [cell for cell in cells if how == "full" or cell.cell_type == "code"]
    title = "The notebook:" if how == "full" else "The code cells of the notebook:"
    return "\n".join([title, *map(_cell_text, shown)])


def _cell_text(cell: Cell) -> str:
    from cellwright.kernel.execute.captured_output import output_text  # brings a parser of HTML

    count = f", In[{cell.execution_count}]" if cell.execution_count else ""
    outputs = "\n".join(text for output in cell.outputs if (text := output_text(output)))
    shown = f"\noutput:\n{outputs}" if outputs else ""
    # of one cell's source, where the whole notebook is told
    source = middle_cut(cell.source, 4_000)
    fence = code_fence(source)
    return f"{cell.position + 1}. {cell.id}, {cell.cell_type}{count}\n{fence}\n{source}\n{fence}{shown}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8] if text else ""


class KernelContext(Struct, frozen=True):
    """Makes what is told with each prompt, on the thread that runs the cells."""

    shell: InteractiveShell
    notebooks: OpenNotebooks
    context: NotebookContext

    def with_prompt(
        self, prompt: str, how: How, cell_id: str | None, *, dry: bool = False
    ) -> tuple[ContextProvider, ...]:
        """Build what finds out what is told with `prompt` in the cell `cell_id`; the namespace is looked at now."""
        found = (
            self.context.provider(how, cell_id, dry=dry),
            mentioned_cells(self.notebooks),
            mentioned_variables(prompt, self.shell.user_ns, describe_lines),
        )
        return tuple(provider for provider in found if provider is not None)

    def run_ended(self) -> None:
        """The run is over; called where its prompt was sent."""
        self.context.run_ended()


def kernel_context(shell: InteractiveShell, log: CellLog, notebooks: OpenNotebooks) -> KernelContext:
    """Build what finds the context for prompts in `shell`."""
    context = NotebookContext(log, notebooks, NamespaceNews(shell, log))
    return KernelContext(shell, notebooks, context)


def describe_lines(namespace: Mapping[str, Any], names: Sequence[str]) -> str:
    """All that is known of each variable, within bounds of time and size. On the thread that runs the cells."""
    return "\n".join(text for _, text in describe_all({name: namespace[name] for name in names}))
