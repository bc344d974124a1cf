"""Marketplaces, lists of plugins in `.claude-plugin/marketplace.json`, and the folders and Git repositories they come from.

Nothing of a repository runs while it is fetched: no hook, filter or helper that it names, no submodule, no protocol but
the one that was named. Only its files are taken.
"""

from __future__ import annotations

import fnmatch
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from cellwright.config.plugins.installed_plugins import LOCAL, KnownMarketplace, marketplace_copy
from cellwright.config.plugins.plugin import NAME, copy_files
from cellwright.config.strict_json import SettingsProblem, read_settings_file
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.text import lazy_pattern
from cellwright.tools.run_git import neutral_git

GIT_SECONDS = 180.0

_GITHUB = lazy_pattern(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9_.][\w.-]*")
_SSH = lazy_pattern(r"(?:[\w.-]+@)[\w.-]+:(?!/)[^\s:][^\s]*")
_REF = lazy_pattern(r"[A-Za-z0-9][\w./-]{0,199}")
_PROTOCOLS = {"https": "https", "ssh": "ssh", "file": "file"}

LIST = ".claude-plugin/marketplace.json"


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
            words = arguments if arguments[0] == "init" else (*arguments, "--", source.url, _refspec(source.ref))
            await _run(git, source, *words)
        await _run(git, source, "checkout", "--quiet", "--detach", "refs/cellwright/fetched")
        return (await _run(git, source, "rev-parse", "HEAD")).strip()
    except ToolError as error:
        raise CellwrightError(error.code, error.message) from None


def _refspec(ref: str) -> str:
    return f"{ref or 'HEAD'}:refs/cellwright/fetched"


async def _run(git: Any, source: PluginSource, *arguments: str) -> str:
    output = await git.run(*arguments)
    if output.timed_out:
        message = f"{source.shown} could not be fetched within {GIT_SECONDS:g} s."
        raise CellwrightError(ErrorCode.EXECUTION_TIMEOUT, message)
    if output.exit_code:
        why = output.errors or f"git {arguments[0]} ended with {output.exit_code}"
        raise CellwrightError(ErrorCode.EXECUTION_ERROR, f"{source.shown} could not be fetched: {why}")
    return str(output.text)


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
