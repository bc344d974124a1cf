"""Kill a process with SIGKILL at each point where it writes, while it changes files together, and look at what is left.

`python kill_points.py FOLDER KIND COUNT [EVERY]` prints a JSON object: how many points there were, how many times all files
were old or new after recovery, and each time that something was wrong. Each kill is that of a process of its own. With
KILL_NAMED=1 it is as where no file can be without a name.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

if os.environ.get("KILL_NAMED"):
    del os.O_TMPFILE  # before anybody has asked for it

from cellwright.sessions.file_changes import CallId, changes_folder, changing_call, untold_changes
from cellwright.sessions.session import Session
from cellwright.tools.files.atomic_write import FileWrite, recover_changes, write_together

WRITING = (
    "open", "write", "fsync", "ftruncate", "fchmod", "chmod", "link", "rename", "replace", "unlink", "mkdir", "rmdir",
)  # fmt: skip
KEPT_LINES = 4000
CALL = "toolu_01killed"

Files = dict[str, tuple[bytes, int] | None]
"""What each file holds, and its permission bits; None where there is none."""


def old_files(kind: str, count: int) -> Files:
    files: Files = {}
    for number in range(count):
        created = kind == "mixed" and number % 4 == 1
        files[f"new{number}/f{number}.txt" if created else f"f{number}.txt"] = (
            None if created else (b"old %d\n" % number * KEPT_LINES, 0o640 if number % 2 else 0o644)
        )
    return files


def new_files(kind: str, count: int) -> Files:
    files: Files = {}
    for number, (name, old) in enumerate(old_files(kind, count).items()):
        gone = kind == "mixed" and number % 4 == 2
        mode = 0o644 if old is None else 0o755 if kind == "mixed" and number % 4 == 3 else old[1]
        # longer and shorter by turns
        files[name] = None if gone else (b"NEW %d\n" % number * (KEPT_LINES + 400 * (-1) ** number), mode)
    return files


def held(folder: Path) -> Files:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) for path in paths
    }


def present(files: Files) -> Files:
    return {name: file for name, file in files.items() if file is not None}


def lay_out(folder: Path, kind: str, files: Files) -> None:
    for name, file in present(files).items():
        assert file is not None
        path = folder / name
        path.write_bytes(file[0])
        path.chmod(file[1])
        if kind == "linked":
            folder.with_name("other").mkdir(exist_ok=True)
            (folder.with_name("other") / name).hardlink_to(path)


def change(folder: Path, kind: str, count: int) -> None:
    """Make the change, as a tool does in a call."""
    writes = []
    for name, new in new_files(kind, count).items():
        path = folder / name
        status = path.stat() if path.exists() else None
        writes.append(
            FileWrite(
                path=path, replacing=status, after=None if new is None else new[0], mode=None if new is None else new[1]
            )
        )
    write_together(writes)


def begun_session(folder: Path) -> Session:
    """A session whose last message is the call."""
    session = Session.create(folder, folder.parent / "sessions")
    session.begin(model="m", system=[], tools=[])
    session.append({"role": "user", "content": "Go."})
    call = {"type": "tool_use", "id": CALL, "name": "ApplyPatch", "input": {}}
    session.append({"role": "assistant", "content": [call]})
    return session


class Killer:
    """Counts the calls that write; ends the process before the one with the number `at`, or in the middle of it."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0
        for name in WRITING:
            setattr(os, name, self._counting(name, getattr(os, name)))

    def _counting(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **named: Any) -> Any:
            self.count += 1
            if self.count == self.at:
                if name == "write" and len(args[1]) > 1:
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **named)

        return counting


def in_child(work: Callable[[], int]) -> int:
    """Run `work` in a process of its own; its exit code, negative where it was killed."""
    if (child := os.fork()) == 0:
        code = 120
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def points(base: Path, kind: str, count: int) -> int:
    """The number of points where a change writes."""
    tally = base.parent / "count"

    def work() -> int:
        counted = call_it(fresh(base, kind, count), kind, count, point=-1).count
        tally.write_text(str(counted))
        return 0

    assert in_child(work) == 0
    return int(tally.read_text())


def call_it(folder: Path, kind: str, count: int, point: int) -> Killer:
    """Make the change as a call of a session; killed at `point`, if there is one."""
    session = begun_session(folder)
    changing_call.set(CallId(session.id, CALL))
    killer = Killer(point)
    change(folder, kind, count)
    return killer


def fresh(base: Path, kind: str, count: int) -> Path:
    shutil.rmtree(base, ignore_errors=True)
    shutil.rmtree(changes_folder(), ignore_errors=True)
    changes_folder().parent.mkdir(parents=True, exist_ok=True)
    folder = base / "project"
    folder.mkdir(parents=True)
    lay_out(folder, kind, old_files(kind, count))
    return folder


def killed_at(base: Path, kind: str, count: int, point: int) -> tuple[str, int, list[str]]:
    """What a kill at `point` came to, how many names others could see until then, and what is wrong with it."""
    folder = fresh(base, kind, count)

    def work() -> int:
        call_it(folder, kind, count, point)
        return 0

    wrong: list[str] = []
    if in_child(work) != -signal.SIGKILL:
        wrong.append("it was not killed")
    seen = len([*folder.rglob(".cellwright*")])
    recover_changes()
    now = held(folder)
    outcome = {True: "old"}.get(now == present(old_files(kind, count)), "new")
    if outcome == "new" and now != present(new_files(kind, count)):
        outcome = "mixed"
        wrong.append("neither all old nor all new")
    [path] = (base / "sessions").glob("*.jsonl")
    session = Session.load(path)
    [result] = session.messages[-1]["content"]
    session.close()
    wrong += said_wrong(result, outcome)
    if kind == "linked":
        wrong += [f"{name} was parted" for name in now if (folder / name).stat().st_nlink != 2]
    empty = [path.name for path in folder.iterdir() if path.is_dir() and not any(path.iterdir())]
    untold_changes([folder])
    # a record whose process had not written it yet is nobody's, and goes when it is old
    records = [path.name for path in changes_folder().glob("*") if path.stat().st_size]
    wrong += [f"left over: {name}" for name in [*empty, *records]]
    return ("old, not known" if "not known" in result["content"] else outcome), seen, wrong


def said_wrong(result: dict[str, Any], outcome: str) -> list[str]:
    text, is_error = result["content"], result.get("is_error", False)
    if "how far it got is not known" in text:
        return [] if outcome == "old" and is_error else ["nothing is known of a change that was made"]
    words = {"old": "Nothing was written", "new": "Its change was made as a whole"}
    return [] if words.get(outcome, "?") in text and is_error == (outcome == "old") else [f"{outcome}, but: {text}"]


def main(base: Path, kind: str, count: int, every: int = 1) -> dict[str, Any]:
    there = points(base, kind, count)
    tried = sorted({*range(1, there + 1, every), there})
    outcomes: Counter[str] = Counter()
    wrong: dict[int, list[str]] = {}
    for point in tried:
        outcome, seen, problems = killed_at(base, kind, count, point)
        outcomes[outcome] += 1
        outcomes["temporary names in the folder"] += seen
        if problems:
            wrong[point] = problems
    return {"points": there, "kills": len(tried), **outcomes, "wrong": wrong}


if __name__ == "__main__":
    folder, kind, *numbers = sys.argv[1:]
    print(json.dumps(main(Path(folder), kind, *map(int, numbers))))
