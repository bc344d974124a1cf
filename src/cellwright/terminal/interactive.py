"""The interactive session: a prompt line, a run, the next prompt line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TextIO

from cellwright.errors import CellwrightError

HELP = """\
Write what Claude is to do. A line that ends with \\ goes on in the next one.
Ctrl-C interrupts Claude, or empties the line; Ctrl-D, /exit or /quit leaves; /help lists the commands."""

LEAVE = ("/exit", "/quit")


def interact(run: Callable[[str], int], title: str, stderr: TextIO) -> int:
    """Read prompts from the keyboard and `run` each, until the user leaves; gives the exit code."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  gives `input` its editing keys and history; Windows has none

    print(f"{title}\n{HELP}")
    while True:
        try:
            prompt = _read().strip()
        except EOFError:
            print()
            return 0
        except KeyboardInterrupt:
            print()
            continue
        if prompt in LEAVE:
            return 0
        if prompt == "/help":
            print(f"{HELP}\n")
        if prompt:
            _run(run, prompt, stderr)


def _read() -> str:
    lines = [input("\n> ")]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1][:-1]
        lines.append(input("  "))
    return "\n".join(lines)


def _run(run: Callable[[str], int], prompt: str, stderr: TextIO) -> None:
    """A run that fails is told, and the session goes on."""
    try:
        run(prompt)
    except CellwrightError as error:
        print(error, file=stderr)
    except KeyboardInterrupt:
        print("Left without waiting for the end.", file=stderr)
