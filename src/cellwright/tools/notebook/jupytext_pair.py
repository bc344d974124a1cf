"""Files that jupytext keeps in step with one another: a notebook and its text, of which an edit changes only one.

A pair is declared in the notebook's metadata, in the text's header, or for a folder by jupytext's configuration
(https://jupytext.readthedocs.io/en/latest/config.html).
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from cellwright.text import lazy_pattern

TEXT_SUFFIXES = frozenset({".py", ".md", ".rmd", ".qmd", ".r", ".jl", ".myst"})
CONFIGURATIONS = ("jupytext.toml", ".jupytext.toml", "pyproject.toml")
HEAD_BYTES = 4_096

_FORMATS = lazy_pattern(rb"""["']?formats["']?\s*:\s*["']?([\w:,/\\. -]+)""")


def paired_files(path: Path) -> list[Path]:
    """The existing files that jupytext pairs with the one at `path`, a real path; few files have any."""
    suffix = path.suffix.lower()
    if suffix != ".ipynb" and suffix not in TEXT_SUFFIXES:
        return []
    declared = _declared(path)
    formats = declared if declared is not None else _configured(path)
    return list(dict.fromkeys(_partners(path, formats))) if formats else []


def pair_note(path: Path, display_path: str, *, changed: bool) -> str:
    """A line that names the partner of a file that was read or `changed`; "" if it has none."""
    names = ", ".join(
        partner.name if partner.parent == path.parent else partner.as_posix() for partner in paired_files(path)
    )
    if not names:
        return ""
    if not changed:
        return f"[Paired by jupytext with {names}, which holds the same cells: change only one of them.]"
    beside = Path(sys.executable).with_name("jupytext")
    if importlib.util.find_spec("jupytext") is not None or beside.exists() or shutil.which("jupytext") is not None:
        way = f"bring it into step with `jupytext --sync {display_path}` (Bash)"
    else:
        way = "jupytext is not installed here: make the same change there, or ask the user to run `jupytext --sync`"
    return f"\n[{display_path} is paired by jupytext with {names}, which still has the old cells: {way}.]"


def _declared(path: Path) -> str | None:
    """The formats that the file itself says it has; None if it says nothing."""
    try:
        with path.open("rb") as file:
            if path.suffix.lower() == ".ipynb":
                size = file.seek(0, 2)
                # the metadata stand at its end, or at its beginning
                file.seek(max(0, size - 64 * 1024))
                part = file.read()
                file.seek(0)
                part += b"\n" + file.read(HEAD_BYTES)
            else:
                part = file.read(HEAD_BYTES)
    except OSError:
        return None
    at = part.find(b"jupytext")
    found = _FORMATS.search(part, at) if at >= 0 else None
    return found[1].decode("ascii").strip() if found else None


def _configured(path: Path) -> str | Mapping[str, object] | None:
    """The formats that jupytext's configuration has for the nearest folder above."""
    for folder in path.parents[:12]:
        for name in CONFIGURATIONS:
            file = f"{folder}/{name}"
            try:
                status = os.stat(file)  # noqa: PTH116  paths are dear to make, and each read asks
            except OSError:
                continue
            if (formats := _formats_in(file, status.st_mtime_ns, status.st_size)) is not None:
                return formats
    return None


@functools.lru_cache(maxsize=32)
def _formats_in(file: str, _mtime_ns: int, size: int) -> str | Mapping[str, object] | None:
    try:
        text = Path(file).read_text("utf-8") if size <= 256 * 1024 else ""
        # most pyproject.toml say nothing of it
        content: object = tomllib.loads(text) if "formats" in text else None
    except (OSError, ValueError):
        return None
    keys = ("tool", "jupytext", "formats") if file.endswith("pyproject.toml") else ("formats",)
    for key in keys:
        content = content.get(key) if isinstance(content, Mapping) else None
    return content if isinstance(content, str | Mapping) else None


def _partners(path: Path, formats: str | Mapping[str, object]) -> Iterator[Path]:
    """The existing partners, by formats such as `ipynb,py:percent` or `notebooks//ipynb,scripts//py:percent`."""
    entries = (
        [f"{prefix.rstrip('/')}//{form}" for prefix, form in formats.items()]
        if isinstance(formats, Mapping)
        else formats.split(",")
    )
    places = []
    for entry in entries:  # `scripts//py:percent` is the folder `scripts` and the suffix `.py`
        root, _, form = entry.strip().rpartition("//")
        extension = form.rpartition("/")[2].partition(":")[0].strip().lstrip(".")
        places.append((root.strip(), f".{extension}"))
    # the folder of this file's own form, of which a partner has its own in that place
    own = next((root for root, suffix in places if root and suffix == path.suffix), "")
    for root, suffix in places:
        partner = path.with_suffix(suffix)
        if root and own:
            folder = next((each for each in path.parents if each.name == own), None)
            if folder is not None:
                partner = (folder.parent / root / path.relative_to(folder)).with_suffix(suffix)
        if partner != path and partner.is_file():
            yield partner
