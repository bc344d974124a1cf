"""The Python that a virtual environment was made from, and the packages that lie outside of an environment.

A `pyvenv.cfg` of the user's own environment is believed. One that lies in the session's folders may say anything: its base
counts if it has an interpreter's shape and lies where interpreters are installed, or outside of every home; and then only
the parts that an interpreter consists of are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cellwright.permissions.confined.git_links import read_briefly
from cellwright.sandbox.paths import below, entries_of, exists, holds, steered
from cellwright.text import lazy_pattern

VARIABLES = {"UV_PYTHON_INSTALL_DIR": "*", "PYENV_ROOT": "versions/*", "XDG_DATA_HOME": "uv/python/*"}
"""The variables that say where interpreters are installed, and where in that folder each of them is."""

PARTS = ("bin", "lib", "lib64", "include", "ssl", "share/terminfo", "share/zoneinfo")
"""The parts of an interpreter that a program needs; beside them may lie anything."""

LONGEST_PATHS = 1_000_000
"""More of a `.pth` file or of a finder is not read: a finder names each of its packages."""

_INSTALLED = (
    *(".local/share/uv/python/*", "Library/Application Support/uv/python/*", ".pyenv/versions/*"),
    *(".asdf/installs/python/*", ".local/share/mise/installs/python/*", ".rye/py/*", ".local/share/pdm/python/*"),
    *(".local/share/hatch/pythons/*/python", ".pixi/envs/*", ".conda/envs/*"),
    *(
        place
        for name in ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", "miniconda", "anaconda")
        for top in (name, f"opt/{name}")
        for place in (top, f"{top}/envs/*")
    ),
)
"""Places of interpreters in a home."""

_HOMES = ("/home", "/Users", "/root", "/var/home", "/export/home")

_BASE = lazy_pattern(r"(?m)^home[ \t]*=[ \t]*(/.*?)[ \t\r]*$")
_FINDERS_PATHS = lazy_pattern(r"(?m)^(?:MAPPING|NAMESPACES)\b.*$")
_QUOTED_PLACE = lazy_pattern(r"['\"](/[^'\"]+)['\"]")


def bases(prefixes: Iterable[str], environ: Mapping[str, str], home: str, roots: tuple[str, ...]) -> Iterator[str]:
    """The prefixes of the interpreters that the virtual environments at `prefixes` were made from, or their parts."""
    for prefix in dict.fromkeys(prefixes):
        file = f"{prefix}/pyvenv.cfg"
        found = _BASE.search(read_briefly(file))
        if not found or "\0" in found[1]:
            continue
        base = str(Path(os.path.realpath(found[1])).parent)
        if not steered(file, roots):
            yield base
        elif _is_installed(base, environ, home, roots):
            yield from (f"{base}/{part}" for part in PARTS)


def installed_in_place(prefix: str, roots: tuple[str, ...]) -> Iterator[str]:
    """Find the folders outside of the environment at `prefix` whose packages are installed in it (`pip install -e`).

    Python looks into them at its start, and `pip list` fails if one is there and refused. What lies in `roots` names none.
    """
    # `glob` fails where a folder is closed to us
    for python in entries_of(Path(prefix, "lib")):
        packages = python / "site-packages"
        if not python.name.startswith("python3") or steered(str(packages), roots):
            continue
        for file in entries_of(packages):
            paths = file.suffix in (".pth", ".egg-link")
            finder = file.name.startswith("__editable__") and file.name.endswith("_finder.py")
            if not (paths or finder) or steered(str(file), roots):
                continue
            text = read_briefly(str(file), LONGEST_PATHS)
            if paths:
                lines = (line.strip() for line in text.splitlines())
                yield from (line for line in lines if line.startswith("/") and "\0" not in line)
            else:
                for found in _FINDERS_PATHS.finditer(text):
                    yield from _QUOTED_PLACE.findall(found[0])


def _is_installed(base: str, environ: Mapping[str, str], home: str, roots: tuple[str, ...]) -> bool:
    """Return whether an interpreter is installed at the real path `base`, whoever says so."""
    if holds(base, home) or any(below(root, base) or below(base, root) for root in roots):
        return False
    if not _looks_installed(base):
        return False
    return not _in_a_home(base, home) or any(_fits(base, place) for place in _places(environ, home, roots))


def _looks_installed(base: str) -> bool:
    # a virtual environment is nobody's base, and one can be made in any folder
    if exists(f"{base}/pyvenv.cfg"):
        return False
    runs = any(each.name.startswith("python3") and os.access(each, os.X_OK) for each in entries_of(Path(base, "bin")))
    return runs and any(each.name.startswith("python3.") for each in entries_of(Path(base, "lib")))


def _in_a_home(base: str, home: str) -> bool:
    if any(below(base, place) for place in (home, *_HOMES)):
        return True
    try:
        owners = {os.getuid(), Path(base).stat().st_uid}
    except OSError:
        return True
    return any(below(base, place) for owner in owners if (place := _home_of(owner)) != "/")


def _home_of(user: int) -> str:
    import pwd  # not on Windows, which has no sandbox

    try:
        return os.path.realpath(pwd.getpwuid(user).pw_dir)
    except KeyError:  # in a container a user may have no entry
        return "/"


def _places(environ: Mapping[str, str], home: str, roots: tuple[str, ...]) -> Iterator[str]:
    yield from (f"{home}/{place}" for place in _INSTALLED)
    for variable, inside in VARIABLES.items():
        value = environ.get(variable, "")
        if value.startswith("/") and not steered(value, roots):
            yield f"{os.path.realpath(value)}/{inside}"


def _fits(base: str, place: str) -> bool:
    parts, wanted = base.split("/"), place.split("/")
    return len(parts) == len(wanted) and all(want in ("*", part) for part, want in zip(parts, wanted, strict=True))
