"""What a run changed in settings and nobody has answered for, kept beside the answers so that a restart does not help it.

Of what is new only hashes are kept; of what is gone the restrictions themselves, since they go on to hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cellwright.config.settings.layers import SCOPES, Entry, Layer
from cellwright.config.trust.store import changing_answers, read_answers, texts


class HeldBack(NamedTuple):
    """`new` are ids of entries that do not count, `gone` entries that go on to."""

    new: frozenset[str]
    gone: tuple[Entry, ...]


def held_back() -> HeldBack:
    """What is held back. A damaged record holds nothing."""
    kept = read_answers().get("held_back")
    if not isinstance(kept, dict):
        return HeldBack(frozenset(), ())
    records = kept.get("gone")
    gone = [_entry(record) for record in records.values()] if isinstance(records, dict) else []
    return HeldBack(frozenset(texts(kept.get("new"))), tuple(entry for entry in gone if entry is not None))


def hold_back(new: Iterable[str], gone: Iterable[Entry]) -> None:
    """Hold these back as well, in every process. Raises CellwrightError FILE_ACCESS_ERROR."""
    before = held_back()
    with changing_answers() as content:
        content["held_back"] = {
            "new": sorted({*before.new, *new}),
            "gone": {entry.id: _record(entry) for entry in (*before.gone, *gone)},
        }


def let_go(ids: Iterable[str]) -> None:
    """The user has taken these over. Raises CellwrightError FILE_ACCESS_ERROR."""
    before, ids = held_back(), frozenset(ids)
    with changing_answers() as content:
        content["held_back"] = {
            "new": sorted(before.new - ids),
            "gone": {entry.id: _record(entry) for entry in before.gone if entry.id not in ids},
        }


def _record(entry: Entry) -> dict[str, Any]:
    layer = entry.layer
    return {
        "path": list(entry.path),
        "value": entry.value,
        "element": entry.element,
        "scope": layer.scope,
        "file": str(layer.file),
        "root": str(layer.root),
        "folder": str(layer.folder),
        "of_folder": layer.of_folder,
        "foreign": layer.foreign,
    }


def _entry(record: Any) -> Entry | None:
    if not isinstance(record, Mapping) or record.get("scope") not in SCOPES:
        return None
    path, file, root, folder = (record.get(name) for name in ("path", "file", "root", "folder"))
    if not (isinstance(path, list) and path and all(isinstance(each, str) for each in (*path, file, root, folder))):
        return None
    layer = Layer(
        scope=record["scope"],
        label=str(file),
        file=Path(str(file)),
        root=Path(str(root)),
        folder=Path(str(folder)),
        of_folder=record.get("of_folder") is True,
        foreign=record.get("foreign") is True,
    )
    return Entry(tuple(path), record.get("value"), layer, element=record.get("element") is True)
