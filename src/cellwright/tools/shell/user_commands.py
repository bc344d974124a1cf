"""The user's own commands: `!command` as a prompt runs it, and tells Claude of it with the next prompt.

Nobody is asked and nothing confines it: the user typed it, as they would in a terminal. What Claude is told is bounded
as a command's output is, and without secrets.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from cellwright.agent.prompt import ContextItems, PromptContext, text_context
from cellwright.text import lazy_pattern, visible_line
from cellwright.tools.process.child_processes import child_processes
from cellwright.tools.process.runner import child_environment
from cellwright.tools.shell.run_command import SHOWN_CHARS, ShellCommand, ShellRun, exit_code, meaning

TITLE_CHARS = 80

_COMMAND = lazy_pattern(r"\s*!(?P<command>.*)", re.DOTALL)
_OWN_TAGS = lazy_pattern(r"<(?=/?(?:user-command|bash-(?:input|stdout|stderr)))")


def user_command(prompt: str) -> str | None:
    """The command that a prompt is, "" where nothing follows the `!`; None for a prompt.

    >>> user_command("!git status"), user_command("  ! ls"), user_command("Run !ls"), user_command("!")
    ('git status', 'ls', None, '')
    """
    found = _COMMAND.fullmatch(prompt)
    return found["command"].strip() if found else None


class UserCommandResult(Struct, frozen=True):
    """The end of a command. `text` is what it wrote, both outputs as they came; `stdout` and `stderr` are each alone."""

    command: str
    code: int | None
    text: str
    stdout: str
    stderr: str

    @property
    def ending(self) -> str:
        """Its end in words; nothing where all is well."""
        if self.code is None:
            return "stopped by the user"
        if not self.code:
            return ""
        means = meaning(self.code)
        return f"exit code {self.code}{f' ({means})' if means else ''}"

    @property
    def title(self) -> str:
        """The command on one line."""
        line = visible_line(self.command)
        return f"! {line if len(line) <= TITLE_CHARS else f'{line[: TITLE_CHARS - 1]}…'}"

    def told(self) -> str:
        """The text by which Claude knows of it."""
        parts = [f"<bash-input>{_inert(self.command)}</bash-input>"]
        parts += [
            f"<bash-stdout>{_inert(self.stdout)}</bash-stdout>",
            f"<bash-stderr>{_inert(self.stderr)}</bash-stderr>",
        ]
        ending = f"\nIt ended with: {self.ending}." if self.ending else ""
        inner = "\n".join(parts)
        return f"<user-command>\nThe user ran this command themselves.\n{inner}{ending}\n</user-command>"


def _inert(text: str) -> str:
    return _OWN_TAGS.sub(r"<\\", text)


class UserCommands:
    """The user's commands in one conversation. The folder that one changes to with `cd` is kept for the next."""

    def __init__(self, folder: Path, environ: Callable[[], Mapping[str, str]]) -> None:
        self.folder = folder
        self._environ = environ
        self._start = folder
        self._untold: list[UserCommandResult] = []

    async def run(self, command: str, progress: Callable[..., None]) -> UserCommandResult:
        """Run `command` to its end, on the agent's loop; cancelled, it is ended first, and told all the same.

        Raises ToolError where it cannot be started.
        """
        if not self.folder.is_dir():
            self.folder = self._start
        what = ShellCommand(
            command=command, cwd=self.folder, environ=_own_environment(self._environ()), shown_chars=SHOWN_CHARS
        )
        run = await ShellRun.started(what, child_processes(), progress)
        try:
            await run.wait(None)
        except asyncio.CancelledError:
            self._ended(run, stopped=True)
            raise
        return self._ended(run, stopped=False)

    def _ended(self, run: ShellRun, *, stopped: bool) -> UserCommandResult:
        if run.folder:
            self.folder = Path(run.folder)
        output = run.output
        code = None if stopped else exit_code(run.returncode)
        result = UserCommandResult(
            run.command, code, output.text(), output.stdout.kept.text(), output.stderr.kept.text()
        )
        # of more commands than this between two prompts Claude is told the last
        self._untold = [*self._untold, result][-20:]
        return result

    def forget(self) -> None:
        """Claude is told nothing of what ran until now: another session goes on."""
        self._untold.clear()

    async def provide_context(self, prompt_context: PromptContext) -> ContextItems:
        """Tell of the commands since the last prompt; a `ContextProvider`."""
        untold, self._untold = self._untold, []
        redaction = prompt_context.agent.redaction
        blocks, notices = [], []
        for result in untold:
            text = result.told()
            if redaction is not None:
                cleaned = await asyncio.to_thread(redaction.clean, text)
                text = cleaned.text
                notices += [f"Kept from Claude in {result.title}: {', '.join(cleaned.kinds)}."] if cleaned.kinds else []
            blocks.append(text_context(f"Your command {result.title}", "context", text))
        return ContextItems(before=tuple(blocks), notices=tuple(notices))


def _own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's environment, secrets and all, with what a command of Claude's finds on PATH."""
    kept = child_environment(environ)
    dropped = () if "MPLBACKEND" in kept else ("MPLBACKEND",)
    return {
        **{name: value for name, value in environ.items() if name not in dropped},
        "PATH": kept.get("PATH", os.defpath),
    }
