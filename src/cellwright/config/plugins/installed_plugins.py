"""The plugins and marketplaces that the user has taken in, where they come from, and which of them count now.

They stand in `plugins/plugins.json` of our own folder:

    {"version": 1,
     "plugins": {"name@marketplace": {"source": {…}, "digest": hash of its files, "commit": "…", "version": "…",
                                      "variables": [name, …]}},
     "marketplaces": {"name": {"source": {…}, "commit": "…"}}}

A plugin's files lie in `plugins/installed/name@marketplace/DIGEST`. It counts where the settings switch it on, and as
long as its files have that hash.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.config.plugins.plugin import NAME, Plugin, digest_of, read_plugin, signature_of
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder, write_atomic
from cellwright.text import lazy_pattern

_GITHUB = lazy_pattern(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9_.][\w.-]*")

_SSH = lazy_pattern(r"(?:[\w.-]+@)[\w.-]+:(?!/)[^\s:][^\s]*")

_REF = lazy_pattern(r"[A-Za-z0-9][\w./-]{0,199}")

_PROTOCOLS = {"https": "https", "ssh": "ssh", "file": "file"}


LOCAL = "local"
"""The marketplace of plugins that the user named by their folder or repository."""

_digests: dict[Path, tuple[tuple[object, ...], str]] = {}
"""The hash of each plugin's files, with the facts of the files that it was made from."""


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
            found = _plugin_in_force(plugin_id, installed, allowed, blocked, configs or {})
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


def _plugin_in_force(
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


class PluginSource(Struct, frozen=True):
    """A place that files come from: `folder`, or the repository `url` at `ref` ("" for its main branch).

    `path` is the folder within it; `record` is how settings and marketplaces write it.
    """

    record: Mapping[str, Any]
    folder: Path | None = None
    url: str = ""
    ref: str = ""
    path: str = ""

    @property
    def shown(self) -> str:
        """The place in one line."""
        where = str(self.folder) if self.folder is not None else self.url + (f"#{self.ref}" if self.ref else "")
        return f"{where} ({self.path})" if self.path else where


def parse_source(text: str, cwd: Path) -> PluginSource:
    """Read a place as the user writes it: a folder, `https://…`, `git@host:…`, `owner/repository`, each with `#ref`.

    Raises CellwrightError INVALID_PARAMETERS.
    """
    place, _, ref = text.strip().partition("#")
    if not place:
        raise _wrong("Give its location: a folder, https://…, git@host:…, owner/repository.")
    folder = Path(place).expanduser()
    if place.startswith((".", "/", "~")) or (cwd / folder).is_dir():
        if not (cwd / folder).is_dir():
            raise _wrong(f"{cwd / folder} is not a folder.")
        return read_source({"source": "directory", "path": str((cwd / folder).absolute())})
    more = {"ref": ref} if ref else {}
    if _GITHUB.fullmatch(place):
        return read_source({"source": "github", "repo": place, **more})
    return read_source({"source": "url", "url": place, **more})


def read_source(record: Mapping[str, Any]) -> PluginSource:
    """Read a place as settings and marketplaces write it. Raises CellwrightError INVALID_PARAMETERS."""
    kind = record.get("source")
    ref = record.get("ref") or record.get("sha") or ""
    path = record.get("path") or ""
    if not isinstance(ref, str) or (ref and not _REF.fullmatch(ref)) or ".." in ref:
        raise _wrong(f"{ref!r} is not a branch, tag or commit.")
    if not isinstance(path, str):
        raise _wrong(f"`path` is {path!r}.")
    if kind in ("directory", "file", "folder") and path:
        folder = Path(path).expanduser()
        if not folder.is_absolute():
            raise _wrong(f"{path} is not an absolute path.")
        if kind == "file":  # the list itself, in `.claude-plugin` or beside it
            folder = folder.parent.parent if folder.parent.name == ".claude-plugin" else folder.parent
        return PluginSource(record, folder=folder)
    if kind == "github" and isinstance(repo := record.get("repo"), str) and _GITHUB.fullmatch(repo):
        return PluginSource(record, url=f"https://github.com/{repo.removesuffix('.git')}.git", ref=ref, path=path)
    if kind in ("url", "git", "git-subdir") and isinstance(url := record.get("url"), str):
        _protocol(url)
        return PluginSource(record, url=url, ref=ref, path=path)
    if kind in ("npm", "pip"):
        package = record.get("package")
        raise _wrong(
            f"The package {package} is on {kind}, which plugins are not fetched from: a package's own scripts could run. "
            "Fetch and unpack it yourself (`npm pack`, `pip download`), look at it, and /plugin install its folder."
        )
    raise _wrong(
        f"{record} is not a place that plugins are fetched from: a folder, https://…, git@host:…, owner/repository."
    )


def _protocol(url: str) -> str:
    """The protocol that git may use for `url`, and no other."""
    if _SSH.fullmatch(url):
        return "ssh"
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _wrong(f"{url!r} is not an address.") from None
    if parts.scheme not in _PROTOCOLS or (parts.scheme != "file" and not parts.hostname) or url.startswith("-"):
        raise _wrong(f"{url!r} is not a address of a repository: https://…, git@host:…, owner/repository, or a folder.")
    if parts.password:
        raise _wrong("An address with a password in it is not kept. Use the address for SSH (git@host:…).")
    return _PROTOCOLS[parts.scheme]


def _wrong(message: str) -> CellwrightError:
    return CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{message} Nothing was changed.")


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
