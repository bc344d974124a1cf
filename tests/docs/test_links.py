"""Links and pictures of the README and the documentation: each leads to a file that git tracks."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)|\b(?:src|srcset)=\"(?!https?:)([^\"]+)\"")
FENCE = re.compile(r"(?ms)^ *(`{3,}).*?^ *\1 *$")
CODE = re.compile(r"`[^`\n]*`")
IMAGES = "docs/images"


def tracked() -> list[str]:
    """The files of the repository, by their paths from its top."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return listed.stdout.decode().strip("\0").split("\0")


def linked() -> dict[str, set[str]]:
    """The paths that each document links to, from the repository's top."""
    documents = [path for path in tracked() if path.endswith(".md") and (ROOT / path).is_file()]
    found = {}
    for path in documents:
        text = CODE.sub("", FENCE.sub("", (ROOT / path).read_text("utf-8")))
        folder = Path(path).parent
        found[path] = {os.path.normpath(folder / (each[1] or each[2])) for each in LINK.finditer(text)}
    return found


def test_every_relative_link_leads_to_a_file_of_the_repository() -> None:
    files = tracked()
    there = {*files, *(str(folder) for path in files for folder in Path(path).parents)}
    broken = {path: links - there for path, links in linked().items() if links - there}
    assert broken == {}


def test_every_picture_is_shown_and_every_scene_takes_one() -> None:
    shown = {Path(link).name for links in linked().values() for link in links if link.startswith(f"{IMAGES}/")}
    files = {Path(path).name for path in tracked() if path.startswith(f"{IMAGES}/")}
    twins = {
        f"{Path(name).stem.removesuffix('-light')}-dark.png" for name in shown
    }  # the site shows them in dark, and on a phone
    twins |= {f"{Path(name).stem}-phone{ending}.png" for name in shown for ending in ("", "-dark")}
    assert files - shown - twins == set(), "pictures that no page shows"
    scenes = "\n".join(
        path.read_text("utf-8") for folder in ("e2e", "legs") for path in (ROOT / "tests" / folder).rglob("*.py")
    )
    themes = re.compile(r"-(?:light|dark)(?:-still)?$")
    names = {Path(name).stem for name in files}
    missing = {name for name in names if f'"{name}' not in scenes and f'"{themes.sub("", name)}' not in scenes}
    assert missing == set(), "pictures that no scene takes"
