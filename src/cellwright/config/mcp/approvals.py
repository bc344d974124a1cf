"""The project's servers that the user said yes to: kept with the other answers about trust, bound to what was shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cellwright.config.trust.trust_store import changing_answers, read_answers, read_scripts

_KEY = "mcp_servers"
_SCRIPTS = "mcp_scripts"


def approved_digests(folder: Path) -> dict[str, str]:
    """The digests of the entries that were approved for the project at `folder`, by the servers' names."""
    folders = read_answers().get(_KEY)
    found = folders.get(str(folder.resolve())) if isinstance(folders, dict) else None
    if not isinstance(found, dict):
        return {}
    return {name: digest for name, digest in found.items() if isinstance(digest, str)}


def approved_scripts(folder: Path, name: str) -> dict[str, str]:
    """The digests of the files that an approved entry named, as they were then."""
    folders = read_answers().get(_SCRIPTS)
    found = folders.get(str(folder.resolve())) if isinstance(folders, dict) else None
    return read_scripts(found).get(name, {})


def approve(folder: Path, name: str, digest: str, scripts: Mapping[str, str] | None = None) -> None:
    """The user lets this very entry run for the project, with these files that it names.

    Raises CellwrightError FILE_ACCESS_ERROR.
    """
    _change(folder, name, digest, scripts)


def revoke(folder: Path, name: str) -> None:
    """It is to be asked about again. Raises CellwrightError FILE_ACCESS_ERROR."""
    _change(folder, name, None)


def _change(folder: Path, name: str, digest: str | None, scripts: Mapping[str, str] | None = None) -> None:
    with changing_answers() as content:
        for key, value in ((_KEY, digest), (_SCRIPTS, dict(scripts) if scripts else None)):
            folders = content.get(key)
            folders = dict(folders) if isinstance(folders, dict) else {}
            of_folder = folders.get(str(folder.resolve()))
            answers = dict(of_folder) if isinstance(of_folder, dict) else {}
            answers.pop(name, None)
            if value is not None:
                answers[name] = value
            folders[str(folder.resolve())] = answers
            if key == _KEY or answers or key in content:
                content[key] = folders
