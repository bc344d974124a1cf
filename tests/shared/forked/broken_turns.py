"""Turns that break or are killed at the n-th write: a process that is forked once for each, so that each is cheap.

`python broken_turns.py` reads cases as JSON lines: {"project", "home", "url", "key", "prompt", "kernel", "events"}; a turn
that is to end early has "at" (which write, from 1) and "how" ("kill" or "raise"). It answers each with {"status", "writes"}.
A write is what Python's own audit events tell of below the project or the home, and each line of a transcript: nothing is
patched, and what writes does not know of it.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

ALLOWED = ("Bash", "Edit", "Write", "NotebookEdit", "MultiEdit", "Python")
CHANGES = frozenset({"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "cellwright.append"})
FOR_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Breaking:
    """An audit hook that counts writes below `roots` and ends the process, or fails the write, at one of them."""

    def __init__(self, roots: tuple[str, ...], at: int | None, how: str) -> None:
        self.roots, self.at, self.how = roots, at, how
        self.numbers = itertools.count(1)
        self.writes = 0
        self.lock = threading.Lock()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            if not isinstance(arguments[2], int) or not arguments[2] & FOR_WRITING:
                return
        elif event not in CHANGES:
            return
        paths = [os.fsdecode(each) for each in arguments if isinstance(each, str | bytes | os.PathLike)]
        if not any(path.startswith(self.roots) for path in paths):
            return
        with self.lock:
            self.writes = next(self.numbers)
        if self.writes != self.at:
            return
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), paths[0])


def in_ipython() -> Any:
    """The conversation of an IPython shell in this process, which has the tools of a kernel."""
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.features.process_conversation import registered

    InteractiveShell.instance().run_line_magic("load_ext", "cellwright")
    here = registered()
    assert here is not None
    return here.conversation


def play(case: dict[str, Any], report: int) -> None:
    """Run the case's prompt in the newest session of its project; write each event to its file as it is shown."""
    from cellwright.conversation.core import Host
    from cellwright.conversation.runs.kinds import RunRequest
    from cellwright.conversation.runs.run import RunSurface
    from cellwright.conversation.runs.run_options import RunOptions
    from cellwright.events import Event
    from cellwright.features.conversation import Conversation

    os.environ.update(HOME=case["home"], CELLWRIGHT_HOME=f"{case['home']}/cellwright")
    os.environ.update(ANTHROPIC_BASE_URL=case["url"], ANTHROPIC_API_KEY=case["key"])
    os.chdir(case["project"])
    shown = os.open(case["events"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def emit(event: Event) -> None:
        fields = {
            name: getattr(event, name, None) for name in ("text", "index", "tool_use_id", "status", "stop_reason")
        }
        error = getattr(event, "error", None)
        line = {"type": type(event).__name__, **fields, "error": error}
        os.write(shown, json.dumps(line, default=str).encode() + b"\n")

    if case["kernel"]:
        conversation = in_ipython()
    else:
        conversation = Conversation(Host(cwd=Path(case["project"]), interface="a test", environ=os.environ))
    conversation.sessions.resume_newest()
    breaking = Breaking((case["project"], case["home"]), case.get("at"), case.get("how", ""))
    sys.addaudithook(breaking)
    request = RunRequest(prompt=case["prompt"], options=RunOptions(allow=ALLOWED))
    run = conversation.start(request, RunSurface(emit=emit))
    conversation.jobs.work_until_done(run)
    run.result()
    breaking.at = None
    conversation.close()
    os.write(report, b"%d" % breaking.writes)


def play_in_child(case: dict[str, Any]) -> dict[str, Any]:
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.close(read)
        status = 1
        try:
            play(case, write)
            status = 0
        finally:
            if status:
                traceback.print_exc()
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as reported:
        writes = reported.read()
    _, status = os.waitpid(child, 0)
    return {"status": os.waitstatus_to_exitcode(status), "writes": int(writes or 0)}


def main() -> None:
    import httpx2  # noqa: F401  here, once, and not in each child

    import cellwright.agent.loop
    import cellwright.features.conversation
    import cellwright.tools.files.edit
    import cellwright.tools.notebook.notebook_edit  # noqa: F401

    for line in sys.stdin:
        print(json.dumps(play_in_child(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
