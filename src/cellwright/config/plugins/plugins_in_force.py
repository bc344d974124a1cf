"""The plugins that count now: switched on in the settings, installed, and still as the user accepted them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.config.plugins.installed_plugins import Installed, InstalledPlugin, data_folder, read_installed
from cellwright.config.plugins.marketplace import read_source, refusal
from cellwright.config.plugins.plugin import Plugin, digest_of, read_plugin, signature_of
from cellwright.errors import CellwrightError

_digests: dict[Path, tuple[tuple[object, ...], str]] = {}
"""The hash of each plugin's files, with the facts of the files that it was made from."""


class PluginsInForce(Struct, frozen=True):
    """The plugins that count, by id, and why others that are switched on do not."""

    plugins: dict[str, Plugin] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


NO_PLUGINS = PluginsInForce()

NAMED = "named"
"""Stands for the marketplace of a plugin whose folder is named where Claude is asked."""


def find_plugins(
    enabled: Mapping[str, bool],
    allowed: Sequence[Any] | None = None,
    blocked: Sequence[Any] = (),
    configs: Mapping[str, Any] | None = None,
    folders: Sequence[Path] = (),
) -> PluginsInForce:
    """The plugins that `enabled` (the setting `enabledPlugins`) says, told what `configs` (`pluginConfigs`) says.

    Those in `folders`, which the program or the command line names, count besides, as they are. The rest as in `refusal`.
    Never raises.
    """
    wanted = [plugin_id for plugin_id, on in sorted(enabled.items()) if on]
    if not wanted and not folders:
        return NO_PLUGINS
    installed = read_installed()
    plugins: dict[str, Plugin] = {}
    left_out: dict[str, str] = {}
    for plugin_id in wanted:
        try:
            found = _read(plugin_id, installed, allowed, blocked, configs or {})
        except CellwrightError as error:
            found = error.message
        if isinstance(found, str):
            left_out[plugin_id] = found
        else:
            plugins[plugin_id] = found
    for folder in folders:
        try:
            source = read_source({"source": "directory", "path": str(folder)})
            named = refusal(source, allowed, blocked) or read_plugin(
                folder, NAMED, data_folder(), configs=configs or {}
            )
        except CellwrightError as error:
            named = error.message
        if isinstance(named, str):
            left_out[str(folder)] = named
        else:
            plugins[named.id] = named
    _leave_out_unmet(plugins, left_out)
    return PluginsInForce(plugins, left_out)


def _leave_out_unmet(plugins: dict[str, Plugin], left_out: dict[str, str]) -> None:
    """Take those out of `plugins` that need one that does not count, and those that need them."""
    unmet = {plugin_id: need for plugin_id, plugin in plugins.items() if (need := _missing(plugin, plugins))}
    for plugin_id, need in unmet.items():
        del plugins[plugin_id]
        how = "switched on, but does not count itself" if need in left_out else f"not there: /plugin install {need}"
        left_out[plugin_id] = f"it needs the plugin {need}, which is {how}"
    if unmet:
        _leave_out_unmet(plugins, left_out)


def _missing(plugin: Plugin, plugins: Mapping[str, Plugin]) -> str:
    """The first plugin that `plugin` needs and that does not count, "" where none is missing.

    A name alone is one of the same marketplace, or of any where that has none.
    """
    names = {other.name for other in plugins.values()}
    for need in plugin.needs:
        if need not in (plugins if "@" in need else names):
            return need if "@" in need else f"{need}@{plugin.id.partition('@')[2]}"
    return ""


def _read(
    plugin_id: str,
    installed: Installed,
    allowed: Sequence[Any] | None,
    blocked: Sequence[Any],
    configs: Mapping[str, Any],
) -> Plugin | str:
    """The plugin, or why it does not count."""
    kept = installed.plugins.get(plugin_id)
    if kept is None:
        return f"it is not installed here: /plugin install {plugin_id}"
    for source in sources_of(kept, installed):
        if why := refusal(read_source(source), allowed, blocked):
            return why
    if not is_as_accepted(kept):
        return f"its files are not those that you accepted: /plugin update {plugin_id}"
    marketplace = plugin_id.partition("@")[2]
    plugin = read_plugin(kept.root, marketplace, data_folder(), listed=kept.source.get("listed"), configs=configs)
    folder = next((read_source(source).folder for source in sources_of(kept, installed)), None)
    return replace(plugin, secrets=frozenset(kept.variables), folder=folder and folder.resolve())


def sources_of(kept: InstalledPlugin, installed: Installed) -> list[Mapping[str, Any]]:
    """The places that a plugin comes from: its marketplace's, where it has one, else its own."""
    known = installed.marketplaces.get(kept.id.partition("@")[2])
    return [kept.source] if known is None else [known.source]


def is_as_accepted(kept: InstalledPlugin) -> bool:
    """Return whether the plugin's files have the hash that the user accepted."""
    try:
        signature = signature_of(kept.root)
        known = _digests.get(kept.root)
        if known is None or known[0] != signature:
            _digests[kept.root] = known = (signature, digest_of(kept.root))
    except CellwrightError:  # gone, or with files that no plugin may hold
        return False
    return known[1] == kept.digest
