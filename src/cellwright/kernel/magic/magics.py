"""`%%claude` and `%claude`: the line is parsed, a run waited for, and an error shown as a user can use it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.kernel.magic.options import Claude, help_text, parse_line

if TYPE_CHECKING:
    from cellwright.kernel.magic.cell_prompt import MagicOptions, PagePrompt
    from cellwright.kernel.magic.fix import Fix


_FIX = r"fix(?:\s|$)"
"""A line that asks for what failed to be fixed; the prompt of a whole cell is the user's own words."""

_TOLD = "_cellwright_told"
"""An attribute of an error, true if the cell's output has told it: the cell fails all the same, and Run All stops there."""


class CellError(CellwrightError):
    """Raised for a cell that failed, for the user: the message, then the code, without the way through our modules."""

    def _render_traceback_(self) -> list[str]:
        # the code last and dim: it is what documents and programs know the error by
        return [f"\x1b[31m{self.message}\x1b[0m \x1b[2m({self.code})\x1b[0m"]


class CellInterrupt(KeyboardInterrupt):
    """An interrupted cell."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class ToldError(CellError):
    """A cell's error that its output has told already: the cell fails, and nothing more is shown."""


class ToldInterrupt(CellInterrupt):
    """The same of an interrupted cell."""


# front ends know an interrupt by its name, and programs an error
CellInterrupt.__name__ = ToldInterrupt.__name__ = "KeyboardInterrupt"
ToldError.__name__ = "CellError"


def show_nothing(shell: Any, *_error: object, **_more: object) -> list[str]:
    """Handle a told error as IPython's `set_custom_exc` asks for it: the cell has failed, and its output says so."""
    shell._last_traceback = None  # the reply would bring that of an earlier cell
    return []


@contextlib.contextmanager
def telling_once(is_told_by_output: Callable[[], bool]) -> Iterator[None]:
    """Mark what is raised in the block where the output has said it."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        setattr(error, _TOLD, is_told_by_output())
        raise


@contextlib.contextmanager
def errors_for_the_user() -> Iterator[None]:
    """Raise what the user can act on without our traceback; bugs of ours keep theirs."""
    try:
        yield
    except CellwrightError as error:
        raised = ToldError if getattr(error, _TOLD, False) else CellError
        raise raised(error.code, error.message, details=error.details, recoverable=error.recoverable) from None
    except KeyboardInterrupt as interrupt:
        raise (ToldInterrupt if getattr(interrupt, _TOLD, False) else CellInterrupt)(*interrupt.args) from None


class CellConversation(Protocol):
    """The kernel's conversation, as far as a cell begins something in it (`kernel/conversation.py`)."""

    async def run_awaited(self, prompt: str, options: MagicOptions, fix: Fix | PagePrompt | None = None) -> None: ...
    def run_blocking(self, prompt: str, options: MagicOptions, fix: Fix | PagePrompt | None = None) -> None: ...
    def fix(self, line: str) -> Fix | None: ...
    def enter_key(self) -> None: ...
    def start_demo(self) -> None: ...


class HasConversation(Protocol):
    """Whoever has the kernel's conversation, and makes it when it is first asked for."""

    def conversation(self) -> CellConversation: ...


class ClaudeMagic:
    """The magic as IPython registers it. `awaited_cell` and `awaited_line` are what awaited cells call."""

    def __init__(self, extension: HasConversation, config: Claude) -> None:
        self.extension = extension
        self._config = config
        self._beginnings: dict[str, Callable[[CellConversation], None]] = {
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

    def refuse_text_below(self, alone: bool) -> None:
        """Say that `%claude`, `alone` on its line or not, takes no text from the lines below. Raises `CellError`."""
        what = "" if alone else "The lines below are not Python, and not part of the prompt: "
        message = (
            f"{what}%claude takes its prompt on the same line. For a prompt of several lines, begin the cell with %%claude. "
            "Nothing was sent, and nothing else in this cell ran."
        )
        raise CellError(ErrorCode.INVALID_PARAMETERS, message)

    def _request(self, line: str, cell: str) -> tuple[str, MagicOptions, Fix | PagePrompt | None] | None:
        """A prompt, its options, and what it is the title of; None if nothing is to run, and the user knows why."""
        options, beginning = parse_line(line, self._config.options())
        prompt = "\n".join(part for part in (beginning, cell.strip("\n")) if part.strip())
        if not prompt.strip():
            print(help_text())
            return None
        if not cell.strip() and (do := self._beginnings.get(prompt.strip())) is not None:
            do(self.extension.conversation())
            return None
        if not cell.strip() and re.match(_FIX, prompt):
            fix = self.extension.conversation().fix(prompt)
            return None if fix is None else (fix.prompt.title, options, fix)
        if "<cellwright-instructions>" in prompt:
            from cellwright.kernel.magic.cell_prompt import page_prompt  # few prompts come from a button

            if (written := page_prompt(prompt)) is not None:
                return written.prompt.title, options, written
        return prompt, options, None
