"""`complete`, for the panel and prompt cells: slash commands, what `@` may mention, variables, options of the magic.

Nothing of it waits for the kernel's main thread, and nothing of a value is run: so it is there while a cell works.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from cellwright.commands.completion import (
    MAX_ITEMS,
    Completion,
    ProjectFiles,
    agent_items,
    best,
    commands,
    found_files,
    means_agents,
)
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.kernel.magic.option_parser import OPTIONS
from cellwright.kernel.namespace.namespace import fingerprint, is_code, user_variables
from cellwright.tools.notebook.open_notebook import Cell, OpenNotebooks

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.features.conversation import Conversation

MAX_QUERY = 300
CELLS_SECONDS = 1.0
"""A page that takes longer to say what its notebook holds is not waited for: files are there without it."""

CELLS_ALONE_SECONDS = 12.0
"""So long where nothing but a cell is meant: without them the panel would say that there is none of that name."""

CELLS_AMONG_FILES = 10
ABOUT_CHARS = 80

CELL = "cell:"


def kernel_completions(shell: InteractiveShell, notebooks: OpenNotebooks, conversation: Conversation) -> Completions:
    """Build the completions for the kernel of `shell` and its conversation."""

    features = conversation.features

    def respects_ignore_files() -> bool:
        return conversation.in_force.settings.respect_gitignore

    async def of_commands(text: str) -> list[Completion]:
        skills = await asyncio.to_thread(features.skills.all)
        return commands(text, skills, features.mcp.prompts())

    async def of_agents(text: str) -> list[Completion]:
        return await asyncio.to_thread(agent_items, features.agents, text)

    return completions(
        shell,
        notebooks,
        conversation.cwd,
        respects_ignore_files,
        of_commands,
        of_agents,
    )


Items = Awaitable[list[Completion]]


class Completions(Struct, frozen=True):
    """The completions there are in one kernel."""

    shell: InteractiveShell
    notebooks: OpenNotebooks
    files: ProjectFiles
    commands: Callable[[str], Items]
    agents: Callable[[str], Items]

    async def complete(self, _panel: object, params: Mapping[str, Any]) -> dict[str, list[Completion]]:
        """Serves `complete`. Raises CellwrightError INVALID_PARAMETERS."""
        kind, text = params.get("kind"), params.get("text")
        if not isinstance(text, str) or len(text) > MAX_QUERY:
            message = f"complete: `text` must be a text of at most {MAX_QUERY} characters."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        match kind:
            case "command":
                return {"items": await self.commands(text)}
            case "variable":
                return {"items": variables(self.shell, text)}
            case "mention":
                return {"items": await self._mentions(text)}
            case "option":
                return {"items": options(text)}
        message = f"complete: there is no kind {kind!r}; it must be command, mention, variable or option."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)

    async def _mentions(self, text: str) -> list[Completion]:
        if text.startswith(CELL):
            return cell_items(await self._cells(CELLS_ALONE_SECONDS), text.removeprefix(CELL), MAX_ITEMS)
        cells, files, agents = await asyncio.gather(
            self._cells(CELLS_SECONDS), found_files(self.files, text), self.agents(text)
        )
        of_cells = cell_items(cells, "" if CELL.startswith(text.lower()) else text, CELLS_AMONG_FILES)
        of_files = files[: MAX_ITEMS - len(of_cells) - len(agents)]
        if not text:
            return [*of_cells, *of_files, *agents]
        if _means_cell(text):
            return [*of_cells, *of_files, *agents]
        return [*agents, *of_files, *of_cells] if means_agents(text) else [*of_files, *agents, *of_cells]

    async def _cells(self, seconds: float) -> Sequence[Cell]:
        own = self.notebooks.own()
        if own is None:
            return ()
        try:
            async with asyncio.timeout(seconds):
                return await own.cells(outputs=False)
        except (ToolError, TimeoutError):
            return ()


def _means_cell(text: str) -> bool:
    """Return whether `text` is a number, which is a cell's; every other word may be a path."""
    return re.fullmatch(r"\[?\d+\]?", text) is not None


def completions(
    shell: InteractiveShell,
    notebooks: OpenNotebooks,
    cwd: Path,
    respects_ignore_files: Callable[[], bool],
    commands: Callable[[str], Items],
    agents: Callable[[str], Items],
) -> Completions:
    """Build the completions for the kernel of `shell`, whose conversation works in `cwd`."""
    return Completions(shell, notebooks, ProjectFiles(cwd, respects_ignore_files), commands, agents)


def variables(shell: InteractiveShell, text: str) -> list[Completion]:
    """The user's variables that fit `text`; without any text those that were defined last, values before code."""
    values = user_variables(shell)
    newest_first = list(values)[::-1]
    data_first = sorted(newest_first, key=lambda name: is_code(values[name]))
    names = best(text, data_first, str, MAX_ITEMS) if text else data_first[:MAX_ITEMS]
    return [
        Completion(insert=f"${name}", label=name, about=value_about(values[name]), kind="variable") for name in names
    ]


def options(text: str) -> list[Completion]:
    """The options of `%%claude` that fit `text`; all of them without any, in the order of the help."""
    names = best(text, OPTIONS, str, MAX_ITEMS) if text else list(OPTIONS)
    return [
        Completion(
            insert=f"--{name} ",
            label=f"--{name} {OPTIONS[name].kind.placeholder}".rstrip(),
            about=OPTIONS[name].help,
            kind="option",
        )
        for name in names
    ]


def value_about(value: object) -> str:
    """The type of a value, with its shape or length where that is known without asking the value."""
    kind, *rest = fingerprint(value)
    match rest:
        case [_, tuple(shape)]:
            return f"{kind} {' × '.join(map(str, shape)) or 'scalar'}"
        case [_, int(length)]:
            return f"{kind} of {length:,}"
    return str(kind)


def cell_items(cells: Iterable[Cell], text: str, most: int) -> list[Completion]:
    """The cells whose id, number, count or first line fits `text`."""
    shown = [(cell, " ".join(_names_of(cell))) for cell in cells]
    if not text:
        found = shown[:most]
    else:
        exact = [each for each in shown if text.strip("[]") in _names_of(each[0])]
        found = [*exact, *(each for each in best(text, shown, lambda each: each[1], most) if each not in exact)][:most]
    return [
        Completion(insert=f"@{CELL}{cell.id}", label=_label(cell), about=first_line(cell.source), kind="cell")
        for cell, _ in found
        if re.fullmatch(r"[\w.-]*\w", cell.id)
    ]


def _names_of(cell: Cell) -> Iterator[str]:
    """Yield the names by which a cell is found."""
    yield str(cell.execution_count or cell.position + 1)
    yield cell.id
    yield first_line(cell.source)


def _label(cell: Cell) -> str:
    return f"{CELL}[{cell.execution_count}]" if cell.execution_count else f"{CELL}{cell.position + 1}"


def first_line(source: str) -> str:
    """The first line of a cell that says something, not longer than a list can show."""
    line = next((line.strip() for line in source.splitlines() if line.strip()), "")
    return line if len(line) <= ABOUT_CHARS else f"{line[: ABOUT_CHARS - 1]}…"
