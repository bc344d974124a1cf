"""`/plugin`: plugins and marketplaces listed, installed after a look at what they bring, switched on and off, updated."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from msgspec import Struct

from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.config.plugins.install import PluginInstaller, PluginOffer, PluginRules, what_it_brings
from cellwright.config.plugins.installed_plugins import (
    Installed,
    PluginsInForce,
    data_folder,
    find_plugins,
    is_as_accepted,
    read_installed,
    read_source,
)
from cellwright.config.plugins.marketplace import marketplace_folder, read_marketplace
from cellwright.config.plugins.options import PluginOption
from cellwright.config.plugins.plugin import read_plugin
from cellwright.config.settings.settings_files import users_folder
from cellwright.config.settings.settings_in_force import SettingsInForce, TrustQuestion
from cellwright.config.trust.exact_text import bulleted, exact
from cellwright.conversation.resolve_options import ask_about_trust
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.text import counted

PLUGIN = (
    "[list | show NAME | install WHAT | configure NAME [OPTION=VALUE] | enable|disable|remove NAME | update [NAME] | "
    "marketplace …]"
)
_USAGE = (
    "/plugin list, /plugin show NAME, /plugin install NAME@MARKETPLACE or FOLDER or REPOSITORY, "
    "/plugin configure NAME OPTION=VALUE, /plugin enable, disable or "
    "remove NAME, /plugin update [NAME], /plugin marketplace list, add PLACE, update [NAME], remove NAME."
)
_REASON = "A plugin's hooks and servers run on your machine with your rights. Install only what you trust."

Answer = Callable[[PluginOption], str]
"""Asks the user for what a plugin wants to be told, in a place that keeps it to itself; "" for no answer."""

Accept = Callable[[TrustQuestion], Awaitable[Literal["yes", "no", "nobody"]]]
"""Puts a question to the user."""


async def plugin_page(call: CommandCall) -> CommandPage:
    """Do what follows `/plugin`. Raises CellwrightError."""
    conversation = call.conversation

    async def accept(question: TrustQuestion) -> Literal["yes", "no", "nobody"]:
        if call.ask_user is None:
            return "nobody"
        session = conversation.sessions.current
        return (await ask_about_trust(question, call.ask_user, session, call.emit, name="Plugin"))[0]

    try:
        words = shlex.split(call.text)
    except ValueError:
        words = call.text.split()
    return await PluginCommands(conversation.in_force, accept).do(words)


class PluginCommands(Struct, frozen=True):
    """The plugin commands of one folder; `accept` puts a question to the user."""

    in_force: SettingsInForce
    accept: Accept
    ask: Answer | None = None

    async def do(self, words: Sequence[str]) -> CommandPage:
        """Do one command. Raises CellwrightError."""
        match words:
            case [] | ["list"]:
                return self._list()
            case ["show", name]:
                return self._show(name)
            case ["install", *what] if what:
                return await self._take(await self._installer.offer(" ".join(what)), "Install")
            case ["configure", name, *given]:
                return self._configure(name, given)
            case ["enable" | "disable" as verb, name]:
                on = verb == "enable"
                known = {**read_installed().plugins, **dict.fromkeys(self.in_force.settings.enabled_plugins)}
                plugin_id = name if name in known else self._installer.installed(name).id
                self._installer.switch(plugin_id, on=on)
                return _said(f"{plugin_id} is switched {'on' if on else 'off'}, from the next prompt on.")
            case ["remove" | "uninstall", name]:
                kept = self._installer.installed(name)
                self._installer.remove(kept.id)
                return _said(f"{kept.id} is removed, with its files and its data.")
            case ["update", *names] if len(names) <= 1:
                return await self._update(names)
            case ["marketplace", *rest]:
                return await self._marketplace(rest)
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"There is: {_USAGE} Nothing was changed.")

    @property
    def _installer(self) -> PluginInstaller:
        settings, environ = self.in_force.settings, self.in_force.environ
        rules = PluginRules(settings.known_marketplaces, settings.allowed_marketplaces, settings.blocked_marketplaces)
        return PluginInstaller(users_folder(environ) / "settings.json", environ, self.in_force.cwd, rules)

    async def _take(self, offer: PluginOffer, verb: str) -> CommandPage:
        """Keep `offer` where the user wants it, after a look at what it brings."""
        plugin = offer.plugin
        lines = what_it_brings(plugin, offer.staged, self.in_force.environment)
        try:
            question = TrustQuestion(
                about="run",
                title=f"{verb} the plugin {plugin.id}",
                detail=_offered(offer, lines),
                reason=_REASON,
                yes=verb,
                no="Cancel",
                ids=frozenset(),
            )
            answer = await self.accept(question) if offer.is_new else "yes"
            if answer == "yes":
                self._installer.keep(offer)
        finally:
            self._installer.discard(offer)
        if answer == "nobody":
            how = f"Nobody can answer here. In a terminal: cellwright plugin {verb.lower()} … --yes"
            return CommandPage([Section(f"{plugin.id} was not taken", text=f"{how}\n{question.detail}")])
        if answer == "no":
            return _said("Nothing was changed.")
        if not offer.is_new:
            return _said(f"{plugin.id} is up to date.")
        done = "installed and switched on" if offer.before is None else "brought up to date"
        settings = self.in_force.settings
        if self.ask is not None:
            self._ask_all([option for option in plugin.options if offer.before is None], plugin.id)
        found = find_plugins({**settings.enabled_plugins, plugin.id: True}, configs=settings.plugin_configs)
        known = found.plugins.get(plugin.id, plugin) if self.ask is None else plugin  # who was asked has answered
        why = found.left_out.get(plugin.id)
        counts = "It takes effect with the next prompt." if why is None else f"It has no effect yet: {why}"
        return CommandPage([Section(f"{plugin.id} is {done}", text="\n".join([*lines, *known.problems, counts]))])

    async def _update(self, names: Sequence[str]) -> CommandPage:
        ids = [self._installer.installed(name).id for name in names] or sorted(read_installed().plugins)
        if not ids:
            return _said("No plugin is installed.")
        sections: list[Section] = []
        for plugin_id in ids:
            try:
                page = await self._take(await self._installer.offer_update(plugin_id), "Update")
            except CellwrightError as error:
                if names:
                    raise
                page = CommandPage([Section(f"{plugin_id} is as it was", text=error.message)])
            sections += page.sections
        return CommandPage(sections)

    def _configure(self, name: str, given: Sequence[str]) -> CommandPage:
        """Take the answers to what the plugin asks for: those that are given, else ask for each where that can be done."""
        kept = self._installer.installed(name)
        plugin = read_plugin(kept.root, kept.id.partition("@")[2], data_folder(), listed=kept.source.get("listed"))
        options = {option.name: option for option in plugin.options}
        lines: list[str] = []
        answers = [each.partition("=") for each in given]
        if unknown := [each for each, _, _ in answers if each not in options]:
            known = ", ".join(options) or "nothing"
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{kept.id} asks for {known}, not for {unknown[0]}.")
        if self.ask is not None:
            wanted = [options[each] for each, equals, _ in answers if not equals]
            lines += self._ask_all(wanted or ([] if given else plugin.options), kept.id)
        for each, equals, text in answers:
            if options[each].sensitive and (equals or self.ask is None):
                message = (
                    f"{each} is a secret, and this conversation is saved: nothing was changed. In a terminal "
                    f"`cellwright plugin configure {kept.id} {each}` asks for it without showing it."
                )
                raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
            if equals:
                lines.append(f"{each} is kept {self._installer.answer(kept.id, options[each], text)}.")
        counts = "It takes effect with the next prompt." if lines else ""
        rows: list[Row] = [("option", "what it is", "how to set it")]
        for option in plugin.options:
            facts = [option.title, option.description, "required" if option.required else ""]
            facts += [f"default {option.default}"] if option.default is not None else []
            how = f"/plugin configure {kept.id} {option.name}=VALUE"
            if option.sensitive or self.ask is not None:
                how = f"in a terminal: cellwright plugin configure {kept.id} {option.name}"
            rows.append((option.name, "; ".join(filter(None, facts)) or "—", how))
        text = "\n".join([*lines, counts]) if plugin.options else f"{kept.id} asks for nothing."
        return CommandPage([Section(kept.id, rows if plugin.options else [], text)])

    def _ask_all(self, options: Sequence[PluginOption], plugin_id: str) -> list[str]:
        """Ask for each of `options`, and keep what is answered; says where."""
        kept = []
        for option in options:
            if self.ask is not None and (text := self.ask(option)):
                kept.append(f"{option.name} is kept {self._installer.answer(plugin_id, option, text)}.")
        return kept

    async def _marketplace(self, words: Sequence[str]) -> CommandPage:
        match words:
            case [] | ["list"]:
                return CommandPage(_marketplaces(read_installed(), self.in_force))
            case ["add", *place] if place:
                found = await self._installer.add_marketplace(" ".join(place))
                listed = counted(len(found.plugins), "plugin")
                rows: list[Row] = [("plugin", "what it is")]
                rows += [(f"{name}@{found.name}", each.description) for name, each in sorted(found.plugins.items())]
                text = "\n".join(["/plugin install NAME installs one.", *found.problems])
                return CommandPage([Section(f"The marketplace {found.name} is added: {listed}", rows, text)])
            case ["update", *names] if len(names) <= 1:
                names = names or sorted(read_installed().marketplaces)
                for name in names:
                    await self._installer.marketplace(name, fetch=True)
                return _said(f"Fetched anew: {', '.join(names) or 'nothing, there is no marketplace'}.")
            case ["remove" | "rm", name]:
                self._installer.remove_marketplace(name)
                return _said(f"The marketplace {name} is removed. Plugins installed from it stay.")
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"There is: {_USAGE} Nothing was changed.")

    def _list(self) -> CommandPage:
        installed, found = read_installed(), self.in_force.plugins
        rows: list[Row] = [("plugin", "version", "state", "where from")]
        for plugin_id, kept in sorted(installed.plugins.items()):
            source = kept.source.get("url") or kept.source.get("repo") or kept.source.get("path") or ""
            rows.append((plugin_id, kept.version or "—", self._state(plugin_id, found), str(source)))
        rows += [
            (plugin_id, "—", why, "settings")
            for plugin_id, why in sorted(found.left_out.items())
            if plugin_id not in installed.plugins
        ]
        text = (
            ""
            if len(rows) > 1
            else "None is installed. /plugin install takes a folder, a repository, NAME@MARKETPLACE."
        )
        problems = [(each.id, problem) for each in found.plugins.values() for problem in each.problems]
        sections = [Section("Plugins", rows, text)]
        if problems:
            sections.append(Section("Not understood", [("plugin", "problem"), *problems]))
        return CommandPage([*sections, *_marketplaces(installed, self.in_force)])

    def _state(self, plugin_id: str, found: PluginsInForce) -> str:
        if plugin_id in found.plugins:
            return "on"
        if why := found.left_out.get(plugin_id):
            return f"left out: {why}"
        return "off"

    def _show(self, name: str) -> CommandPage:
        kept = self._installer.installed(name)
        plugin = self.in_force.plugins.plugins.get(kept.id)
        if plugin is None:
            state = "switched off" if is_as_accepted(kept) else "not as you accepted it"
            return _said(f"{kept.id} is {state}.")
        rows: list[Row] = [("", ""), ("version", plugin.version), ("folder", str(plugin.root)), ("hash", kept.digest)]
        rows += [("commit", kept.commit)] if kept.commit else []
        lines = [plugin.description, *what_it_brings(plugin, plugin.root, self.in_force.environment), *plugin.problems]
        return CommandPage([Section(plugin.id, rows, "\n".join(filter(None, lines)))])


def _offered(offer: PluginOffer, lines: Sequence[str]) -> str:
    plugin = offer.plugin
    head = " ".join(filter(None, (plugin.name, plugin.version, f"from {offer.where}")))
    commit = f"\ncommit {offer.commit}" if offer.commit else ""
    description = f"\n{plugin.description}" if plugin.description else ""
    brings = bulleted([*lines, *map(exact, plugin.problems)])
    return f"{head}{commit}{description}\nIt brings:\n{brings}"


def _marketplaces(installed: Installed, in_force: SettingsInForce) -> list[Section]:
    rows: list[Row] = [("marketplace", "plugins", "where from")]
    for name, known in sorted(installed.marketplaces.items()):
        try:
            listed = ", ".join(sorted(read_marketplace(marketplace_folder(known)).plugins))
        except CellwrightError as error:
            listed = error.message
        rows.append((name, listed, read_source(known.source).shown))
    for name, source in sorted(in_force.settings.known_marketplaces.items()):
        if name not in installed.marketplaces:
            where = source.get("repo") or source.get("url") or source.get("path") or ""
            rows.append((name, "known from the settings; fetched when something of it is installed", str(where)))
    text = "" if len(rows) > 1 else "None is added. /plugin marketplace add takes a folder or a repository."
    return [Section("Marketplaces", rows, text)]


def _said(text: str) -> CommandPage:
    return CommandPage([Section("Plugins", text=text)])
