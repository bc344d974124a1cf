"""Plugins and marketplaces taken in, brought up to date and removed: first looked at, then, when the user said yes, kept."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from cellwright.config.hooks.entries import Entries, HooksOrigin, HttpHook, described_hooks, variables_of
from cellwright.config.mcp.servers import described_entry
from cellwright.config.plugins import installed_plugins as store
from cellwright.config.plugins.installed_plugins import PluginSource, is_as_accepted, parse_source, read_source, refusal
from cellwright.config.plugins.marketplace import Marketplace, fetch_files, marketplace_folder, read_marketplace
from cellwright.config.plugins.options import CONFIGS, PluginOption, forget_secrets, keep_secret
from cellwright.config.plugins.plugin import NAME, ROOT_VARIABLE, Plugin, copy_files, digest_of, read_plugin
from cellwright.config.settings.edit import set_value
from cellwright.config.trust.exact_text import block, exact
from cellwright.config.trust.trust import rights_of
from cellwright.config.user_files import SettingsProblem
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.state_dir import make_private_folder

ENABLED = "enabledPlugins"


class PluginRules(Struct, frozen=True):
    """The settings about plugins: marketplaces that are known without being added, and the administrator's lists."""

    known: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    allowed: Sequence[Any] | None = None
    blocked: Sequence[Any] = ()

    def check(self, source: PluginSource) -> None:
        """Raises CellwrightError PERMISSION_DENIED for a place that the administrator does not want."""
        if why := refusal(source, self.allowed, self.blocked):
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, f"{why} Nothing was changed.")


class PluginOffer(Struct, frozen=True):
    """A plugin that could be kept: its files in `staged`, what it brings, and what was accepted before, if anything."""

    plugin: Plugin
    staged: Path
    digest: str
    source: Mapping[str, Any]
    commit: str
    where: str
    before: store.InstalledPlugin | None

    @property
    def is_new(self) -> bool:
        """False for what was accepted as it is."""
        before = self.before
        if before is None or before.digest != self.digest or not is_as_accepted(before):
            return True
        if not set(plugin_secrets(self.plugin)) <= set(before.variables):  # accepted before consent named them
            return True
        return before.source.get("listed") != self.source.get("listed")


class PluginInstaller(Struct, frozen=True):
    """Takes plugins in for the user. `settings_file` is the user's own, `environ` what git gets of the environment."""

    settings_file: Path
    environ: Mapping[str, str]
    cwd: Path
    rules: PluginRules = PluginRules()

    async def offer(self, words: str) -> PluginOffer:
        """Fetch what `words` name: `NAME@MARKETPLACE`, `NAME`, a folder or a repository. Raises CellwrightError.

        `discard` or `keep` must follow.
        """
        name, at, marketplace = words.partition("@")
        installed = store.read_installed()
        if at and (marketplace in installed.marketplaces or marketplace in self.rules.known):
            return await self._offer_listed(await self.marketplace(marketplace), name)
        if not at and (folders := self._listing(name, installed)):
            if len(folders) > 1:
                several = ", ".join(f"{name}@{each.name}" for each in folders)
                raise _wrong(f"Several marketplaces list {name}: {several}. Say which.")
            return await self._offer_listed(folders[0], name)
        if at and NAME.fullmatch(name) and NAME.fullmatch(marketplace):
            raise _wrong(f"Marketplace {marketplace} was not found. /plugin marketplace add PLACE adds one.")
        source = parse_source(words, self.cwd)
        # for a plugin that does not name itself
        last = re.split(r"[/\\:]", source.shown.partition("#")[0].rstrip("/"))[-1].removesuffix(".git")
        last = re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-._") or "plugin"
        return await self._offer(source, store.LOCAL, {**source.record, "listed": {"name": last}})

    async def offer_update(self, plugin_id: str) -> PluginOffer:
        """Fetch what there is now of an installed plugin. Raises CellwrightError."""
        kept = self.installed(plugin_id)
        name, _, marketplace = plugin_id.partition("@")
        if marketplace == store.LOCAL:
            return await self._offer(read_source(kept.source), store.LOCAL, kept.source)
        return await self._offer_listed(await self.marketplace(marketplace, fetch=True), name)

    def installed(self, plugin_id: str) -> store.InstalledPlugin:
        """The installed plugin of this id, or of this name where only one has it. Raises CellwrightError."""
        plugins = store.read_installed().plugins
        named = [plugins[plugin_id]] if plugin_id in plugins else []
        named = named or [each for each in plugins.values() if each.id.partition("@")[0] == plugin_id]
        if len(named) != 1:
            known = ", ".join(sorted(plugins)) or "none"
            problem = "Several plugins are" if named else "No plugin is"
            raise _wrong(f"{problem} called {plugin_id}. Installed are: {known}.")
        return named[0]

    def keep(self, offer: PluginOffer) -> None:
        """The user has accepted `offer`: from now on it is there, and switched on. Raises CellwrightError."""
        target = store.installed_root(offer.plugin.id, offer.digest)
        try:
            if not target.exists() or digest_of(target) != offer.digest:
                shutil.rmtree(target, ignore_errors=True)
                copy_files(offer.staged, target)
        finally:
            self.discard(offer)
        if digest_of(target) != offer.digest:
            raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, f"{target} was changed while it was written.")
        plugin = offer.plugin
        make_private_folder(plugin.data)
        named = tuple(plugin_secrets(plugin))
        kept = store.InstalledPlugin(plugin.id, offer.source, offer.digest, offer.commit, plugin.version, named)
        store.keep_plugin(kept)
        before = offer.before.root if offer.before is not None else target
        for old in target.parent.iterdir():  # what runs now may still use what was there before
            if old not in (target, before):
                shutil.rmtree(old, ignore_errors=True)
        if offer.before is None:
            self.switch(plugin.id, on=True)

    def discard(self, offer: PluginOffer) -> None:
        """Take away what was fetched for `offer`."""
        shutil.rmtree(offer.staged.parent, ignore_errors=True)

    def switch(self, plugin_id: str, *, on: bool) -> None:
        """Switch a plugin on or off in the user's own settings. Raises CellwrightError."""
        self._set([ENABLED, plugin_id], on)

    def answer(self, plugin_id: str, option: PluginOption, text: str) -> str:
        """Keep the user's answer to what a plugin asks for; says where it is kept. Raises CellwrightError."""
        text = option.checked(text)
        if option.sensitive:
            place = keep_secret(plugin_id, option.name, text)
            return "in the system's keyring" if place == "keyring" else "in a file that only you can read"
        self._set([CONFIGS, plugin_id, "options", option.name], text)
        return "in your settings"

    def remove(self, plugin_id: str) -> None:
        """Take a plugin away, with its files and its data. Raises CellwrightError."""
        store.forget_plugin(plugin_id)
        self._set([ENABLED, plugin_id], None)
        self._set([CONFIGS, plugin_id], None)
        forget_secrets(plugin_id)
        for folder in (store.plugins_folder() / "installed" / plugin_id, store.data_folder() / plugin_id):
            shutil.rmtree(folder, ignore_errors=True)

    async def add_marketplace(self, words: str) -> Marketplace:
        """Take in the marketplace at the place that `words` name; nothing of it runs. Raises CellwrightError."""
        return await self._fetch_marketplace(parse_source(words, self.cwd))

    async def marketplace(self, name: str, *, fetch: bool = False) -> Marketplace:
        """The marketplace of this name, fetched where settings only name it. Raises CellwrightError."""
        known = store.read_installed().marketplaces.get(name)
        if known is not None and not fetch:
            return read_marketplace(marketplace_folder(known))
        record = known.source if known is not None else self.rules.known.get(name)
        if record is None:
            raise _wrong(f"Marketplace {name} was not found.")
        found = await self._fetch_marketplace(read_source(record))
        if found.name != name:
            raise _wrong(f"The marketplace there calls itself {found.name}, not {name}.")
        return found

    def remove_marketplace(self, name: str) -> None:
        """Forget a marketplace; what was installed from it stays. Raises CellwrightError."""
        if name not in store.read_installed().marketplaces:
            raise _wrong(f"Marketplace {name} was not found.")
        store.forget_marketplace(name)
        shutil.rmtree(store.marketplace_copy(name), ignore_errors=True)

    async def _fetch_marketplace(self, source: PluginSource) -> Marketplace:
        self.rules.check(source)
        if source.folder is not None:
            found = read_marketplace(source.folder)
            store.keep_marketplace(store.KnownMarketplace(found.name, source.record))
            return found
        with _staging() as staged:
            commit = await fetch_files(source, staged, self.environ)
            found = read_marketplace(staged)
            target = store.marketplace_copy(found.name)
            shutil.rmtree(target, ignore_errors=True)
            copy_files(staged, target)
        store.keep_marketplace(store.KnownMarketplace(found.name, source.record, commit))
        return read_marketplace(target)

    def _listing(self, name: str, installed: store.Installed) -> list[Marketplace]:
        found: list[Marketplace] = []
        for known in installed.marketplaces.values():
            try:
                marketplace = read_marketplace(marketplace_folder(known))
            except CellwrightError:  # its own page says so
                continue
            if name in marketplace.plugins:
                found.append(marketplace)
        return found

    async def _offer_listed(self, marketplace: Marketplace, name: str) -> PluginOffer:
        listed = marketplace.plugins.get(name)
        if listed is None:
            known = ", ".join(sorted(marketplace.plugins)) or "none"
            raise _wrong(f"{marketplace.name} lists no {name}. It lists: {known}.")
        source = marketplace.source_of(listed)
        record = {**source.record, **({"path": source.path} if source.url else {}), "listed": dict(listed.values)}
        return await self._offer(source, marketplace.name, record, called=name)

    async def _offer(
        self, source: PluginSource, marketplace: str, record: Mapping[str, Any], *, called: str = ""
    ) -> PluginOffer:
        if marketplace == store.LOCAL:
            self.rules.check(source)
        else:
            self.rules.check(read_source(store.read_installed().marketplaces[marketplace].source))
        staged = _staging_folder()
        try:
            commit = await fetch_files(source, staged, self.environ)
            plugin = read_plugin(staged, marketplace, store.data_folder(), listed=record["listed"])
            if called and plugin.name != called:
                raise _wrong(f"The plugin there calls itself {plugin.name}, and {marketplace} lists {called}.")
            before = store.read_installed().plugins.get(plugin.id)
            return PluginOffer(plugin, staged, digest_of(staged), record, commit, source.shown, before)
        except BaseException:
            shutil.rmtree(staged.parent, ignore_errors=True)
            raise

    def _set(self, path: Sequence[str], value: bool | str | None) -> None:
        try:
            self.settings_file.parent.mkdir(parents=True, exist_ok=True)
            set_value(self.settings_file, path, value)
        except SettingsProblem as problem:
            raise CellwrightError(ErrorCode.CONFIG_PARSE_ERROR, f"{problem}. It was not changed.") from None
        except OSError as error:
            message = f"{self.settings_file} could not be written: {error}"
            raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from error


def what_it_brings(plugin: Plugin, root: Path, environ: Mapping[str, str] | None = None) -> list[str]:
    """List what a plugin brings, what runs first, each in a block of lines; `root` is where its files are named from."""
    origin = HooksOrigin(
        strict=True, secrets=frozenset(plugin_secrets(plugin)), variables=tuple(plugin.variables.items())
    )
    texts, problems = described_hooks(_seen_from(plugin.hooks, root), origin, environ or {})
    lines = texts + [f"a hook that is left out: {exact(each)}" for each in problems]
    for name, server in plugin.mcp_servers.items():
        lines.append(block(f"MCP server {exact(name)}", *described_entry(_seen_from(server, root))))
    for what, places in (
        ("skills", plugin.skills),
        ("commands", plugin.commands),
        ("agents", plugin.agents),
        ("output styles", plugin.output_styles),
    ):
        files = [file for place in places for file in _documents(place)]
        names = [exact(file.parent.name if file.name == "SKILL.md" else file.stem) for file in files]
        details = [line for file in files for line in _rights(file, root, what, environ or {})]
        if names:
            lines.append(block(f"{what}: {', '.join(names)}", *details))
    if plugin.programs is not None:
        programs = ", ".join(sorted(exact(file.name) for file in plugin.programs.iterdir()))
        lines.append(f"programs: {programs}")
    return lines or ["nothing"]


def plugin_secrets(plugin: Plugin) -> list[str]:
    """The variables that the headers of a plugin's hooks ask for, which consent to it lets them send."""
    entries = Entries()
    entries.add("", plugin.hooks, HooksOrigin(strict=True))
    hooks = [hook for found in entries.by_event.values() for hook in found if isinstance(hook, HttpHook)]
    return sorted({name for hook in hooks for name in variables_of(hook)})


def _rights(file: Path, root: Path, what: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Describe what a skill, command or agent of a plugin may do unasked and what it runs."""
    try:
        content = file.read_bytes()
    except OSError:  # it is none then
        return
    place = exact(str(file.relative_to(root))) if file.is_relative_to(root) else exact(str(file))
    if what in ("skills", "commands"):
        yield from (f"{place}: {line}" for line in rights_of(content, environ, from_project=False)[0])


def _seen_from(value: Any, root: Path) -> Any:
    """`value` with the plugin's folder as the plugin itself names it."""
    if isinstance(value, Mapping):
        return {key: _seen_from(each, root) for key, each in value.items()}
    if isinstance(value, list):
        return [_seen_from(each, root) for each in value]
    return value.replace(str(root), f"${{{ROOT_VARIABLE}}}") if isinstance(value, str) else value


def _documents(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    for file in sorted(place.rglob("*.md")):
        if file.name == "SKILL.md" or "SKILL.md" not in {each.name for each in file.parent.iterdir()}:
            yield file


def _staging_folder() -> Path:
    folder = store.plugins_folder() / "staging"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Path(tempfile.mkdtemp(dir=folder)) / "files"


@contextmanager
def _staging() -> Iterator[Path]:
    staged = _staging_folder()
    try:
        yield staged
    finally:
        shutil.rmtree(staged.parent, ignore_errors=True)


def _wrong(message: str) -> CellwrightError:
    return CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{message} Nothing was changed.")
