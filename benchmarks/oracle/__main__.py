"""`record FOLDER` plays the scenes and keeps what they send and print; `compare FOLDER [OTHER]` shows each difference."""

from __future__ import annotations

import argparse
import difflib
import json
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.oracle.stage import SUPPORT, Stage
from cellwright.testing import MessagesServer

sys.path += SUPPORT

from benchmarks.oracle.scenes import ALL
from forked.forked_python import VARIABLE, forked_python

AT_ONCE = 3
SHOWN_LINES = 60


def main() -> int:
    """Record, or compare; the number of scenes that differ is the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.oracle", description=__doc__)
    parser.add_argument("what", choices=("record", "compare", "list"))
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("other", type=Path, nargs="?", help="another recording; without it the scenes are played")
    parser.add_argument(
        "--scenes", default="", help="only those with one of these words in their names, separated by commas"
    )
    parser.add_argument("--all-lines", action="store_true", help="show differences whole")
    options = parser.parse_args()
    words = options.scenes.split(",")
    names = [name for name in ALL if any(word in name for word in words)]
    if options.what == "list":
        print(*names, sep="\n")
        return 0
    if options.folder is None:
        parser.error("a FOLDER is needed")
    if options.what == "record":
        if not options.scenes:
            shutil.rmtree(options.folder, ignore_errors=True)
        record(options.folder, names)
        return 0
    with tempfile.TemporaryDirectory(prefix="oracle-") as made:
        other = options.other or Path(made)
        if options.other is None:
            record(other, names)
            # limits of time strike on a busy machine: what differs is played once more
            if again := [name for name in names if not identical(options.folder / name, other / name)]:
                record(other, again)
        differing = [name for name in names if differs(options.folder / name, other / name, options.all_lines)]
    print(f"{len(names) - len(differing)} of {len(names)} scenes are identical.")
    return min(len(differing), 99)


def record(folder: Path, names: list[str]) -> None:
    """Play these scenes and write what they leave into `folder`, a folder for each."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="forked-") as place, forked_python(Path(place)) as python:
        import os

        os.environ[VARIABLE] = str(python)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for name, files in zip(names, pool.map(lambda name: played(name, python), names), strict=True):
                target = folder / name
                shutil.rmtree(target, ignore_errors=True)
                target.mkdir(parents=True)
                for file, text in files.items():
                    (target / file).write_text(text, "utf-8")
                requests = sum(file.startswith("request") for file in files)
                print(
                    f"{name}: {requests} requests{', and its script is not as played' if 'script.txt' in files else ''}",
                    flush=True,
                )
    print(f"{len(names)} scenes in {time.monotonic() - begun:.0f} s")


def played(name: str, python: Path) -> dict[str, str]:
    """What a scene leaves, by the names of files."""
    with tempfile.TemporaryDirectory(prefix="scene-") as root, MessagesServer() as server:
        stage = Stage(Path(root), server, python)
        ALL[name](stage)
        return stage.files()


def identical(first: Path, second: Path) -> bool:
    """Whether a scene left the same files in two recordings."""
    folders = [{path.name: path.read_bytes() for path in sorted(each.glob("*"))} for each in (first, second)]
    return folders[0] == folders[1]


def differs(first: Path, second: Path, whole: bool) -> bool:
    """Print what differs of a scene in two recordings."""
    files = sorted({path.name for folder in (first, second) if folder.is_dir() for path in folder.iterdir()})
    found = False
    for file in files:
        before, after = (_lines(folder / file) for folder in (first, second))
        raw = [(folder / file).read_bytes() if (folder / file).exists() else b"" for folder in (first, second)]
        if raw[0] == raw[1]:
            continue
        found = True
        shown = list(difflib.unified_diff(before, after, "before", "after", "", n=2))
        print(f"\n=== {first.name}/{file}" + ("" if shown else ": the same JSON in other bytes"))
        cut = shown if whole else [line[:400] for line in shown[:SHOWN_LINES]]
        print(*cut, sep="\n")
        if len(cut) < len(shown):
            print(f"… {len(shown) - len(cut)} further lines")
    return found


def _lines(file: Path) -> list[str]:
    """The lines of a file, with JSON spread over lines of its own."""
    if not file.exists():
        return []
    lines: list[str] = []
    for line in file.read_text("utf-8").split("\n"):
        try:
            spread = (
                json.dumps(json.loads(line), indent=1, ensure_ascii=False).split("\n")
                if line[:1] in "[{" and line
                else [line]
            )
        except ValueError:
            spread = [line]
        lines += (part for each in spread for part in each.split("\\n"))
    return lines


if __name__ == "__main__":
    sys.exit(main())
