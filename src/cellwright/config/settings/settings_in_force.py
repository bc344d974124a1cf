"""The settings of a conversation as they stand: read again when a file has changed, never loosened by its own run.

Changes of settings that a run made and nobody has answered for are kept beside the user's answers, so that a restart
does not help it. Of what is new only hashes are kept; of what is gone the restrictions themselves, since they go on
to hold.
"""

from __future__ import annotations

import contextlib
import operator
import os
from collections import ChainMap
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from cellwright.config.agents import crowded_agents
from cellwright.config.memory import MemoryPlace, crowded_rules
from cellwright.config.output_styles import crowded_styles
from cellwright.config.plugins.installed_plugins import PluginsInForce, find_plugins
from cellwright.config.settings.layers import SCOPES, VARIABLE, Layer, Scope, SettingsEntry
from cellwright.config.settings.option_table import BY_NAME
from cellwright.config.settings.settings import Settings, save_allow_rules, settings_of
from cellwright.config.settings.settings_files import (
    InlineSettings,
    SettingsSources,
    WatchedFiles,
    administrators_folder,
    own_folder,
    read_all,
    watched_variables,
)
from cellwright.config.skills import SkillPlace, crowded_skills
from cellwright.config.trust.exact_text import bulleted, exact
from cellwright.config.trust.project_files import main_checkout
from cellwright.config.trust.trust import Item, Trust, accept, describe, judge, tightens, trusted_as_it_is
from cellwright.config.trust.trust_store import changing_answers, read_answers, texts, trust_file
from cellwright.config.user_files import facts_of
from cellwright.errors import CellwrightError
from cellwright.model.provider import ModelChoice
from cellwright.sessions.state_dir import notes_folder


class Quarantine(NamedTuple):
    """`new` are ids of entries that do not count, `gone` entries that go on to."""

    new: frozenset[str]
    gone: tuple[SettingsEntry, ...]


def read_quarantine() -> Quarantine:
    """Read what is held back. A damaged record holds nothing."""
    kept = read_answers().get("held_back")
    if not isinstance(kept, dict):
        return Quarantine(frozenset(), ())
    records = kept.get("gone")
    gone = [_entry(record) for record in records.values()] if isinstance(records, dict) else []
    return Quarantine(frozenset(texts(kept.get("new"))), tuple(entry for entry in gone if entry is not None))


def add_to_quarantine(new: Iterable[str], gone: Iterable[SettingsEntry]) -> None:
    """Hold these back as well, in every process. Raises CellwrightError FILE_ACCESS_ERROR."""
    before = read_quarantine()
    with changing_answers() as content:
        content["held_back"] = {
            "new": sorted({*before.new, *new}),
            "gone": {entry.id: _record(entry) for entry in (*before.gone, *gone)},
        }


def release_from_quarantine(ids: Iterable[str]) -> None:
    """The user has taken these over. Raises CellwrightError FILE_ACCESS_ERROR."""
    before, ids = read_quarantine(), frozenset(ids)
    with changing_answers() as content:
        content["held_back"] = {
            "new": sorted(before.new - ids),
            "gone": {entry.id: _record(entry) for entry in before.gone if entry.id not in ids},
        }


def _record(entry: SettingsEntry) -> dict[str, Any]:
    layer = entry.layer
    return {
        "path": list(entry.path),
        "value": entry.value,
        "element": entry.element,
        "scope": layer.scope,
        "file": str(layer.file),
        "root": str(layer.root),
        "folder": str(layer.folder),
        "of_folder": layer.of_folder,
        "foreign": layer.foreign,
    }


def _entry(record: Any) -> SettingsEntry | None:
    if not isinstance(record, Mapping) or record.get("scope") not in SCOPES:
        return None
    path, file, root, folder = (record.get(name) for name in ("path", "file", "root", "folder"))
    if not (isinstance(path, list) and path and all(isinstance(each, str) for each in (*path, file, root, folder))):
        return None
    layer = Layer(
        scope=record["scope"],
        label=str(file),
        file=Path(str(file)),
        root=Path(str(root)),
        folder=Path(str(folder)),
        of_folder=record.get("of_folder") is True,
        foreign=record.get("foreign") is True,
    )
    return SettingsEntry(tuple(path), record.get("value"), layer, element=record.get("element") is True)


_RESTRICTING = (("permissions", "defaultMode"), ("sandbox", "enabled"), ("sandbox", "network", "strictAllowlist"))
"""Besides what always restricts: without it a looser mode may hold, or commands run unconfined."""

NOT_RELOADED = {BY_NAME[name].setting: name for name in ModelChoice.__struct_fields__}
"""Another model in a session that has begun costs its cache; so these hold until the next session, as in Claude Code."""


class TrustQuestion(Struct, frozen=True):
    """A question to the user before a run. `yes` and `no` are the answers' labels; `ids` are what it is about.

    `also`: at most two further answers that are no "no".

    `required`: without a yes there is no run at all.
    """

    about: Literal["folder", "redirects", "run", "notebook", "answer", "recording", "server"]
    title: str
    detail: str
    reason: str
    yes: str
    no: str
    ids: frozenset[str]
    warning: str = ""
    required: bool = False
    also: tuple[str, ...] = ()


NOWHERE = Path(os.devnull)
"""The user's folder of a session that reads nothing of the user's: it holds no file."""


class SettingsInForce:
    """Reads the settings, judges what of them counts, and holds back what came while a run was going on.

    `inline_settings` gives the layers that are in no file (`c.Claude`), the lowest first; it is asked again before each run.
    Files of a user, a project or a checkout count if they are among `scopes`. `trusts_folder`: what the folder brings along
    at the start is trusted as long as this lives.
    """

    def __init__(
        self,
        cwd: Path,
        environ: Mapping[str, str],
        *,
        managed: Path | None = None,
        inline_settings: Callable[[], tuple[InlineSettings, ...]] = tuple,
        scopes: Container[Scope] = SCOPES,
        trusts_folder: bool = False,
        plugin_folders: Sequence[Path] = (),
    ) -> None:
        self.cwd = cwd
        self._plugin_folders = tuple(folder.absolute() for folder in plugin_folders)
        self._scopes = scopes
        self.environ = environ
        # as it was at the start: nothing that runs here changes it
        self._servers_policy = {VARIABLE: environ.get(VARIABLE, "")}
        self._inline_settings = inline_settings
        self._managed = managed
        self._declined: frozenset[str] = frozenset()
        self._suspects: dict[str, SettingsEntry] = {}
        self._lost: dict[str, SettingsEntry] = {}
        self._saved_rules: set[str] = set()
        self._before_run: tuple[SettingsSources, Trust] | None = None
        self._just_read = False
        self._running = False
        self._is_users: Callable[[], bool] = lambda: False
        self._mode_chosen: Callable[[], None] = lambda: None
        self._changed: tuple[Path, ...] = ()
        self._place_made_from: tuple[object, ...] = (None, None, None, None)
        self._place: MemoryPlace
        self._watched_files = WatchedFiles(cwd, environ, managed)
        self._script_places: tuple[Path, ...] = ()
        self._scripts_of_lost: Mapping[str, str] = {}
        self._signature = self._sign()
        self._reading = self._read()
        # as it is at the start: what a run adds is asked about
        self._trusted_for_now = trusted_as_it_is(self._reading, self.environ) if trusts_folder else None
        self._restore_quarantine()
        self._trust = self._judge(self._reading)
        self.settings = self._settle()

    @property
    def environment(self) -> Mapping[str, str]:
        """The process's environment, with what the settings' `env` puts over it."""
        return {**self.environ, **self.settings.env} if self.settings.env else self.environ

    @property
    def program_environment(self) -> Mapping[str, str]:
        """The `environment` of programs: those that plugins bring in `bin` are found last on PATH, and hide no other."""
        path = self.plugin_path
        return ChainMap(path, self.environment) if path else self.environment  # type: ignore[arg-type]  # it is only read

    @property
    def plugin_path(self) -> dict[str, str]:
        """The variable PATH with the folders `bin` of plugins at its end; nothing where no plugin has one."""
        folders = [str(plugin.programs) for plugin in self.plugins.plugins.values() if plugin.programs is not None]
        return {"PATH": os.pathsep.join((self.environment.get("PATH", os.defpath), *folders))} if folders else {}

    @property
    def trust(self) -> Trust:
        """The judgement of the folder: what of it counts, and what waits for the user."""
        return self._trust

    @property
    def scripts(self) -> Mapping[str, str]:
        """The digests of the files that trusted commands of the folder name, by their paths from the project."""
        # a hook that a run took out of the settings goes on to run, with the files that it had
        return {**self._scripts_of_lost, **self._trust.scripts} if self._lost else self._trust.scripts

    @property
    def memory_place(self) -> MemoryPlace:
        """The places of instructions to Claude, and which of the folder's count."""
        # asked for many times with each prompt; where the places are somewhere else, the settings were read anew
        made_from = (self._reading, self._trust, self.settings, self._keeps_notes)
        if all(map(operator.is_, made_from, self._place_made_from)):
            return self._place
        self._place_made_from = made_from
        self._place = MemoryPlace(
            cwd=self._reading.cwd,
            project=self._reading.project,
            users=own_folder(self._reading.project, self.environ) if "user" in self._scopes else NOWHERE,
            managed=administrators_folder() if self._managed is None else self._managed,
            trusted=self._trust.trusted and "project" in self._scopes,
            outside=self._trust.outside,
            excludes=self.settings.claude_md_excludes,
            notes=self.notes_folder,
        )
        return self._place

    @property
    def scopes(self) -> Container[Scope]:
        """The user's, project's and checkout's files that are read."""
        return self._scopes

    @property
    def folder_was_refused(self) -> bool:
        """True when the user was asked to trust the folder and said no, or the administrator does."""
        waiting = {item.id for item in self._trust.waiting if item.gate == "trust"}
        return self._trust.refused or (not self._trust.trusted and bool(waiting & self._declined))

    @property
    def plugins(self) -> PluginsInForce:
        """The plugins that count now, and why others that are switched on do not."""
        settings = self.settings
        return find_plugins(
            settings.enabled_plugins,
            settings.allowed_marketplaces,
            settings.blocked_marketplaces,
            settings.plugin_configs,
            self._plugin_folders,
        )

    @property
    def plugins_of_folder(self) -> frozenset[str]:
        """The ids of plugins that the folder's settings alone switch on."""
        found = self.settings.merged.entries.items()
        return frozenset(
            path[1]
            for path, entries in found
            if path[0] == "enabledPlugins" and len(path) == 2 and all(entry.layer.of_folder for entry in entries)
        )

    @property
    def notes_folder(self) -> Path | None:
        """The folder of Claude's own notes on this project; None where it keeps none."""
        if not self._keeps_notes:
            return None
        return self.settings.auto_memory_directory or notes_folder(main_checkout(self._reading.project))

    @property
    def _keeps_notes(self) -> bool:
        off = self.environ.get("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "").strip() not in ("", "0", "false")
        return self.settings.auto_memory and not off

    @property
    def skill_place(self) -> SkillPlace:
        """The places of skills and commands, and whether the folder's count."""
        place = self.memory_place
        return SkillPlace(
            cwd=place.cwd,
            project=place.project,
            users=place.users,
            managed=place.managed / ".claude",
            trusted=place.trusted,
            built_in=not self.settings.disable_bundled_skills,
            plugins=tuple(self.plugins.plugins.values()),
        )

    def crowded_folders(self) -> list[str]:
        """Say of which folders of rules, skills, agents and styles not all files are taken."""
        place = self.skill_place
        return [
            *crowded_rules(self.memory_place),
            *crowded_skills(place),
            *crowded_agents(place),
            *crowded_styles(place),
        ]

    @property
    def quarantined(self) -> list[str]:
        """The changes made during a run that do not count, each in a line."""
        return [f"new: {describe(entry)}" for entry in self._suspects.values()] + [
            f"gone: {describe(entry)}" for entry in self._lost.values()
        ]

    def refresh(self, *, session_has_begun: bool = False) -> None:
        """Before a run: take over what has changed in the files since they were read. During one it does nothing."""
        if self._running:
            return
        if self._before_run is not None:  # what an earlier run left running may have written since
            self.run_ends()
        signature = self._sign()
        if signature == self._signature:
            self._signature = signature  # of the paths that are watched now: each decision compares them
            return
        before = self.settings
        self._apply(signature)
        if session_has_begun:
            self._keep_unloaded(before)

    def run_begins(
        self,
        is_users: Callable[[], bool] = lambda: False,
        mode_chosen: Callable[[], None] = lambda: None,
        *,
        just_read: bool = False,
    ) -> None:
        """From now on what loosens the settings waits for the user's word, unless `is_users()`.

        `is_users` is asked about a change: whether nothing that Claude started can have made it since the last look.
        `mode_chosen` is called when the user has chosen another mode. `just_read`: they are as they were a moment ago, and
        need no look before `run_answers`: nothing can have come of the run.
        """
        self._just_read = just_read
        self._before_run = (self._reading, self._trust)
        self._running = True
        self._is_users, self._mode_chosen = is_users, mode_chosen

    def run_answers(self) -> None:
        """From now on each look counts."""
        self._just_read = False

    def look(self) -> None:
        """During a run: take over what has changed since the last look."""
        if self._running and not self._just_read:
            self._look(self._is_users)

    @contextlib.contextmanager
    def users_change(self) -> Iterator[None]:
        """While this is entered, the user changes what is in no file; it counts at once, also during a run."""
        self._look(self._is_users if self._running else lambda: False)  # what was there before is judged as ever
        yield
        self._look(lambda: True)

    def _look(self, is_users: Callable[[], bool]) -> None:
        if self._before_run is None:
            return
        # each decision asks: which files there are to be looked at is known, and new ones change their folder
        if self._sign(self._watched) == self._signature:
            return
        signature, reading = self._sign(), self._read()
        if reading.broken and not self._reading.broken:
            return  # somebody writes it at this moment; a run that ends meanwhile says what becomes of it
        users = is_users()
        if not users:
            self._quarantine_new(self._before_run[0], reading, self._before_run[1])
        before = self.settings
        self._apply(signature, reading)
        self._keep_unloaded(before)
        self._before_run = (self._reading, self._trust)
        if self._running and users and self.settings.default_mode != before.default_mode:
            self._mode_chosen()

    def _keep_unloaded(self, before: Settings) -> None:
        kept = {}
        for key, field in NOT_RELOADED.items():
            origins = (*before.origins(key)[-1:], *self.settings.origins(key)[-1:])
            # what files alone said before and say now: what the user says in the kernel counts at once
            if all(origin.scope not in ("config", "environment", "options") for origin in origins):
                kept[field] = getattr(before, field)
        self.settings = replace(self.settings, **kept)

    def run_ends(self, *, goes_on: bool = False) -> None:
        """The run is over. `goes_on`: it left something running, so that what follows is still its doing."""
        self._running = False
        if self._before_run is None:
            return
        before, trust = self._before_run
        if not goes_on:
            self._before_run = None
        signature = self._sign()
        if signature == self._signature:
            return
        reading = self._read()
        self._quarantine_new(before, reading, trust)
        self._apply(signature, reading)

    def question(self) -> TrustQuestion | None:
        """Return what the user has to be asked before the next run; None when nothing is open."""
        new, lost = (
            [entry for id_, entry in held.items() if id_ not in self._declined] for held in (self._suspects, self._lost)
        )
        if new or lost:
            return _run_question(new, lost)
        for gate in ("trust", "confirm"):
            items = [item for item in self._trust.waiting if item.gate == gate]
            if gate == "trust" and items and {item.id for item in items} <= self._declined:
                return None
            if items and not {item.id for item in items} <= self._declined:
                return (
                    _folder_question(self._trust, items) if gate == "trust" else _redirect_question(self._trust, items)
                )
        return None

    def answer(self, question: TrustQuestion, *, yes: bool, chosen: str = "") -> None:
        """The user has answered. Raises CellwrightError FILE_ACCESS_ERROR when a yes cannot be kept."""
        if not yes:
            self._declined |= question.ids
            return
        if question.about == "run":
            for id_ in question.ids:
                self._suspects.pop(id_, None)
                self._lost.pop(id_, None)
            release_from_quarantine(question.ids)
        else:
            accept(self._trust, [item for item in self._trust.waiting if item.id in question.ids])
        self._apply(self._sign())

    def ask_again(self) -> None:
        """A new session begins: what the user has said no to is asked about once more."""
        self._declined = frozenset()

    def save_rules(self, rules: Sequence[str]) -> None:
        """Keep allow rules for this project, as the user said in a question. Raises CellwrightError."""
        save_allow_rules(self._reading.project, rules, self.environ)
        self._saved_rules.update(rules)

    def _sign(self, files: Sequence[Path] = ()) -> tuple[object, ...]:
        self._watched = files = files or (*self._watched_files.find(), *self._script_places, trust_file())
        return (
            (self._inline_settings(), watched_variables(self.environ)),
            *[(file, facts_of(str(file))) for file in files],
        )

    def _read(self) -> SettingsSources:
        return read_all(
            self.cwd,
            {**self.environ, **self._servers_policy},
            managed=self._managed,
            above=self._inline_settings(),
            scopes=self._scopes,
        )

    def _judge(self, reading: SettingsSources) -> Trust:
        trust = judge(reading, self.environ, for_now=self._trusted_for_now)
        self._script_places = trust.watched
        return trust

    def take_changed(self) -> tuple[Path, ...]:
        """The settings files that have changed since this was asked last."""
        changed, self._changed = self._changed, ()
        return changed

    def _apply(self, signature: tuple[object, ...], reading: SettingsSources | None = None) -> None:
        new = [each[0] for each in signature[1:] if isinstance(each, tuple) and each not in self._signature]
        self._changed = tuple(dict.fromkeys((*self._changed, *(file for file in new if file.suffix == ".json"))))
        self._signature = signature
        self._reading = self._read() if reading is None else reading
        self._trust = self._judge(self._reading)
        self.settings = self._settle()

    def _settle(self) -> Settings:
        return settings_of(
            self._reading,
            withheld=self._trust.withheld | self._suspects.keys(),
            kept=tuple(self._lost.values()),
            tool_files=self._trust.tool_files,
            notices=self._trust.notices,
        )

    def _quarantine_new(self, before: SettingsSources, after: SettingsSources, trust: Trust) -> None:
        """Hold back what was written during a run and gives more rights, or takes a restriction away."""
        old, new = ({entry.id: entry for entry in reading.entries} for reading in (before, after))
        withheld = self._judge(after).withheld
        for id_, entry in new.items():
            # what trust holds back is asked about as new in the folder; an answer that nobody asked for is none
            known = id_ in withheld or (id_ in old and id_ not in trust.withheld)
            if not (known or tightens(entry) or self._was_saved(entry)):
                self._suspects[id_] = entry
        changed = {(entry.layer.label, entry.path) for entry in self._suspects.values() if not entry.element}
        for id_, entry in old.items():
            restricts = tightens(entry) or entry.path in _RESTRICTING or entry.path[0] == "hooks"
            if id_ not in new and (restricts or (entry.layer.label, entry.path) in changed):
                self._lost[id_] = entry
                self._scripts_of_lost = {**trust.scripts, **self._scripts_of_lost}
        if self._suspects or self._lost:
            with contextlib.suppress(CellwrightError):  # it holds in this process all the same
                # what runs or is passed on may hold a secret, and nothing of that is written down
                lost = [entry for entry in self._lost.values() if tightens(entry) or entry.path in _RESTRICTING]
                add_to_quarantine(self._suspects, lost)

    def _restore_quarantine(self) -> None:
        """Hold back in this process, too, what an earlier one held back and nobody has answered for."""
        held = read_quarantine()
        here = {entry.id: entry for entry in self._reading.entries}
        files = set(self._watched_files.find())
        self._suspects = {id_: here[id_] for id_ in held.new if id_ in here}
        self._lost = {e.id: e for e in held.gone if e.id not in here and e.layer.file in files}

    def _was_saved(self, entry: SettingsEntry) -> bool:
        return (
            entry.path == ("permissions", "allow") and entry.value in self._saved_rules and entry.layer.scope == "local"
        )


def _folder_question(trust: Trust, items: Sequence[Item]) -> TrustQuestion:
    listed = _listed(item.text for item in items)
    if trust.trusted:
        title = f"Trust the changes in {trust.folder}"
        detail = f"The folder's settings have changed since you trusted it. New or changed:\n{listed}"
    else:
        title = f"Trust the folder {trust.folder}"
        detail = f"This folder contains:\n{listed}"
    return TrustQuestion(
        about="folder",
        title=title,
        detail=detail,
        reason="Hooks, tools and commands of a folder run on your machine with your rights. Trust only folders you know.",
        yes="Trust this folder",
        no="Continue without trusting",
        ids=frozenset(item.id for item in items),
    )


def _redirect_question(trust: Trust, items: Sequence[Item]) -> TrustQuestion:
    return TrustQuestion(
        about="redirects",
        title=f"Let {trust.folder} decide where the conversation goes",
        detail=f"The folder's settings say:\n{_listed(item.text for item in items)}",
        reason="It can send what you write, your files and your API key elsewhere, or run programs of its choice.",
        warning="refuse unless you put it there yourself",
        yes="Use these settings of the folder",
        no="Continue without them",
        ids=frozenset(item.id for item in items),
    )


def _run_question(new: Sequence[SettingsEntry], lost: Sequence[SettingsEntry]) -> TrustQuestion:
    lines = [
        f"{what}: {describe(entry)}\n    in {exact(entry.layer.label)}"
        for what, entries in (("new", new), ("gone", lost))
        for entry in entries
    ]
    return TrustQuestion(
        about="run",
        title="Accept settings that were changed while Claude was working",
        detail=f"They would give Claude more rights than it had:\n{_listed(lines)}",
        reason="Claude cannot loosen its own permissions. Did you change them?",
        yes="Take them over",
        no="Leave them as they were",
        ids=frozenset(entry.id for entry in (*new, *lost)),
    )


def _listed(lines: Iterable[str]) -> str:
    return bulleted(list(lines))
