"""`%claude fix`: the last failure of this kernel, its cell and the variables it names, as one prompt.

The failure is taken from the log of cells, so nothing of the user's is called, and the prompt is bounded. The fix is
asked for as an edit of that very cell, which the user then sees as a diff; if nobody can reach the notebook, as code.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from cellwright.agent.prompt import ContextItem, ContextItems, PromptContext, TitledPrompt, text_context
from cellwright.conversation.runs.kinds import CellAction
from cellwright.errors import CellwrightError
from cellwright.kernel.execute.traceback import CellFailure, describe_error
from cellwright.kernel.namespace.cell_log import CellLog, RanCell, sha256_of, type_name_of
from cellwright.kernel.namespace.cell_names import cell_names, cell_of_file
from cellwright.kernel.notebook_context import Describe, describe_lines
from cellwright.kernel.run.notebook import front_end_of
from cellwright.text import lazy_pattern
from cellwright.tools.notebook.open_notebook import OpenNotebooks

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

SOURCE_CHARS = 8_000
NOT_DESCRIBED = ("module", "function", "builtin_function_or_method", "type")
"""Types of values whose name says it all."""

_CELL = lazy_pattern(r"@cell:(?:(?:In)?\[(?P<count>\d+)\]|(?P<cell>[\w.-]*\w))(?:\s+|$)")
_WORD = lazy_pattern(r"(?P<cell>[\w-]+)(?:\s+|$)")

REMEMBERED = "The last error that this kernel remembers. It is this cell's if the source is the same."

NOTHING_FAILED = "Nothing has failed in this kernel, so there is nothing to fix. Nothing was sent."
ASK_ANYWAY = " To ask Claude anyway, put the words into a %%claude cell."


class FixRequest(Struct, frozen=True):
    """The words after `%claude fix`: a cell (its id, or empty) and what the user says besides."""

    cell_id: str
    words: str


class NothingToFix(Exception):
    """Nothing failed; the message tells the user so."""


def fix_request(prompt: str, log: CellLog) -> FixRequest:
    """Read what a line that begins with `fix` asks to be fixed. A first word may be the id of a cell."""
    rest = prompt.strip().removeprefix("fix").strip()
    if (named := _CELL.match(rest)) is not None:
        cell_id = named["cell"]
        if not cell_id:
            count = int(named["count"])
            ran = (run.cell_id for run in reversed(log.runs()) if run.execution_count == count and run.cell_id)
            cell_id = next(ran, f"[{count}]")  # where its id is not known, what mentions it in a notebook
        return FixRequest(cell_id, rest[named.end() :])
    word = _WORD.match(rest)
    if word is not None and log.last_run(word["cell"]) is not None:
        return FixRequest(word["cell"], rest[word.end() :])
    return FixRequest("", rest)


class Fix(Struct, frozen=True):
    """The request for a fix: its prompt, the action that it is, and what failed, each part in a tag of its own."""

    prompt: TitledPrompt
    action: CellAction
    failure: tuple[str, ...] = ()

    async def provide_context(self, prompt_context: PromptContext) -> ContextItems:
        """Describe what failed for the run that begins; secrets in it do not leave the machine."""
        redaction = prompt_context.agent.redaction
        texts = self.failure if redaction is None else [redaction.clean(text).text for text in self.failure]
        blocks = [block for text in texts for block in text_context("", "context", text).blocks]
        failed = (ContextItem("What failed", "context", tuple(blocks)),) if blocks else ()
        return ContextItems(after=(self.prompt.context, *failed))


class FixContext(Struct, frozen=True):
    """The materials of a fix: the shell, its log, whether the notebook can be edited, and how values are told."""

    shell: InteractiveShell
    log: CellLog
    can_edit: bool
    describe: Describe

    def fix(self, request: FixRequest) -> Fix | None:
        """Build the request for the fix; None when nothing is known to have failed."""
        run = self._failed_run(request.cell_id)
        if run is not None:
            label = f"cell [{run.execution_count}]" if run.execution_count else "a cell"
            error = "" if run.error is None else run.error.name
            cell = "a cell of this notebook"
            if run.cell_id:  # one that is mentioned is attached as it is in the notebook
                cell = f"{'@cell:' if self.can_edit else 'the cell '}{run.cell_id}"
            count = f" (In [{run.execution_count}])" if run.execution_count else ""
            instructions = f"Fix {cell}{count}: it failed when it last ran. {self._closing(run.cell_id)}"
            return _fix_of(request, run.cell_id or "", label, error, instructions, self._failure(run))
        unknown = request.cell_id and self.log.last_run(request.cell_id) is None
        return self.fix_of_unknown(request) if unknown and self.can_edit else None

    def _failure(self, run: RanCell) -> tuple[str, ...]:
        """The error of a run, its source where it is not attached, and the variables at which it failed."""
        assert run.error is not None
        source = "" if self.can_edit and run.cell_id else _source(run)
        parts = (_quoted("error", str(run.error)), source, self._variables(run, run.error))
        return tuple(part for part in parts if part)

    def _failed_run(self, cell_id: str) -> RanCell | None:
        """The latest failure (of this cell) that was not mended since."""
        for run in reversed(self.log.runs()):
            if run.error is None or run.is_prompt or run.error.name == "KeyboardInterrupt":
                continue
            if cell_id and run.cell_id != cell_id:
                continue
            last = self.log.last_run(run.cell_id) if run.cell_id else None
            if last is None or not last.success:
                return run
        return None if cell_id else self._failed_before()

    def _failed_before(self) -> RanCell | None:
        """The failure that the shell remembers from before the extension was loaded."""
        error = getattr(sys, "last_value", None)
        if any(run.success is False for run in self.log.runs()):
            return None  # it is one of those, mended by now, or a prompt's
        if not isinstance(error, Exception) or isinstance(error, CellwrightError):
            return None
        history = self.shell.history_manager
        inputs = enumerate(history.input_hist_raw if history is not None else ())
        source = next((text for count, text in reversed(list(inputs)) if _is_from(error, self.shell, count)), "")
        described = describe_error(error, self.shell, source)
        return RanCell(0, None, source or None, sha256_of(source), None, success=False, error=described)

    def _variables(self, run: RanCell, error: CellFailure) -> str:
        namespace = self.shell.user_ns
        # the names in the statements at which the frames stand, in the order they are written
        lines = {frame.line for frame in error.frames if frame.of_the_cell}
        texts = list(_statements(run.source or "", lines)) or [frame.text for frame in error.frames if frame.text]
        words = ((name, text) for text in texts for name in re.findall(r"[^\W\d]\w*", text))
        used = dict.fromkeys(name for name, text in words if name in cell_names(text).used)
        named = [name for name in used if name in namespace]
        described = [name for name in named if type_name_of(namespace[name]) not in NOT_DESCRIBED][:8]
        if not described:
            return ""
        return _quoted("variables", self.describe(namespace, described)[:4_000])

    def _closing(self, cell_id: str | None) -> str:
        if not self.can_edit:
            how = "Nobody can reach the notebook from here: give the corrected source of the cell as one block of code."
        elif cell_id:
            how = "Make the fix with NotebookEdit of that cell; the user accepts it there, and runs the cell."
        else:
            how = "Find the cell by its source with NotebookRead, and make the fix with NotebookEdit of that cell."
        return f"{how} Change no more than the error needs. Say in one or two sentences what was wrong."

    def fix_of_unknown(self, request: FixRequest) -> Fix:
        """A cell whose error is in the notebook: it ran before the extension was loaded, or in another kernel."""
        failure: tuple[str, ...] = ()
        if (before := self._failed_before()) is not None:
            failure = (_quoted("note", REMEMBERED), *self._failure(before))
        instructions = f"Fix @cell:{request.cell_id}: its output is an error. {self._closing(request.cell_id)}"
        # an id is not what a user sees of a cell
        label = f"cell {request.cell_id}" if request.cell_id.startswith("[") else "a cell"
        return _fix_of(request, request.cell_id, label, "", instructions, failure)


def fix_title(error: str, label: str, words: str) -> str:
    """Name a fix for people: `error` is the kind of error, `label` the cell, `words` what the user said besides.

    Only a name is taken for `error`: the title is the user's words to Claude, and an output may say anything.
    """
    named = error if error.isidentifier() and len(error) <= 60 else "error"
    return f"Fix the {named} in {label}{': ' if words else ''}{words}"


def _fix_of(
    request: FixRequest, cell_id: str, label: str, error: str, instructions: str, failure: tuple[str, ...]
) -> Fix:
    words = request.words.strip()
    action = CellAction(name="fix", path="", id=cell_id, label=label, error=error, words=words)
    return Fix(TitledPrompt(fix_title(error, label, words), instructions), action, failure)


def fix_of(prompt: str, shell: InteractiveShell, log: CellLog, notebooks: OpenNotebooks) -> Fix:
    """Build what a line that begins with `fix` asks Claude. Raises `NothingToFix`."""
    request = fix_request(prompt, log)
    own = notebooks.own()
    can_edit = own is not None and (own.live or not front_end_of(shell).headless)
    made = FixContext(shell, log, can_edit, describe_lines).fix(request)
    if made is None:
        raise NothingToFix(nothing_to_fix(request, log))
    return made


def nothing_to_fix(request: FixRequest, log: CellLog) -> str:
    """Word what the user is told when there is nothing to fix."""
    if request.cell_id and (last := log.last_run(request.cell_id)) is not None and last.success:
        cell = f"Cell [{last.execution_count}]" if last.execution_count else "The cell"
        return f"{cell} did not fail when it last ran, so there is nothing to fix. Nothing was sent."
    return NOTHING_FAILED + (ASK_ANYWAY if request.words else "")


def _source(run: RanCell) -> str:
    if run.source is None:
        return ""
    shown, left = run.source[:SOURCE_CHARS], len(run.source) - SOURCE_CHARS
    more = f"\n… ({left:,} characters more)" if left > 0 else ""
    return _quoted("source_as_it_ran", shown + more)


def _quoted(name: str, text: str) -> str:
    return f"<{name}>\n{text}\n</{name}>"


def _statements(source: str, lines: set[int]) -> Iterator[str]:
    """The innermost statements that stand on these lines."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for line in sorted(lines):
        around = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
        ]
        if around:
            innermost = min(around, key=lambda node: (node.end_lineno or node.lineno) - node.lineno)
            yield ast.get_source_segment(source, innermost) or ""


def _is_from(error: BaseException, shell: InteractiveShell, count: int) -> bool:
    """Return whether the error was raised by the input of this number."""
    traceback = error.__traceback__
    while traceback is not None:
        cell = cell_of_file(shell, traceback.tb_frame.f_code.co_filename)
        if cell is not None and cell[1] == f"In[{count}]":
            return True
        traceback = traceback.tb_next
    return False
