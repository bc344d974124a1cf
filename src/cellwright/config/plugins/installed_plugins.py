"""The plugins and marketplaces that the user has taken in: `plugins/plugins.json` in our own folder.

    {"version": 1,
     "plugins": {"name@marketplace": {"source": {…}, "digest": hash of its files, "commit": "…", "version": "…",
                                      "variables": [name, …]}},
     "marketplaces": {"name": {"source": {…}, "commit": "…"}}}

A plugin's files lie in `plugins/installed/name@marketplace/DIGEST`, and it counts as long as they have that hash.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from cellwright.config.plugins.plugin import NAME
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder, write_atomic

LOCAL = "local"
"""The marketplace of plugins that the user named by their folder or repository."""


class InstalledPlugin(Struct, frozen=True):
    """A plugin that the user accepted as it was: where it is from, and the hash of its files.

    `variables` are those of the user's that the question named and that the headers of its hooks may hold.
    """

    id: str
    source: Mapping[str, Any]
    digest: str
    commit: str = ""
    version: str = ""
    variables: tuple[str, ...] = ()

    @property
    def root(self) -> Path:
        """The folder of its files."""
        return installed_root(self.id, self.digest)


class KnownMarketplace(Struct, frozen=True):
    """A marketplace that the user added, and where it is from."""

    name: str
    source: Mapping[str, Any]
    commit: str = ""


class Installed(Struct, frozen=True):
    """All that the user has taken in, by id and by name."""

    plugins: dict[str, InstalledPlugin]
    marketplaces: dict[str, KnownMarketplace]


def plugins_folder() -> Path:
    """Return the folder of plugins; it need not exist."""
    return state_folder() / "plugins"


def installed_file() -> Path:
    """Return the file that keeps what is installed."""
    return plugins_folder() / "plugins.json"


def data_folder() -> Path:
    """Return the folder in which each plugin has one that it may write in."""
    return plugins_folder() / "data"


def installed_root(plugin_id: str, digest: str) -> Path:
    """Return the folder of a plugin's files."""
    return plugins_folder() / "installed" / plugin_id / digest[:16]


def marketplace_copy(name: str) -> Path:
    """Return the folder of what was fetched of a marketplace."""
    return plugins_folder() / "marketplaces" / name


def read_installed() -> Installed:
    """Read what is installed; a damaged record holds nothing."""
    content = _read()
    plugins, marketplaces = {}, {}
    for plugin_id, kept in _members(content, "plugins"):
        name, _, marketplace = plugin_id.partition("@")
        if NAME.fullmatch(name) and NAME.fullmatch(marketplace) and isinstance(kept.get("digest"), str):
            named = kept.get("variables")
            plugins[plugin_id] = InstalledPlugin(
                plugin_id,
                kept["source"],
                kept["digest"],
                str(kept.get("commit", "")),
                str(kept.get("version", "")),
                tuple(each for each in named if isinstance(each, str)) if isinstance(named, list) else (),
            )
    for name, kept in _members(content, "marketplaces"):
        if NAME.fullmatch(name):
            marketplaces[name] = KnownMarketplace(name, kept["source"], str(kept.get("commit", "")))
    return Installed(plugins, marketplaces)


def keep_plugin(plugin: InstalledPlugin) -> None:
    """Keep `plugin` as it was accepted. Raises CellwrightError FILE_ACCESS_ERROR."""
    kept: dict[str, Any] = {
        "source": plugin.source,
        "digest": plugin.digest,
        "commit": plugin.commit,
        "version": plugin.version,
    }
    if plugin.variables:
        kept["variables"] = list(plugin.variables)
    with _changing() as content:
        content.setdefault("plugins", {})[plugin.id] = kept


def forget_plugin(plugin_id: str) -> None:
    """Forget the plugin of this id. Raises CellwrightError FILE_ACCESS_ERROR."""
    with _changing() as content:
        content.setdefault("plugins", {}).pop(plugin_id, None)


def keep_marketplace(marketplace: KnownMarketplace) -> None:
    """Keep `marketplace`. Raises CellwrightError FILE_ACCESS_ERROR."""
    with _changing() as content:
        content.setdefault("marketplaces", {})[marketplace.name] = {
            "source": marketplace.source,
            "commit": marketplace.commit,
        }


def forget_marketplace(name: str) -> None:
    """Forget the marketplace of this name. Raises CellwrightError FILE_ACCESS_ERROR."""
    with _changing() as content:
        content.setdefault("marketplaces", {}).pop(name, None)


def _members(content: Mapping[str, Any], key: str) -> list[tuple[str, dict[str, Any]]]:
    members = content.get(key)
    found = members.items() if isinstance(members, dict) else ()
    return [(name, kept) for name, kept in found if isinstance(kept, dict) and isinstance(kept.get("source"), dict)]


def _read() -> dict[str, Any]:
    try:
        content = json.loads(installed_file().read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


@contextlib.contextmanager
def _changing() -> Iterator[dict[str, Any]]:
    from cellwright.config.settings.edit import locked  # which knows the settings, and they know the plugins

    file = installed_file()
    try:
        make_private_folder(file.parent)
        with locked(file.parent):
            content = {key: value for key, value in _read().items() if isinstance(value, dict)}
            yield content
            write_atomic(file, json.dumps({**content, "version": 1}, indent=1).encode(), PRIVATE_FILE)
    except OSError as error:
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, f"{file} could not be written: {error}.") from error
