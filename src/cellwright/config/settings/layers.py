"""Layers of settings: each source taken apart into entries, all layers put together, and the layer of a Jupyter server.

An entry is a value that can count, or not, by itself. Of single values the highest counts, lists are joined, objects
are merged.

The policy of a Jupyter server is a layer under the machine's own for the kernels it starts. The server puts it into the
environment variable CELLWRIGHT_POLICY, in the format of `managed-settings.json`. Only what takes away counts of it, so
that nobody gains by setting the variable. Code in the kernel can take it out of its own environment: in the kernel it is
for people who keep to it; what has to hold is held by the proxy (decisions/policy.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from msgspec import Struct, field

from cellwright.config.settings.known_settings import KEYS, OBJECTS, Check, Key, near_key, restricts
from cellwright.model.credentials import leads_to_a_model

Scope = Literal["environment", "user", "project", "local", "config", "options", "managed"]
"""The sources of values, from lowest to highest: `config` is `c.Claude`, `options` the cell's or the command's."""

SCOPES: tuple[Scope, ...] = get_args(Scope)


_AS_ONE = frozenset(
    {("permissions", name) for name in ("allow", "ask", "deny", "additionalDirectories")}
    | {("sandbox", "filesystem", name) for name in ("denyRead", "denyWrite")}
    | {("sandbox", "network", "deniedDomains"), ("deniedMcpServers",), ("disabledMcpjsonServers",)}
)
"""Lists where a value that stands alone is taken as the only element: it may have been meant to restrict."""

_ALSO_AS_TEXT = frozenset({("fallbackModel",)})
"""Lists that may be one text, of names separated by commas, as the flag is."""

VARIABLE = "CELLWRIGHT_POLICY"
LABEL = "the administrator of this Jupyter server"

_TAKES_AWAY: Mapping[tuple[str, ...], Any] = {
    ("permissions", "disableBypassPermissionsMode"): "disable",
    ("sandbox", "failIfUnavailable"): True,
    ("sandbox", "autoAllowBashIfSandboxed"): False,
    ("sandbox", "allowUnsandboxedCommands"): False,
    ("sandbox", "filesystem", "denyWrite"): None,
    ("sandbox", "filesystem", "denyRead"): None,
    ("sandbox", "network", "deniedDomains"): None,
    ("cellwright", "inlineCompletion"): False,
    ("cellwright", "redactSecrets"): True,
    ("cellwright", "ownCredentials"): False,
    ("cellwright", "allowedModels"): None,
    ("cellwright", "allowedModes"): None,
    ("cellwright", "allowedTools"): None,
    ("cellwright", "allowedMcpServers"): None,
    ("cellwright", "deniedTools"): None,
    ("fileCheckpointingEnabled",): None,
    ("allowManagedHooksOnly",): True,
}
"""The settings that count, each with the one value that does; None: every value."""

_WHERE_UNREADABLE = {"permissions": {"disableBypassPermissionsMode": "disable", "defaultMode": "default"}}


class Layer(Struct, frozen=True, kw_only=True):
    """One source. `root` is what `/x` in its rules starts from, `folder` what its relative directories start from.

    `of_folder`: it lies in the folder that is worked in, so what it gives waits for trust. `foreign`: the folder may have
    brought it along, so it never counts as the user's own word. `label` names it for people.
    """

    scope: Scope
    label: str
    file: Path | None = None
    root: Path
    folder: Path
    of_folder: bool = False
    foreign: bool = False


class SettingsEntry(Struct, frozen=True):
    """One value of a layer; `element`: of a list, else a list without elements counts as one value."""

    path: tuple[str, ...]
    value: Any
    layer: Layer
    element: bool = False

    @property
    def key(self) -> str:
        return ".".join(self.path)

    @property
    def id(self) -> str:
        """The same for the same value at the same place of the same file, and for no other."""
        content = json.dumps([self.layer.label, self.path, self.value], sort_keys=True)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


class Layered(NamedTuple):
    """The entries of a layer that make sense, and what is wrong with the others."""

    entries: tuple[SettingsEntry, ...]
    problems: tuple[str, ...]


def entries_of(layer: Layer, values: Mapping[str, Any]) -> Layered:
    """Take `values`, which `layer` says, apart. What has not the form it should have is left out and named."""
    taking = _LayerReader(layer)
    for path, value in _walk((), values):
        key = KEYS.get(path)
        if key is not None:
            taking.known(key, value)
        elif path in OBJECTS:
            taking.refuse(".".join(path), "an object")
        else:
            taking.unknown(".".join(path))
            taking.add(path, value)
    return Layered(tuple(taking.entries), tuple(taking.problems))


def _walk(path: tuple[str, ...], values: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in values.items():
        here = (*path, name)
        # objects further down count as one value; no setting lies there
        if isinstance(value, dict) and here not in KEYS and len(here) < 8:
            yield from _walk(here, value)
        else:
            yield here, value


class _LayerReader(Struct):
    """The entries of one layer as they are taken."""

    layer: Layer
    entries: list[SettingsEntry] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def refuse(self, what: str, expected: str) -> None:
        self.problems.append(f"{self.layer.label}: `{what}` is not {expected}. It is left out.")

    def unknown(self, name: str) -> None:
        """Name a restriction that is misspelt: it holds nothing back. Other unknown keys are Claude Code's, or nobody's."""
        if restricts(near := near_key(name)):
            problem = f"`{name}` is not known, so it restricts nothing. Did you mean `{near}`?"
            self.problems.append(f"{self.layer.label}: {problem}")

    def add(self, path: tuple[str, ...], value: Any) -> None:
        if isinstance(value, list) and value:
            self.entries += [SettingsEntry(path, element, self.layer, element=True) for element in value]
        else:
            self.entries.append(SettingsEntry(path, value, self.layer))

    def known(self, key: Key, value: Any) -> None:
        if key.shape == "list":
            self._elements(key, value)
        elif key.shape in ("members", "lists"):
            self._members(key, value)
        elif not key.kept_wrong and (expected := key.check(value)):
            self.refuse(key.name, expected)
        else:
            self.entries.append(SettingsEntry(key.path, value, self.layer))

    def _elements(self, key: Key, value: Any) -> None:
        if isinstance(value, str) and key.path in _ALSO_AS_TEXT:
            value = [name.strip() for name in value.split(",")]
        if not isinstance(value, list):
            if key.path not in _AS_ONE:
                self.refuse(key.name, "a list")
                return
            self.problems.append(f"{self.layer.label}: `{key.name}` is not a list.")
            value = [value]
        self._add_good(key.path, value, key.check)

    def _add_good(self, path: tuple[str, ...], values: list[Any], check: Check) -> None:
        good = []
        for value in values:
            if expected := check(value):
                self.refuse(f"{'.'.join(path)}: {json.dumps(value)[:80]}", expected)
            else:
                good.append(value)
        if good or not values:
            self.add(path, good)

    def _members(self, key: Key, value: Any) -> None:
        if not isinstance(value, dict):
            self.refuse(key.name, "an object")
            return
        for name, member in value.items():
            path = (*key.path, name)
            if key.shape == "members" and (expected := key.name_check(name) or key.check(member)):
                self.refuse(".".join(path), expected)
            elif key.shape == "members":
                self.add(path, member)
            elif isinstance(member, list):
                self._add_good(path, member, key.check)
            else:
                self.refuse(".".join(path), "a list")


REPLACED = frozenset(
    {("fallbackModel",)}
    | {("cellwright", name) for name in ("allowedModels", "allowedModes", "allowedTools", "allowedMcpServers")}
)
"""Lists of which the highest one counts alone."""

REPLACED_BY_ADMINISTRATOR = frozenset({("availableModels",)})


class Merged(Struct, frozen=True):
    """`values` as one object; `entries` are those that made it up, by their place, lowest first."""

    values: dict[str, Any] = field(default_factory=dict)
    entries: dict[tuple[str, ...], tuple[SettingsEntry, ...]] = field(default_factory=dict)

    def value(self, *path: str) -> Any:
        """The value at `path`; None where nobody says one."""
        found: Any = self.values
        for name in path:
            if not isinstance(found, dict) or name not in found:
                return None
            found = found[name]
        return found

    def set_to(self, path: tuple[str, ...], entry: SettingsEntry | None) -> None:
        """Let `entry` alone count at `path`; None: nothing does."""
        if entry is not None:
            self.entries[path] = (entry,)
            _put(self.values, path, entry.value)
        elif self.entries.pop(path, None) is not None:
            place: Any = self.values
            for name in path[:-1]:
                place = place[name]
            del place[path[-1]]


def merge(entries: Iterable[SettingsEntry]) -> Merged:
    """Merge `entries`, which may come in any order."""
    by_path: dict[tuple[str, ...], list[SettingsEntry]] = {}
    for entry in sorted(entries, key=lambda entry: SCOPES.index(entry.layer.scope)):  # stable within a scope
        by_path.setdefault(entry.path, []).append(entry)
    merged = Merged()
    for path, found in by_path.items():
        kept = _counting(path, found)
        if kept[-1].element or kept[-1].value == []:
            value: Any = list({_text(entry.value): entry.value for entry in kept if entry.element}.values())
        else:
            value = kept[-1].value
        if _put(merged.values, path, value):
            merged.entries[path] = tuple(kept)
    return merged


def _counting(path: tuple[str, ...], found: list[SettingsEntry]) -> list[SettingsEntry]:
    highest = found[-1]
    is_list = highest.element or highest.value == []
    if not is_list:
        return [entry for entry in found if not entry.element]
    listed = [entry for entry in found if entry.element or entry.value == []]
    alone = path in REPLACED or (path in REPLACED_BY_ADMINISTRATOR and highest.layer.scope == "managed")
    if alone:
        listed = [entry for entry in listed if entry.layer == highest.layer]
    distinct: dict[tuple[str, bool, Path], SettingsEntry] = {}
    for entry in listed:
        # a rule's `/x` means another path in another file
        distinct.setdefault((_text(entry.value), entry.element, entry.layer.root), entry)
    return list(distinct.values())


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> bool:
    for name in path[:-1]:
        values = values.setdefault(name, {})
        if not isinstance(values, dict):
            return False  # a lower file says one value where this one has an object: no setting of ours is so
    values[path[-1]] = value
    return True


def servers_policy(environ: Mapping[str, str], notices: list[str]) -> tuple[Layer, Mapping[str, Any]]:
    """The layer, and what it says; what is wrong with it is added to `notices`."""
    layer = Layer(scope="managed", label=LABEL, root=Path("/"), folder=Path("/"))
    text = environ.get(VARIABLE, "").strip()
    if not text:
        return layer, {}
    try:
        policy_values = json.loads(text)
        return layer, _restricting(policy_values)
    except (ValueError, RecursionError, AttributeError):
        notices.append(f"{VARIABLE} cannot be read: no mode looser than `default` is allowed. Restart the kernel.")
        return layer, _WHERE_UNREADABLE


def own_credentials(merged: Merged) -> bool:
    """Return whether users' settings may name the account that pays."""
    return merged.value("cellwright", "ownCredentials") is not False


def own_environment(merged: Merged) -> dict[str, str] | None:
    """The settings' `env`, less what leads to another account where that is not wanted."""
    env: dict[str, str] | None = merged.value("env")
    if env is None or own_credentials(merged):
        return env
    return {name: value for name, value in env.items() if not leads_to_a_model(name)}


def _restricting(values: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for path, only in _TAKES_AWAY.items():
        place: Any = values
        for name in path:
            place = place.get(name) if isinstance(place, dict) else None
        if place is None or (only is not None and place != only):
            continue
        into = kept
        for name in path[:-1]:
            into = into.setdefault(name, {})
        into[path[-1]] = place
    values.keys()  # an object, or it cannot be read
    return kept
