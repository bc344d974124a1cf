"""How old the published speeds are: `python -m benchmarks.published`, a part of `make check`.

`docs/performance.json` holds which code was measured: the version, the commit, and a hash of the sources. A release (a
commit with a tag, or with another version than the one measured) has to publish the speeds of its own code, so there the
check fails when the hash is another. Between releases it says how much older they are, and passes.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
MEASURED = ("src/cellwright", "benchmarks")
"""The folders whose Python decides what is measured, and how."""

FIGURES = "docs/performance.json"


class MeasuredCode(NamedTuple):
    """The code that was measured: `commit` is "" outside of a repository, `sources` the hash of its files."""

    version: str
    commit: str
    sources: str

    def in_words(self) -> str:
        """The code in words, for the head of the table."""
        return f"version {self.version}" + (f", commit {self.commit[:8]}" if self.commit else "")


def measured_code(root: Path = ROOT) -> MeasuredCode:
    """The code as it is now."""
    return MeasuredCode(_version(root), _git(root, "rev-parse", "HEAD"), _hash_of_sources(root))


def uncommitted(root: Path = ROOT) -> list[str]:
    """The measured files that are not as the commit has them."""
    return [line[3:] for line in _git(root, "status", "--porcelain", "--", *MEASURED).splitlines()]


def check(root: Path = ROOT) -> tuple[bool, str]:
    """Return whether the published figures may stand, and how old they are, in a sentence."""
    published: dict[str, Any] = json.loads((root / FIGURES).read_text("utf-8"))
    measured, now = published.get("code", {}), measured_code(root)
    if measured.get("sources") == now.sources:
        return True, "The published speeds are those of this code."
    age = _age(root, str(measured.get("commit", "")))
    tags = _git(root, "tag", "--points-at", "HEAD").split()
    if tags or measured.get("version", now.version) != now.version:
        release = tags[0] if tags else f"version {now.version}"
        return False, f"{release} publishes the speeds of other code: {age}. Run `make bench` before the release."
    return True, f"The published speeds are of earlier code: {age}. A release measures anew."


def _age(root: Path, commit: str) -> str:
    """How much has changed since `commit`, in words."""
    files = _git(root, "diff", "--name-only", commit, "--", *MEASURED).splitlines() if commit else []
    if not files:
        return "by how much is not known here"
    commits = len(_git(root, "rev-list", f"{commit}..HEAD", "--", *MEASURED).splitlines())
    return f"{_count(len(files), 'file')} changed since, in {_count(commits, 'commit')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _version(root: Path) -> str:
    text = (root / "src/cellwright/version.py").read_text("utf-8")
    found = re.search(r'^VERSION = "([^"]+)"', text, re.MULTILINE)
    return found[1] if found else ""


def _hash_of_sources(root: Path) -> str:
    whole = hashlib.sha256()
    for file in sorted(file for folder in MEASURED for file in (root / folder).rglob("*.py")):
        whole.update(f"{file.relative_to(root).as_posix()}\0".encode())
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def _git(root: Path, *arguments: str) -> str:
    """What git says; "" where there is no repository, no git, or no such commit."""
    try:
        said = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return said.stdout.strip("\n") if said.returncode == 0 else ""


def main(_arguments: Sequence[str] = ()) -> int:
    may_stand, sentence = check()
    print(sentence, file=sys.stdout if may_stand else sys.stderr)
    return 0 if may_stand else 1


if __name__ == "__main__":
    raise SystemExit(main())
