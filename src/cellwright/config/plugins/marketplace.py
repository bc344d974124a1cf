"""Marketplaces: lists of plugins in `.claude-plugin/marketplace.json` of a folder or repository."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from cellwright.config.plugins.installed_plugins import LOCAL, KnownMarketplace, marketplace_copy
from cellwright.config.plugins.plugin import NAME
from cellwright.config.plugins.source import PluginSource, read_source
from cellwright.config.strict_json import SettingsProblem, read_settings_file
from cellwright.errors import CellwrightError, ErrorCode

LIST = ".claude-plugin/marketplace.json"


class ListedPlugin(Struct, frozen=True):
    """A plugin as its marketplace lists it. `values` are those of the list, which its own manifest goes before."""

    name: str
    description: str
    source: Any
    values: Mapping[str, Any]


class Marketplace(Struct, frozen=True):
    """A list of plugins, in the folder that it is read from; `problems` tell what was left out."""

    name: str
    folder: Path
    plugins: dict[str, ListedPlugin]
    problems: tuple[str, ...] = ()
    plugin_root: str = ""

    def source_of(self, plugin: ListedPlugin) -> PluginSource:
        """The place of the plugin's files. Raises CellwrightError INVALID_PARAMETERS."""
        if not isinstance(plugin.source, str):
            return read_source(plugin.source if isinstance(plugin.source, dict) else {})
        parts = plugin.source.removeprefix("./").split("/")
        if plugin.source.startswith(("/", "~")) or ".." in parts or "\\" in plugin.source or "\0" in plugin.source:
            message = (
                f"{self.name} lists {plugin.name} at {plugin.source!r}, which leads out of it. Nothing was changed."
            )
            raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
        path = "/".join(part for part in (*self.plugin_root.split("/"), *parts) if part not in ("", "."))
        record = {"source": "directory", "path": str(self.folder)}
        return PluginSource(record, folder=self.folder, path=path)


def marketplace_folder(known: KnownMarketplace) -> Path:
    """The folder that `known` is read from: its own, or what was fetched of it."""
    source = read_source(known.source)
    return marketplace_copy(known.name) if source.folder is None else source.folder


def read_marketplace(folder: Path) -> Marketplace:
    """Read the list in `folder`. Raises CellwrightError CONFIG_INVALID."""
    try:
        content = read_settings_file(folder / LIST)
    except SettingsProblem as problem:
        raise _invalid(folder, str(problem)) from None
    if content is None:
        raise _invalid(folder, f"there is no {LIST}")
    name, listed, meta = content.get("name"), content.get("plugins"), content.get("metadata")
    if not isinstance(name, str) or not NAME.fullmatch(name) or name == LOCAL:
        raise _invalid(folder, f"its name is {name!r}")
    if not isinstance(listed, list):
        raise _invalid(folder, "`plugins` is not a list")
    plugin_root = meta.get("pluginRoot", "") if isinstance(meta, dict) else ""
    if not isinstance(plugin_root, str) or ".." in plugin_root or plugin_root.startswith(("/", "~")):
        raise _invalid(folder, f"`pluginRoot` is {plugin_root!r}")
    plugins: dict[str, ListedPlugin] = {}
    problems: list[str] = []
    for number, entry in enumerate(listed, 1):
        plugin = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(plugin, str) or not NAME.fullmatch(plugin) or not entry.get("source"):
            problems.append(f"number {number} has no `name` and `source` that can be used")
            continue
        description = entry.get("description")
        values = {key: value for key, value in entry.items() if key not in ("source", "strict", "category", "tags")}
        described = description if isinstance(description, str) else ""
        plugins.setdefault(plugin, ListedPlugin(plugin, described, entry["source"], values))
    return Marketplace(name, folder, plugins, tuple(problems), plugin_root)


def refusal(source: PluginSource, allowed: Sequence[Any] | None, blocked: Sequence[Any]) -> str:
    """Explain why the administrator's lists keep `source` away; "" where they do not.

    `allowed` is `strictKnownMarketplaces` (None: not set), `blocked` is `blockedMarketplaces`.
    """
    if any(_means(entry, source) for entry in blocked):
        return f"The administrator's settings block {source.shown}."
    if allowed is not None and not any(_means(entry, source) for entry in allowed):
        return f"The administrator's settings let plugins come from listed places only, and {source.shown} is none."
    return ""


def _means(entry: Any, source: PluginSource) -> bool:
    """Return whether an entry of the administrator's names `source`; one that is not understood names nothing."""
    if not isinstance(entry, Mapping):
        return False
    kind = entry.get("source")
    try:
        if kind == "hostPattern":
            host = urlsplit(source.url).hostname or re.split(r"[@:]", source.url)[1:2] or ""
            return bool(source.url) and re.search(str(entry.get("hostPattern")), str(host)) is not None
        if kind == "pathPattern":
            pattern = str(entry.get("pathPattern"))
            return source.folder is not None and re.search(pattern, str(source.folder)) is not None
        named = read_source(entry)
    except (CellwrightError, re.error, ValueError):
        return False
    if named.folder is not None or source.folder is not None:
        return (
            named.folder is not None and source.folder is not None and named.folder.resolve() == source.folder.resolve()
        )
    if named.ref and named.ref != source.ref:
        return False
    return fnmatch.fnmatchcase(_plain(source.url), _plain(named.url))


def _plain(url: str) -> str:
    return url.removesuffix("/").removesuffix(".git").lower()


def _invalid(folder: Path, why: str) -> CellwrightError:
    return CellwrightError(ErrorCode.CONFIG_INVALID, f"{folder} is not a list of plugins: {why}. Nothing was changed.")
