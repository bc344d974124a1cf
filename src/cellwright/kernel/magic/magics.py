"""`%%claude` and `%claude`: the line is parsed, a run waited for, and an error shown as a user can use it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from cellwright.errors import CellwrightError
from cellwright.kernel.magic.config import Claude
from cellwright.kernel.magic.line import MagicOptions, help_text, parse_line

if TYPE_CHECKING:
    from cellwright.agent.prompt import ContextProvider
    from cellwright.kernel.conversation import NotebookConversation
    from cellwright.kernel.extension import Extension


_FIX = re.compile(r"fix(?:\s|$)")
"""A line that asks for what failed to be fixed; the prompt of a whole cell is the user's own words."""


class CellError(CellwrightError):
    """Raised for a cell that failed, for the user: code and message, without the way through our code."""

    def _render_traceback_(self) -> list[str]:
        return [f"\x1b[31m{self.code}\x1b[0m: {self.message}"]


class CellInterrupt(KeyboardInterrupt):
    """An interrupted cell."""

    def _render_traceback_(self) -> list[str]:
        return [f"\x1b[31mKeyboardInterrupt\x1b[0m: {self}"]


# front ends know an interrupt by its name
CellInterrupt.__name__ = "KeyboardInterrupt"


@contextlib.contextmanager
def errors_for_the_user() -> Iterator[None]:
    """Raise what the user can act on without our traceback; bugs of ours keep theirs."""
    try:
        yield
    except CellwrightError as error:
        shown = CellError(error.code, error.message, details=error.details, recoverable=error.recoverable)
        raise shown from None
    except KeyboardInterrupt as interrupt:
        raise CellInterrupt(*interrupt.args) from None


class _Request(NamedTuple):
    """A prompt, its options, and what is told with it besides what each prompt is told."""

    prompt: str
    options: MagicOptions
    context_provider: ContextProvider | None = None


class ClaudeMagic:
    """The magic as IPython registers it. `awaited_cell` and `awaited_line` are what rewritten cells await."""

    def __init__(self, extension: Extension, config: Claude) -> None:
        self.extension = extension
        self._config = config
        self._beginnings: dict[str, Callable[[NotebookConversation], None]] = {
            "login": lambda conversation: conversation.enter_key(),
            "demo": lambda conversation: conversation.start_demo(),
        }
        """Lines of one word that are no prompts."""

    def claude(self, line: str, cell: str | None = None) -> None:
        with errors_for_the_user():
            if (request := self._request(line, cell or "")) is not None:
                self.extension.conversation().run_blocking(*request)

    # `$name` and `{name}` in a prompt are the user's text
    claude._ipython_magic_no_var_expand = True  # type: ignore[attr-defined]
    claude.__doc__ = help_text()

    async def awaited_cell(self, line: str, cell: str) -> None:
        with errors_for_the_user():
            if (request := self._request(line, cell)) is not None:
                await self.extension.conversation().run_awaited(*request)

    async def awaited_line(self, line: str) -> None:
        await self.awaited_cell(line, "")

    def _request(self, line: str, cell: str) -> _Request | None:
        """Build what is asked; None when there is nothing to run: then the user was told so."""
        options, beginning = parse_line(line, self._config.options())
        prompt = "\n".join(part for part in (beginning, cell.strip("\n")) if part.strip())
        if not prompt.strip():
            print(help_text())
            return None
        if not cell.strip() and (do := self._beginnings.get(prompt.strip())) is not None:
            do(self.extension.conversation())
            return None
        if not cell.strip() and _FIX.match(prompt):
            fix = self.extension.conversation().fix(prompt)
            return None if fix is None else _Request(fix.words, options, fix.provide_context)
        return _Request(prompt, options)
