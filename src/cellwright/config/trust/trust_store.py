"""The user's answers about folders and notebooks: `trust.json` in our own folder, for the user alone.

    {"version": 1,
     "folders": {"/path/of/the/project": {"trusted": true, "accepted": [id, …], "confirmed": [id, …],
                                          "rules": [rule, …], "scripts": {id: {path: sha256, …}}}},
     "notebooks": [sha256 of content, …],
     "held_back": {"new": [id of an entry, …], "gone": {id of an entry: the entry, …}}}

The ids are hashes of what a folder configures (`trust.py`): no value of it is kept here. `scripts` name the files that a
command line names, so that a question can say which of them is another; an id is bound to their content anyway.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from cellwright.config.settings.edit import locked
from cellwright.config.trust.project_files import is_tracked, project_folder
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder, write_atomic


class FolderTrust(Struct, frozen=True):
    """The answers about one folder. `accepted` and `confirmed` are ids; `rules` were allowed by the user in a question.

    `scripts` are the digests of the files that accepted things name, as they were then.
    """

    trusted: bool = False
    accepted: frozenset[str] = frozenset()
    confirmed: frozenset[str] = frozenset()
    rules: frozenset[str] = frozenset()
    scripts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def trust_file() -> Path:
    """Return the path of the file that keeps the answers."""
    return state_folder() / "trust.json"


def folder_trust(folder: Path) -> FolderTrust | None:
    """Return what was answered about `folder`; None if it was never asked about. A damaged file holds no answers."""
    return _read_folder(read_answers().get("folders", {}), folder)


def remember_folder(folder: Path, change: Callable[[FolderTrust], FolderTrust]) -> None:
    """Keep `change` of what is known about `folder`. Raises CellwrightError FILE_ACCESS_ERROR."""
    with changing_answers() as content:
        folders = content.setdefault("folders", {})
        changed = change(_read_folder(folders, folder) or FolderTrust())
        folders[_key(folder)] = {
            "trusted": changed.trusted,
            "accepted": sorted(changed.accepted),
            "confirmed": sorted(changed.confirmed),
            "rules": sorted(changed.rules),
            **({"scripts": {each: dict(files) for each, files in changed.scripts.items()}} if changed.scripts else {}),
        }


def is_known_notebook(digest: str) -> bool:
    """Return whether the user let a notebook of this content run."""
    return digest in texts(read_answers().get("notebooks"))


def remember_notebook(digest: str) -> None:
    """From now on a notebook of this content may run. Raises CellwrightError FILE_ACCESS_ERROR."""
    with changing_answers() as content:
        known = [each for each in texts(content.get("notebooks")) if each != digest]
        # the newest ones are kept
        content["notebooks"] = [*known, digest][-1_000:]


def _key(folder: Path) -> str:
    return str(folder.resolve())


def _read_folder(folders: Any, folder: Path) -> FolderTrust | None:
    found = folders.get(_key(folder)) if isinstance(folders, dict) else None
    if not isinstance(found, dict):
        return None
    accepted, confirmed, rules = (frozenset(texts(found.get(name))) for name in ("accepted", "confirmed", "rules"))
    return FolderTrust(found.get("trusted") is True, accepted, confirmed, rules, read_scripts(found.get("scripts")))


def read_scripts(found: Any) -> dict[str, dict[str, str]]:
    """The digests of files by what names them, as they are kept; what is damaged is left out."""
    members = found.items() if isinstance(found, dict) else ()
    return {
        name: {path: digest for path, digest in files.items() if isinstance(digest, str)}
        for name, files in members
        if isinstance(files, dict)
    }


def texts(values: Any) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def read_answers() -> dict[str, Any]:
    """The whole file; nothing if it is damaged, absent, or not the user's word."""
    file = trust_file()
    try:
        # a repository may have brought it: CELLWRIGHT_HOME and XDG_DATA_HOME can lead into a project
        real = file.resolve()
        top = project_folder(real.parent)
        if real.exists() and is_tracked(top, real, os.environ):
            return {}
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


@contextlib.contextmanager
def changing_answers() -> Iterator[dict[str, Any]]:
    """The whole file, to be changed in place; it is written at the end. Raises CellwrightError FILE_ACCESS_ERROR."""
    file = trust_file()
    try:
        make_private_folder(file.parent)
        with locked(file.parent):
            content = read_answers()
            if not isinstance(content.get("folders", {}), dict):
                content = {}
            yield content
            write_atomic(file, json.dumps({"version": 1, **content}, indent=1).encode(), PRIVATE_FILE)
    except OSError as error:
        message = f"The answer could not be kept in {file}: {error}. Repair access to it; until then it is asked again."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from error
