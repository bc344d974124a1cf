"""Marketplaces, lists of plugins in `.claude-plugin/marketplace.json`, and the folders and Git repositories they come from.

Nothing of a repository runs while it is fetched: no hook, filter or helper that it names, no submodule, no protocol but
the one that was named. Only its files are taken.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cellwright.config.plugins.installed_plugins import (
    LOCAL,
    KnownMarketplace,
    PluginSource,
    _protocol,
    _wrong,
    marketplace_copy,
    read_source,
)
from cellwright.config.plugins.plugin import NAME, copy_files
from cellwright.config.user_files import SettingsProblem, read_settings_file
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.tools.run_git import neutral_git

GIT_SECONDS = 180.0


LIST = ".claude-plugin/marketplace.json"


async def fetch_files(source: PluginSource, target: Path, environ: Mapping[str, str]) -> str:
    """Copy the files of `source` to `target`, which must not exist; gives the commit, "" for a folder.

    Raises CellwrightError.
    """
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if source.folder is not None:
        copy_files(_below(source.folder, source.path), target)
        return ""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as folder:
        checkout = Path(folder) / "checkout"
        commit = await _clone(source, checkout, environ)
        copy_files(_below(checkout, source.path), target)
    return commit


def _below(folder: Path, path: str) -> Path:
    below = folder / path if path else folder
    if not below.resolve().is_relative_to(folder.resolve()) or not below.is_dir():
        raise _wrong(f"Folder {path or '.'} was not found in {folder}.")
    return below


async def _clone(source: PluginSource, checkout: Path, environ: Mapping[str, str]) -> str:
    protocol = _protocol(source.url)
    checkout.mkdir()
    try:
        git = await neutral_git(checkout, environ, GIT_SECONDS)
        fetching = {**git.environ, "GIT_ALLOW_PROTOCOL": protocol, "GIT_TEMPLATE_DIR": ""}
        for name in ("SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE"):
            if name in environ:
                fetching[name] = environ[name]
        if protocol == "ssh":
            fetching["GIT_SSH_COMMAND"] = "ssh -o BatchMode=yes"
        git = replace(git, environ=fetching)
        for arguments in (
            ("init", "--quiet"),
            ("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"),
        ):
            fetched = f"{source.ref or 'HEAD'}:refs/cellwright/fetched"
            words = arguments if arguments[0] == "init" else (*arguments, "--", source.url, fetched)
            await _run(git, source, *words)
        await _run(git, source, "checkout", "--quiet", "--detach", "refs/cellwright/fetched")
        return (await _run(git, source, "rev-parse", "HEAD")).strip()
    except ToolError as error:
        raise CellwrightError(error.code, error.message) from None


async def _run(git: Any, source: PluginSource, *arguments: str) -> str:
    output = await git.run(*arguments)
    if output.timed_out:
        message = f"{source.shown} could not be fetched within {GIT_SECONDS:g} s."
        raise CellwrightError(ErrorCode.EXECUTION_TIMEOUT, message)
    if output.exit_code:
        why = output.errors or f"git {arguments[0]} ended with {output.exit_code}"
        raise CellwrightError(ErrorCode.EXECUTION_ERROR, f"{source.shown} could not be fetched: {why}")
    return str(output.text)


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


def _invalid(folder: Path, why: str) -> CellwrightError:
    return CellwrightError(ErrorCode.CONFIG_INVALID, f"{folder} is not a list of plugins: {why}. Nothing was changed.")
