"""The interactive session: a prompt line, a run, the next prompt line.

`Keyboard` reads lines and texts from somebody at a terminal.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from typing import Protocol, TextIO

from msgspec import Struct

from cellwright.errors import CellwrightError
from cellwright.terminal.exit_codes import STOPPED, said_of
from cellwright.terminal.views.terminal_text import columns_of
from cellwright.this_process.files import scratch_folder

if sys.platform != "win32":
    import termios

HELP = """\
Write what Claude should do. A line that ends with \\ continues in the next one.
A line that begins with ! is a command of your own; Claude sees it with your next prompt.
Ctrl-C stops Claude, or empties the line; Ctrl-D, /exit or /quit leaves."""

LEAVE = ("/exit", "/quit")


KEYS = (
    ("Enter", "send"),
    ("Alt-Enter", "new line"),
    ("Tab", "complete / and @"),
    ("Shift-Tab", "change the mode"),
    ("Ctrl-R", "find an earlier prompt"),
    ("Ctrl-O", "show or fold details"),
    ("Escape", "stop Claude"),
    ("Ctrl-C", "stop Claude, or empty the line"),
    ("Ctrl-D", "leave"),
)


class Session(Protocol):
    """The conversation that prompts are for."""

    @property
    def title(self) -> str: ...

    def run(self, prompt: str) -> int:
        """Run a prompt or a command and show it; gives an exit code."""
        ...

    def complain(self, line: str) -> None:
        """Show on stderr what kept a prompt or a command from being done."""
        ...

    def show_last_turn(self) -> None:
        """Show the last prompt and answer of a session that goes on."""
        ...

    def prompt_line(self) -> Callable[[], str] | None:
        """The line that prompts are typed in, which may raise EOFError; None on a terminal that cannot be drawn on."""
        ...


def interact(session: Session) -> int:
    """Read prompts from the keyboard and run each, until the user leaves; gives the exit code."""
    read = session.prompt_line()
    keys = "/help · Ctrl-D leave"
    if read is None:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  gives `input` its editing keys and history; Windows has none
        read = _read
    columns = columns_of(sys.stdout, os.environ)
    greeting = f"{session.title} · {keys}"
    for line in [greeting] if len(greeting) < columns else [session.title, keys]:
        print(textwrap.fill(line, max(columns, 20), break_on_hyphens=False))
    session.show_last_turn()
    while True:
        try:
            prompt = read().strip()
        except EOFError:
            print()
            return 0
        except KeyboardInterrupt:
            print()
            continue
        if prompt in LEAVE:
            return 0
        if prompt == "/help":
            print(HELP if read is _read else _keys(columns_of(sys.stdout, os.environ)), end="\n\n")
        if prompt and (code := _run(session, prompt)) in STOPPED:
            return code


def _keys(columns: int) -> str:
    """The keys in two columns, or in one where there is no room for two."""
    cells = [f"{key:<11}{what}" for key, what in KEYS]
    width = max(map(len, cells[::2])) + 2
    in_a_row = 2 if columns >= width + max(map(len, cells[1::2])) else 1
    starts = range(0, len(cells), in_a_row)
    return "\n".join("".join(f"{cell:<{width}}" for cell in cells[at : at + in_a_row]).rstrip() for at in starts)


def _read() -> str:
    lines = [input("\n> ")]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1][:-1]
        lines.append(input("  "))
    return "\n".join(lines)


def _run(session: Session, prompt: str) -> int:
    """Do what `prompt` says; gives its exit code. What fails is told, and the session goes on."""
    try:
        return session.run(prompt)
    except CellwrightError as error:
        session.complain(said_of(error.code, error.message))
    except KeyboardInterrupt:
        session.complain("Left without waiting for the end.")
    return 0


class Keyboard(Struct, frozen=True):
    """`stdin` is the keyboard, `screen` where it echoes; `complain` tells what went wrong."""

    stdin: TextIO
    screen: TextIO
    environ: Mapping[str, str]
    complain: Callable[[str], object]

    def line(self, prompt: str, seconds: float | None = None) -> str | None:
        """The next line that is typed after `prompt`; None at the end of the input.

        Raises TimeoutError where none was typed within `seconds`.
        """
        if sys.platform != "win32":
            # what was typed before the question was there is no answer to it; a terminal that is gone is told by reading it
            with contextlib.suppress(termios.error, ValueError):
                termios.tcflush(self.stdin.fileno(), termios.TCIFLUSH)
        self.screen.write(prompt)
        self.screen.flush()
        # Windows can wait for sockets only
        if seconds is not None and os.name == "posix" and not select.select([self.stdin], [], [], seconds)[0]:
            self.screen.write("\n")
            raise TimeoutError
        typed = self.stdin.readline()
        return typed.rstrip("\n") if typed else None

    def edited(self, text: str) -> str | None:
        """`text` as the user changed it in their editor, in one line where they have none; None when that failed."""
        editor = self.environ.get("VISUAL") or self.environ.get("EDITOR")
        if not editor:
            return self.line("New text, in one line (empty leaves it as it is; set EDITOR to use an editor): ") or text
        with scratch_folder("input") as folder:  # nobody else may look into it
            path = folder / "input.txt"
            path.write_text(text, encoding="utf-8")
            try:
                subprocess.run([*shlex.split(editor), str(path)], check=True)
                edited = path.read_text(encoding="utf-8")
            except (OSError, ValueError, subprocess.CalledProcessError) as error:
                self.complain(f"The editor failed: {error}")
                return None
        # editors end a file with a newline of their own
        return edited.removesuffix("\n") if not text.endswith("\n") else edited
