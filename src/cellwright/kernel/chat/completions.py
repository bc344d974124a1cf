"""Completion: `complete` in the panel and in prompt cells, and inline completion of code, by the small model.

`complete` knows slash commands, what `@` may mention, variables, options of the magic. Nothing of it waits for the kernel's
main thread, and nothing of a value is run: so it is there while a cell works. Inline completion gives what is missing at
the cursor; a newer request ends the one before.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from cellwright.agent.spending import PartialUsage, completion_spending
from cellwright.agent.subagent import small_model
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
from cellwright.conversation.resolve_options import check_allowed
from cellwright.errors import ApiError, CellwrightError, ErrorCode, ToolError
from cellwright.events import Retrying, TextDelta, TurnEnd
from cellwright.kernel.magic.options import OPTIONS
from cellwright.kernel.namespace.namespace import code_names, fingerprint, is_code, user_variables
from cellwright.kernel.pages.comm import optional, required
from cellwright.model.fill_in_middle import (
    MAX_TOKENS,
    STOP,
    SYSTEM,
    Gap,
    fill_in_message,
    is_enough,
    missing_text,
    surroundings,
    the_cell,
)
from cellwright.model.pricing import Tally, cost_usd
from cellwright.model.provider import LEAST_THOUGHT, MessageStart, Provider, Request
from cellwright.sessions.session_lines import MIN_CHARS_PER_TOKEN
from cellwright.text import dollars
from cellwright.tools.notebook.open_notebook import Cell, OpenNotebooks

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.features.conversation import Conversation


MAX_QUERY = 300
CELLS_SECONDS = 1.0
"""A page that takes longer to say what its notebook holds is not waited for: files are there without it."""

CELLS_AMONG_FILES = 10
ABOUT_CHARS = 80

CELL = "cell:"

SECONDS = 8.0
"""An answer that takes longer comes to a cursor that is elsewhere."""


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
            # nothing but a cell is meant: without them the panel would say that there is none of that name
            return cell_items(await self._cells(12.0), text.removeprefix(CELL), MAX_ITEMS)
        cells, files, agents = await asyncio.gather(
            self._cells(CELLS_SECONDS), found_files(self.files, text), self.agents(text)
        )
        of_cells = cell_items(cells, "" if CELL.startswith(text.lower()) else text, CELLS_AMONG_FILES)
        of_files = files[: MAX_ITEMS - len(of_cells) - len(agents)]
        if not text:
            return [*of_cells, *of_files, *agents]
        # `text` is a number, which is a cell's; every other word may be a path
        if re.fullmatch(r"\[?\d+\]?", text) is not None:
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
        Completion(
            insert=f"@{CELL}{cell.id}",
            label=f"{CELL}[{cell.execution_count}]" if cell.execution_count else f"{CELL}{cell.position + 1}",
            about=first_line(cell.source),
            kind="cell",
        )
        for cell, _ in found
        if re.fullmatch(r"[\w.-]*\w", cell.id)
    ]


def _names_of(cell: Cell) -> Iterator[str]:
    """Yield the names by which a cell is found."""
    yield str(cell.execution_count or cell.position + 1)
    yield cell.id
    yield first_line(cell.source)


def first_line(source: str) -> str:
    """The first line of a cell that says something, not longer than a list can show."""
    line = next((line.strip() for line in source.splitlines() if line.strip()), "")
    return line if len(line) <= ABOUT_CHARS else f"{line[: ABOUT_CHARS - 1]}…"


class _Usage(Struct):
    """The cost of one request, as far as it came."""

    usage: Mapping[str, Any]
    cost_usd: float | None


class CodeCompletion:
    """Completes code for the pages of one kernel; all of it on the agent's loop."""

    def __init__(self, shell: InteractiveShell, conversation: Conversation) -> None:
        self._shell = shell
        self._conversation = conversation
        self._spending = completion_spending()
        self._current: asyncio.Task[str] | None = None
        self._unbooked = Tally()
        """The spending from before there was a session to count it with."""

    def serve(self, serve: Callable[[str, Callable[[Any, Mapping[str, Any]], Awaitable[Any]]], None]) -> None:
        """Have pages answered by `serve(method, handler)`."""
        serve("code", self.code)
        serve("code_stop", self.code_stop)

    async def code(self, _page: object, params: Mapping[str, Any]) -> dict[str, Any]:
        """Serves `code`: `{"text", "cost_usd", "stopped"}`; the text is empty where nothing is missing, or it was stopped.

        Raises CellwrightError: PERMISSION_DENIED where it is switched off, BUDGET_EXCEEDED, EXECUTION_TIMEOUT, and what the
        API answers.
        """
        gap = _gap(params)
        self.stop()
        spent = _Usage({}, 0.0)
        task = self._current = asyncio.create_task(self._completed(gap, spent))
        text, stopped = "", False
        try:
            text = await task
        except asyncio.CancelledError:
            if (current := asyncio.current_task()) is not None and current.cancelling():
                raise
            stopped = True
        finally:
            task.cancel()
        return {"text": text, "cost_usd": spent.cost_usd, "stopped": stopped}

    async def code_stop(self, _page: object, _params: Mapping[str, Any]) -> None:
        """Serves `code_stop`: the cursor is elsewhere, and nobody waits for the answer."""
        self.stop()

    def stop(self) -> None:
        """End the request that is on its way, with its connection."""
        if self._current is not None:
            self._current.cancel()

    async def _completed(self, gap: Gap, spent: _Usage) -> str:
        conversation = self._conversation
        session = conversation.sessions.started
        conversation.in_force.refresh(session_has_begun=session is not None and session.has_begun)
        model = await self._allowed_model()
        around, cell = await self._code_context(gap)
        # a key helper may take its time
        provider = await asyncio.to_thread(lambda: conversation.model.provider)
        request = Request(
            model=model,
            system=json.dumps([{"type": "text", "text": SYSTEM}]).encode(),
            tools=b"[]",
            messages=[json.dumps(fill_in_message(around, cell), ensure_ascii=False).encode("utf-8", "replace")],
            max_tokens=MAX_TOKENS,
            options=LEAST_THOUGHT.accepted_by(model),
            stop_sequences=(STOP,),
            cache_whole=False,
        )
        try:
            async with asyncio.timeout(SECONDS):
                return missing_text(await self._answer(provider, request, gap, spent), gap)
        except TimeoutError:
            message = f"{model} took more than {SECONDS:g} s to suggest code, which is too long while you type."
            raise CellwrightError(ErrorCode.EXECUTION_TIMEOUT, message) from None
        finally:
            self._count(spent)

    async def _allowed_model(self) -> str:
        """The small model. Raises CellwrightError where the settings or the day's budget say no."""
        settings, environment = self._conversation.in_force.settings, self._conversation.in_force.environment
        if not settings.inline_completion:
            message = (
                "`cellwright.inlineCompletion` switches inline completion off. `/config` shows which file says so."
            )
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)
        model = small_model(environment)
        check_allowed(model, settings, environment)
        spent = await asyncio.to_thread(self._spending.usd)
        if spent >= settings.inline_completion_budget:
            message = (
                f"Inline completion has spent its {dollars(settings.inline_completion_budget)} of today. "
                "The setting `cellwright.inlineCompletionBudget` says what a day may cost."
            )
            raise CellwrightError(ErrorCode.BUDGET_EXCEEDED, message)
        daily = settings.daily_budget
        if daily is not None and await asyncio.to_thread(self._conversation.features.budgets.day.usd) >= daily:
            message = f"The {dollars(daily)} that `cellwright.dailyBudget` allows a day are spent."
            raise CellwrightError(ErrorCode.BUDGET_EXCEEDED, message)
        return model

    async def _code_context(self, gap: Gap) -> tuple[str, str]:
        """Build what the model is told, without secrets."""
        cell = the_cell(gap)
        names = code_names(user_variables(self._shell), "\n".join((*gap.above, gap.prefix)))
        around = surroundings(gap, names)
        if not self._conversation.in_force.settings.redact_secrets:
            return around, cell
        clean, quick = self._conversation.redaction.clean, self._conversation.redaction.is_quick
        if quick(around) and quick(cell):
            return clean(around).text, clean(cell).text
        return await asyncio.to_thread(lambda: (clean(around).text, clean(cell).text))

    async def _answer(self, provider: Provider, request: Request, gap: Gap, spent: _Usage) -> str:
        """The answer's text, as much of it as is used; leaving the stream closes its connection."""
        answer, text = PartialUsage(), ""
        try:
            async with contextlib.aclosing(provider.stream(request)) as events:
                async for event in events:
                    match event:
                        case MessageStart():
                            answer.begin(event)
                        case TurnEnd():
                            answer.end()
                            spent.usage, spent.cost_usd = event.usage, event.cost_usd
                        case Retrying():
                            # the user has typed on before a second try would answer
                            raise ApiError(ErrorCode(event.code), event.message, recoverable=True)
                        case TextDelta():
                            answer.add(event)
                            text += event.text
                            if is_enough(text, gap):
                                return text
                        case _:
                            answer.add(event)
        except asyncio.CancelledError:
            if not spent.usage and not answer.is_open:
                # the API has not told the cost: estimate it from the prompt, rather too high than too low
                size = len(request.system) + sum(map(len, request.messages))
                usage = {"input_tokens": size // MIN_CHARS_PER_TOKEN, "output_tokens": 0}
                spent.usage, spent.cost_usd = usage, cost_usd(request.model, usage)
            raise
        finally:
            if (lost := answer.lost()) is not None:
                spent.usage, spent.cost_usd = lost
        return text

    def _count(self, spent: _Usage) -> None:
        """Count what was spent with the session's, and with the day's."""
        if not spent.usage:
            return
        conversation = self._conversation
        conversation.model.count_completion(spent.usage, spent.cost_usd)
        self._unbooked = self._unbooked.plus(spent.usage, spent.cost_usd)
        if (session := conversation.sessions.started) is not None:
            session.spend(self._unbooked.total.usage, self._unbooked.total.cost_usd)
            self._unbooked = Tally()
        if spent.cost_usd:
            # a task that is cancelled can wait for nothing any more
            for file in (self._spending, conversation.features.budgets.day):
                asyncio.get_running_loop().run_in_executor(None, file.add, spent.cost_usd)


def _gap(params: Mapping[str, Any]) -> Gap:
    """The place that `params` name. Raises PageError `invalid`."""
    cells = [each for each in (optional(params, "cells", list) or [])[:200] if isinstance(each, dict)]
    sources = [(str(cell.get("source", "")), cell.get("below") is True) for cell in cells]
    return Gap(
        prefix=required(params, "prefix", str),
        suffix=optional(params, "suffix", str) or "",
        above=tuple(source for source, below in sources if not below and source.strip()),
        below=tuple(source for source, below in sources if below and source.strip()),
        language=(optional(params, "language", str) or "python")[:40],
    )
