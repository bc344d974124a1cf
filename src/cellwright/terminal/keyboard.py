"""Lines and texts from somebody at a terminal."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO


@dataclass(frozen=True)
class Keyboard:
    """`stdin` is the keyboard, `screen` where it echoes; `complain` tells what went wrong."""

    stdin: TextIO
    screen: TextIO
    environ: Mapping[str, str]
    complain: Callable[[str], object]

    def line(self, prompt: str) -> str | None:
        """The next line that is typed after `prompt`; None at the end of the input."""
        _forget_what_was_typed(self.stdin)
        self.screen.write(prompt)
        self.screen.flush()
        typed = self.stdin.readline()
        return typed.rstrip("\n") if typed else None

    def edited(self, text: str) -> str | None:
        """`text` as the user changed it in their editor, in one line where they have none; None when that failed."""
        editor = self.environ.get("VISUAL") or self.environ.get("EDITOR")
        if not editor:
            return self.line("New text, in one line (empty leaves it as it is; set EDITOR to use an editor): ") or text
        with tempfile.TemporaryDirectory(prefix="cellwright-") as folder:  # nobody else may look into it
            path = Path(folder) / "input.txt"
            path.write_text(text, encoding="utf-8")
            try:
                subprocess.run([*shlex.split(editor), str(path)], check=True)
                edited = path.read_text(encoding="utf-8")
            except (OSError, ValueError, subprocess.CalledProcessError) as error:
                self.complain(f"The editor failed: {error}")
                return None
        # editors end a file with a newline of their own
        return edited.removesuffix("\n") if not text.endswith("\n") else edited


def _forget_what_was_typed(stdin: TextIO) -> None:
    """What was typed before the question was there is no answer to it."""
    if os.name == "posix":
        import termios

        termios.tcflush(stdin.fileno(), termios.TCIFLUSH)
