"""Entries of all layers put together: of single values the highest counts, lists are joined, objects are merged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cellwright.config.settings.layers import SCOPES, Entry

REPLACED = frozenset(
    {("fallbackModel",)}
    | {("cellwright", name) for name in ("allowedModels", "allowedModes", "allowedTools", "allowedMcpServers")}
)
"""Lists of which the highest one counts alone."""

REPLACED_BY_ADMINISTRATOR = frozenset({("availableModels",)})


@dataclass(frozen=True, slots=True)
class Merged:
    """`values` as one object; `entries` are those that made it up, by their place, lowest first."""

    values: dict[str, Any] = field(default_factory=dict)
    entries: dict[tuple[str, ...], tuple[Entry, ...]] = field(default_factory=dict)

    def value(self, *path: str) -> Any:
        """The value at `path`; None where nobody says one."""
        found: Any = self.values
        for name in path:
            if not isinstance(found, dict) or name not in found:
                return None
            found = found[name]
        return found

    def set_to(self, path: tuple[str, ...], entry: Entry | None) -> None:
        """Let `entry` alone count at `path`; None: nothing does."""
        if entry is not None:
            self.entries[path] = (entry,)
            _put(self.values, path, entry.value)
        elif self.entries.pop(path, None) is not None:
            place: Any = self.values
            for name in path[:-1]:
                place = place[name]
            del place[path[-1]]


def merge(entries: Iterable[Entry]) -> Merged:
    """Merge `entries`, which may come in any order."""
    by_path: dict[tuple[str, ...], list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: SCOPES.index(entry.layer.scope)):  # stable within a scope
        by_path.setdefault(entry.path, []).append(entry)
    merged = Merged()
    for path, found in by_path.items():
        kept = _counting(path, found)
        if _put(merged.values, path, _value_of(kept)):
            merged.entries[path] = tuple(kept)
    return merged


def _counting(path: tuple[str, ...], found: list[Entry]) -> list[Entry]:
    highest = found[-1]
    is_list = highest.element or highest.value == []
    if not is_list:
        return [entry for entry in found if not entry.element]
    listed = [entry for entry in found if entry.element or entry.value == []]
    alone = path in REPLACED or (path in REPLACED_BY_ADMINISTRATOR and highest.layer.scope == "managed")
    if alone:
        listed = [entry for entry in listed if entry.layer == highest.layer]
    distinct: dict[tuple[str, bool, Path], Entry] = {}
    for entry in listed:
        # a rule's `/x` means another path in another file
        distinct.setdefault((_text(entry.value), entry.element, entry.layer.root), entry)
    return list(distinct.values())


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _value_of(entries: Sequence[Entry]) -> Any:
    if not (entries[-1].element or entries[-1].value == []):
        return entries[-1].value
    return list({_text(entry.value): entry.value for entry in entries if entry.element}.values())


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> bool:
    for name in path[:-1]:
        values = values.setdefault(name, {})
        if not isinstance(values, dict):
            return False  # a lower file says one value where this one has an object: no setting of ours is so
    values[path[-1]] = value
    return True
