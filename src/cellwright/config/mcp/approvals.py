"""The project's servers that the user said yes to: kept with the other answers about trust, bound to what was shown."""

from __future__ import annotations

from pathlib import Path

from cellwright.config.trust.trust_store import changing_answers, read_answers

_KEY = "mcp_servers"


def approved_digests(folder: Path) -> dict[str, str]:
    """The digests of the entries that were approved for the project at `folder`, by the servers' names."""
    folders = read_answers().get(_KEY)
    found = folders.get(str(folder.resolve())) if isinstance(folders, dict) else None
    if not isinstance(found, dict):
        return {}
    return {name: digest for name, digest in found.items() if isinstance(digest, str)}


def approve(folder: Path, name: str, digest: str) -> None:
    """The user lets this very entry run for the project. Raises CellwrightError FILE_ACCESS_ERROR."""
    _change(folder, name, digest)


def revoke(folder: Path, name: str) -> None:
    """It is to be asked about again. Raises CellwrightError FILE_ACCESS_ERROR."""
    _change(folder, name, None)


def _change(folder: Path, name: str, digest: str | None) -> None:
    with changing_answers() as content:
        folders = content.get(_KEY)
        folders = dict(folders) if isinstance(folders, dict) else {}
        of_folder = folders.get(str(folder.resolve()))
        answers = dict(of_folder) if isinstance(of_folder, dict) else {}
        answers.pop(name, None)
        if digest is not None:
            answers[name] = digest
        folders[str(folder.resolve())] = answers
        content[_KEY] = folders
