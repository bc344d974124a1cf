"""The way of one prompt, counted: what a warm `%%claude` cell passes between the magic's call and its request's leaving.

`python -m benchmarks.prompt_way` prints the files on the way (who calls whom, from the magic to the provider's transport,
across the two threads), how many source files and functions are entered besides, and how much is called and looked at on the
disk. `--all` names the functions.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sys
import tempfile
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import cellwright
from cellwright.testing import MessagesServer, say

SOURCE = Path(cellwright.__file__).parent
THINKING = "cellwright-thinking"
"""The thread that imports while the model thinks about a process's first answer: on no prompt's way."""

MAGIC, HAND_OVER, SENT = ("ClaudeMagic.claude", "ClaudeMagic.awaited_cell"), "AgentThread.submit", "KeyTransport.post"


@dataclass
class Way:
    """What is entered while it listens: `functions` by file and name, and `spine`, the calls that lead to the request.

    `calls` counts those of any Python function, `looks` the files and folders that are looked at on the disk.
    """

    functions: set[tuple[str, str]] = field(default_factory=set)
    spine: list[tuple[str, str]] = field(default_factory=list)
    calls: int = 0
    looks: int = 0
    _asking: list[tuple[str, str]] = field(default_factory=list)
    _on: bool = True
    _sent: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        """Forget what was heard of earlier prompts, and listen."""
        self._sent.clear()
        self._on = False
        self.functions.clear()
        self.calls = self.looks = 0

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if self._sent.is_set() or threading.current_thread().name == THINKING:
            return
        if event == "c_call" and self._on and argument in (os.stat, os.lstat, os.scandir, os.listdir):
            self.looks += 1
        if event != "call":
            return
        self.calls += self._on
        if (place := _place(frame)) is None:
            return
        if place[1] in MAGIC:
            self._on = True
        if not self._on:
            return
        self.functions.add(place)
        if place[1] == HAND_OVER:
            self._asking = _stack(frame)
        if place[1] == SENT:
            self._sent.set()
            self.spine = [*self._asking, *_stack(frame)]

    @property
    def files(self) -> list[str]:
        """The files of the spine in order, one for each stretch in the same file."""
        return [file for file, _ in itertools.groupby(file for file, _ in self.spine)]


def _place(frame: FrameType) -> tuple[str, str] | None:
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(SOURCE) or path.is_relative_to(SOURCE / "testing"):
        return None
    return path.relative_to(SOURCE).as_posix(), frame.f_code.co_qualname


def _stack(frame: FrameType | None) -> list[tuple[str, str]]:
    """What of ours leads to `frame`, the first caller first."""
    places: list[tuple[str, str]] = []
    while frame is not None:
        if (place := _place(frame)) is not None:
            places.append(place)
        frame = frame.f_back
    return places[::-1]


WARM_CELLS = 5


def measure() -> Way:
    """The shortest way of some warm prompts in this process's shell: threads that work beside one are counted with it."""
    way = Way()
    found: list[Way] = []
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(MessagesServer([say("One."), *[say("Two.")] * WARM_CELLS]))
        os.environ |= {
            "HOME": home,
            "CELLWRIGHT_HOME": home,
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
        }
        stack.enter_context(contextlib.chdir(home))
        config = Config()
        config.HistoryManager.hist_file = ":memory:"
        shell = InteractiveShell(config=config)
        threading.setprofile(way.profile)  # for the agent's thread, and for those that it gives work to
        shell.extension_manager.load_extension("cellwright")
        shell.run_cell("%%claude\nFirst.", store_history=True)
        for _ in range(WARM_CELLS):
            way.begin()
            sys.setprofile(way.profile)
            shell.run_cell("%%claude\nSecond.", store_history=True)
            sys.setprofile(None)
            found.append(replace(way, functions={*way.functions}, spine=[*way.spine]))
        threading.setprofile(None)
        shell.extension_manager.unload_extension("cellwright")
    return min(found, key=lambda each: each.calls)


def main() -> None:
    """Print the way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="name each function that is entered")
    options = parser.parse_args()
    way = measure()
    print("The files from the magic to the request, with what is called in each:")
    for file, calls in itertools.groupby(way.spine, key=lambda place: place[0]):
        print(f"  {file}: {', '.join(name for _, name in calls)}")
    files = way.files
    print(f"{len(set(files))} files on the way, {len(files) - len(set(files))} returns to an earlier one.")
    entered = {file for file, _ in way.functions}
    print(f"Entered in all: {len(entered)} files, {len(way.functions)} functions.")
    print(f"{way.calls} calls, {way.looks} looks at the disk.")
    if options.all:
        for file, names in itertools.groupby(sorted(way.functions), key=lambda place: place[0]):
            print(f"  {file}: {', '.join(name for _, name in names)}")


if __name__ == "__main__":
    main()
