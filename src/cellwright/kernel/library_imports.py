"""Imports by Cellwright and its libraries: never from the folder that the notebook happens to be in.

In a kernel the notebook's folder comes first where Python looks for modules. A file `httpx2.py` or `anyio.py` there, in
a repository that was just cloned, would run the first time Cellwright imports the library of that name: code that
nobody chose to run, with the user's rights. So imports that Cellwright sets off leave that folder out. Those of the
user's own code are left as they are, and so are `sys.path` and modules that are there already.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType

# Paths are strings here: this runs for each import, and Path is several times slower.
# ruff: noqa: PTH109, PTH117, PTH118, PTH120

OURS = "cellwright"


class LibraryFinder(MetaPathFinder):
    """Finds what Cellwright imports, directly or by a library, outside of the folders that belong to the user."""

    def __init__(self) -> None:
        self._folder_at_load = _working_directory()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The library of this name, for an import of ours; None leaves the import to Python."""
        if path is not None or not self._is_asked_by_us(sys._getframe(1)):
            return None
        folders = self._user_folders()
        kept = [entry for entry in sys.path if not _is_in_place(entry, folders)]
        if (spec := PathFinder.find_spec(fullname, kept, target)) is not None:
            return spec
        left_out = [entry for entry in sys.path if _is_in_place(entry, folders)]
        if (spec := PathFinder.find_spec(fullname, left_out, target)) is not None:
            where = spec.origin or ", ".join(spec.submodule_search_locations or ())
            message = (
                f"No library {fullname!r} is installed; {where} is in the notebook's folder, and was not imported."
            )
            raise ModuleNotFoundError(message, name=fullname)
        return None

    def hidden_libraries(self) -> list[tuple[str, str]]:
        """The installed libraries in whose place the user's code has imported a file of the same name, and that file."""
        folders = self._user_folders()
        kept = [entry for entry in sys.path if not _is_in_place(entry, folders)]
        files = [(name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]
        return [
            (name, file)
            for name, file in files
            if "." not in name
            and isinstance(file, str)
            and any(os.path.dirname(file) in (folder, os.path.join(folder, name)) for folder in folders)
            and PathFinder.find_spec(name, kept) is not None
        ]

    def _user_folders(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(filter(None, (_working_directory(), self._folder_at_load))))

    def _is_asked_by_us(self, frame: FrameType | None) -> bool:
        """Return whether the import comes from Cellwright, by way of libraries at most."""
        folders = self._user_folders()
        while frame is not None:
            module = str(frame.f_globals.get("__name__", ""))
            if module.partition(".")[0] == OURS:
                return True
            if module == "__main__" or _is_users(frame.f_code.co_filename, folders):
                return False
            frame = frame.f_back
        return False


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # the folder was removed
        return ""


def _is_in_place(entry: str, folders: Sequence[str]) -> bool:
    """Return whether an entry of `sys.path` is one of `folders`; one that is not absolute starts at the first."""
    return not os.path.isabs(entry) or entry.rstrip(os.sep) in folders


def _is_users(file: str, folders: Sequence[str]) -> bool:
    inside = any(file.startswith(folder + os.sep) for folder in folders)
    return inside and not file.startswith((sys.prefix + os.sep, sys.base_prefix + os.sep))


def install() -> LibraryFinder:
    """Have Cellwright's imports found by a `LibraryFinder` from now on; a second time it is the same one."""
    if (there := installed()) is not None:
        return there
    finder = LibraryFinder()
    # what is built in or frozen, and finders of others, go before as they did
    at = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
    sys.meta_path.insert(at, finder)
    return finder


def installed() -> LibraryFinder | None:
    """The finder that is at work."""
    return next((finder for finder in sys.meta_path if isinstance(finder, LibraryFinder)), None)


def remove() -> None:
    """Take the finder out again."""
    if (finder := installed()) is not None:
        sys.meta_path.remove(finder)
