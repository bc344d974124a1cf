"""The bounds of a command, made of the rules, the session's folders and the settings of the sandbox.

    reading    what runs unasked: reads the session's folders, writes nothing, has no network
    editing    what `acceptEdits` runs unasked: writes in the session's folders besides
    sandboxed  every command where the sandbox is switched on for all

What the sandbox of a machine cannot enforce is never left out of the bounds of what runs unasked: there are none then.
Where one path of a confinement lies in another, the longer one counts: `/p/data/public` of `read` in `/p/data` of `hidden`.
"""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH112, PTH118, PTH119, PTH120, PTH206

from __future__ import annotations

import dataclasses
import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.approval import Confinement, Decision
from cellwright.permissions.confined.git_data import is_ordinary, linked_git_data, steers_git
from cellwright.permissions.judges.files import NOT_SEARCHED
from cellwright.permissions.paths import (
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    SECRET_PLACES,
    folded,
    inside,
    makes_repository,
    protected_part,
)
from cellwright.permissions.rules.rule import EDIT, READ, CompiledRule, RuleBook
from cellwright.permissions.shell.git import read_elsewhere, repository_of
from cellwright.text import lazy_pattern

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix/store", "/etc", "/proc")
"""The folders that every confined command may read, because programs need it; the sandbox adds it by itself."""

PROTECTED_AT_ONCE = (
    *("/.git", "/.claude", "/.mcp.json", "/.vscode", "/.idea", "/.husky", "/.devcontainer", "/.envrc", "/.npmrc"),
    *("/.pre-commit-config.yaml", "/.gitmodules", "/sitecustomize.py", "/.git/hooks", "/.git/config.worktree"),
)
"""At the top of a folder, protected also before it exists: whoever finds it there runs what it says."""


_STEERS_GIT = ("hooks", "config", "config.worktree", "commondir", "gitdir", "modules", "info/attributes")
"""Names that steer git in the folder of a repository's data: writing them is refused as soon as a command tries."""


_ENVIRON = lazy_pattern(r"/proc/[^/]+/(task/[^/]+/)?environ")


def reading(book: RuleBook, besides: Sequence[str] = ()) -> Confinement | None:
    """The bounds of a command that runs unasked, which may read `besides` too; None where they cannot be enforced."""
    return _enforceable(book, _reading(book, besides))


def editing(book: RuleBook, besides: Sequence[str], written: Sequence[str] | None) -> Confinement | None:
    """The bounds of a command that may change files of the session's folders; None where they cannot be enforced.

    `written` are the paths of all that it changes: a sandbox that cannot protect places bounds it to the folders of these.
    None where they show only when it runs: then each is judged before it is changed.
    """
    return _enforceable(book, _editing(book, besides, written))


def sandboxed(book: RuleBook, besides: Sequence[str] = ()) -> Confinement | None:
    """The bounds in which any command runs unasked where the sandbox is on for all; None where they cannot be enforced."""
    abilities = book.sandbox.abilities
    if abilities is None or not abilities.protects_patterns:
        return None
    return _enforceable(book, _sandboxed(book, besides, unasked=True))


def allowed(book: RuleBook) -> Confinement | None:
    """The bounds of a command that somebody has allowed, where the sandbox is on for all; None for no bounds.

    It may read all but what is hidden. What cannot be enforced is left out: it is none that a person's yes should fail by.
    """
    full = _sandboxed(book, unasked=False) if book.sandbox.enabled else None
    if full is None:
        return None
    without_patterns = dataclasses.replace(full, hides=None)
    without_hidden = dataclasses.replace(without_patterns, hidden=())
    least = dataclasses.replace(without_hidden, protected=())
    tried = [full, without_patterns, without_hidden]
    if full.protected:  # with too many places to mount, those of the usual names are left
        usual = (*book.sandbox.deny_write, *_expected_places(book, _protects_in_sandbox(book), there=True))
        tried.append(dataclasses.replace(without_hidden, protected=usual))
    return next((each for each in tried if not _why_not(book, each)), least)


def within_allowed(book: RuleBook, decision: Decision) -> Decision:
    """`decision` with the bounds that `allowed` gives; where not even those can be enforced it asks, or denies."""
    confinement = allowed(book)
    if confinement is None or decision.behavior == "deny":
        return decision
    why = _why_not(book, confinement)
    if not why:
        if confinement.container is not None:  # beside the reason that people read, too
            decision = decision.because(f"{decision.reason} It runs in the container {confinement.container.name}.")
        return replace(decision, confinement=confinement)
    reason = f"Every command is to be confined, and the sandbox cannot confine this one: {why}."
    if not book.sandbox.allow_unsandboxed:
        return Decision("deny", reason)
    asked = f"{decision.reason} " if decision.behavior == "ask" else ""
    return decision.because(f"{asked}{reason} If you allow it, it runs outside the sandbox.", behavior="ask")


def why_not_unasked(book: RuleBook, besides: Sequence[str] = ()) -> str:
    """Say why what runs unasked cannot be held to its bounds; "" where it can, or this sandbox never can."""
    made = _sandboxed(book, besides, unasked=True) if book.sandbox.enabled else _reading(book, besides)
    return "" if made is None else _why_not(book, made)


def _enforceable(book: RuleBook, confinement: Confinement | None) -> Confinement | None:
    return None if confinement is None or _why_not(book, confinement) else confinement


def _why_not(book: RuleBook, confinement: Confinement) -> str:
    # bounds that are equal have the same patterns, if any: they are those of the rules
    key = (confinement, confinement.hides is None, confinement.protects is None)
    return book.once(key, lambda: book.sandbox.why_not(confinement))


def _reading(book: RuleBook, besides: Sequence[str]) -> Confinement | None:
    read = _readable(book, (*book.folders, *book.readable, *besides))
    hidden = _hidden(book, read)
    if hidden is None:
        return None
    return Confinement(read=read, hidden=hidden.places, hides=hidden.by_rules, container=book.sandbox.container)


def _editing(book: RuleBook, besides: Sequence[str], written: Sequence[str] | None) -> Confinement | None:
    bounds = _reading(book, besides)
    abilities = book.sandbox.abilities
    if bounds is None or abilities is None or (written is None and not abilities.protects_patterns):
        return None
    protects = _Protects(_edit_rules(book))
    if written is None:
        protected = (*book.sandbox.deny_write, *_expected_places(book, protects, there=True))
        return dataclasses.replace(bounds, write=book.folders, protected=protected, protects=protects)
    if not abilities.protects:
        folders = tuple(dict.fromkeys(_folder_of(path, book.folders) for path in written))
        return dataclasses.replace(bounds, write=folders, metadata=True) if folders else None
    places = book.once(protects, lambda: _protected_places(book, protects))
    return None if places is None else dataclasses.replace(bounds, write=book.folders, protected=places)


def _sandboxed(book: RuleBook, besides: Sequence[str] = (), *, unasked: bool) -> Confinement | None:
    # who has allowed a command is not refused what this kind of sandbox cannot enforce
    abilities = book.sandbox.abilities
    if abilities is None or (unasked and not abilities.protects):
        return None
    container = book.sandbox.container
    # with all to be read, a file outside is none that a question could have been about; a container has its own `/`
    read = _readable(book, (*book.folders, *book.readable, *besides) if unasked or container else ("/",))
    hidden = _hidden(book, read)
    if hidden is None:
        if unasked:
            return None
        hidden = _Hidden()
    git = _repositories(book)
    write = (*book.folders, *git, *book.sandbox.allow_write)
    protects = _protects_in_sandbox(book) if abilities.protects else None
    if unasked and protects is not None:
        # judged before it is made: a mount holds only what is there, and names that are known
        protected = (*book.sandbox.deny_write, *_expected_places(book, protects, there=True))
    elif protects is not None:
        found = book.once(protects, lambda: _protected_places(book, protects))
        # with more files than can be looked through
        protected = tuple(book.sandbox.deny_write) if found is None else found
    else:
        protected = ()
    return Confinement(
        read=read,
        write=tuple(dict.fromkeys(write)),
        hidden=hidden.places,
        hides=hidden.by_rules,
        protected=protected,
        protects=protects if unasked else None,
        admits=protects.admits if unasked and protects is not None else None,
        unstaged=_beside(book.sandbox.allow_write, (*book.folders, *git)) if unasked else (),
        hosts=tuple(book.sandbox.allowed_hosts) if abilities.hosts else None,
        denied_hosts=tuple(book.sandbox.denied_hosts),
        asked_hosts=tuple(book.sandbox.asked_hosts),
        asks_hosts=book.sandbox.ask_hosts,
        # a bound that cannot be kept is none that a person's yes should fail by
        any_host=container.network if container else not abilities.hosts and not unasked,
        container=container,
        keeps_installed=container is not None and not unasked,
    )


def may_read(book: RuleBook, place: str) -> bool:
    """Return whether the absolute `place` is among what `reading` lets a command read, or nothing that is there."""
    folders = (*book.folders, *book.readable, *book.sandbox.allow_read)
    if inside(place, folders) or not os.path.lexists(place):
        return True
    if _ENVIRON.fullmatch(place):
        return False  # a process's variables, all of them
    return not book.blocks_reads and (inside(place, (*SYSTEM_FOLDERS, *_environment())) or place.startswith("/dev/"))


def git_folders(book: RuleBook, folders: Iterable[str]) -> tuple[str, ...] | None:
    """Find what git reads besides `folders`: repositories from the top, and their data; None where it is too much.

    That is a repository that holds the home, and what leads out of the session's folders.
    """
    tops = dict.fromkeys(filter(None, map(repository_of, folders)))
    if inside(_home(os.path.expanduser("~")), tops):
        return None  # somebody keeps a home in git: all of it would be shown
    if any(read_elsewhere(top, (book.cwd, *book.folders, *book.readable)) for top in tops):
        return None
    return tuple(folder for top in tops for folder in (top, *_git_data(top)))


class _HiddenByRules(Struct, frozen=True):
    """The files that rules deny or ask for: called with a path, whether it is one of them."""

    rules: tuple[CompiledRule, ...]
    last_name: re.Pattern[str]

    def __call__(self, path: str) -> bool:
        # most names are no rule's last one: only of the others is the whole path looked at
        if not self.last_name.match(folded(os.path.basename(path))):
            return False
        return any(rule.covers_place((path,)) for rule in self.rules)


class _Hidden(Struct, frozen=True):
    """The files that must not be read: places, and what rules name by patterns."""

    places: tuple[str, ...] = ()
    by_rules: _HiddenByRules | None = None


class _Protects(Struct, frozen=True):
    """The files that nobody changes unasked: called with a path, whether it is one.

    `git_in`: the session's folders and those of its repositories' data, where git's ordinary work changes none; empty if
    all of `.git` is protected.
    """

    rules: tuple[CompiledRule, ...]
    git_in: tuple[str, ...] = ()

    def __call__(self, path: str) -> bool:
        return self._by_name(path) or self._by_rule(path)

    def admits(self, path: str, made: str) -> bool:
        """Return whether `path`, which is protected, may be made after all, because of what the file `made` holds."""
        if not self.git_in or self._by_rule(path) or protected_part(path) != ".git":
            return False
        return is_ordinary(path, made, self.git_in)

    def _by_name(self, path: str) -> bool:
        part = protected_part(path)
        if part == ".git" and self.git_in:
            return steers_git(path)
        return part is not None or makes_repository(path)

    def _by_rule(self, path: str) -> bool:
        return any(rule.covers_place((path,)) for rule in self.rules)


def _readable(book: RuleBook, folders: Iterable[str]) -> tuple[str, ...]:
    """`folders` less those that the settings hide as a whole, and what they show of what they hide."""
    denied, shown = book.sandbox.deny_read, book.sandbox.allow_read
    kept = (folder for folder in folders if not inside(folder, denied) or inside(folder, shown))
    return tuple(dict.fromkeys((*kept, *shown)))


def _hidden(book: RuleBook, read: Sequence[str]) -> _Hidden | None:
    """Find what is hidden of `read` and of the system's folders; None where the sandbox cannot hide it."""
    abilities = book.sandbox.abilities
    if abilities is None:
        return None
    rules = _hiding_rules(book, (*read, *SYSTEM_FOLDERS, *_environment()))
    # what is readable was meant to be read, although it lies in something that is hidden
    denied = tuple(place for place in book.sandbox.deny_read if not any(inside(folder, [place]) for folder in read))
    places = (*denied, *_secret_places(read))
    if (rules or places) and not abilities.hides:
        return None
    last_names = re.compile("|".join(rule.path.last_name for rule in rules if rule.path))
    return _Hidden(places, _HiddenByRules(rules, last_names) if rules else None)


def _hiding_rules(book: RuleBook, folders: Sequence[str]) -> tuple[CompiledRule, ...]:
    """The rules about files in any of `folders` that may not be read, or not unasked."""
    about = (*book.about("deny", READ), *book.about("ask", READ))
    return tuple(rule for rule in about if rule.path and any(map(rule.path.may_match_below, folders)))


def _secret_places(read: Sequence[str]) -> tuple[str, ...]:
    """The secrets' places below any of `read` that are there: what runs confined makes none."""
    starts = tuple(folder if folder.endswith(os.sep) else folder + os.sep for folder in read)
    secrets = _secrets(_home(os.path.expanduser("~")))
    return tuple(place for place in secrets if place.startswith(starts) and os.path.lexists(place))


def _beside(places: Iterable[str], folders: Sequence[str]) -> tuple[str, ...]:
    """Return those of `places` that hold none of `folders`."""
    real = [os.path.realpath(folder) for folder in folders]
    return tuple(place for place in places if not any(inside(folder, [os.path.realpath(place)]) for folder in real))


def _protects_in_sandbox(book: RuleBook) -> _Protects:
    return _Protects(
        _edit_rules(book), git_in=tuple(dict.fromkeys(map(os.path.realpath, (*book.folders, *_repositories(book)))))
    )


def _repositories(book: RuleBook) -> tuple[str, ...]:
    """The folders of the data of the repositories that the session's folders are in."""
    tops = dict.fromkeys(filter(None, map(repository_of, book.folders)))
    data = ((os.path.join(top, ".git"), *_git_data(top)) for top in tops)
    return tuple(dict.fromkeys(folder for folders in data for folder in folders if os.path.isdir(folder)))


def _edit_rules(book: RuleBook) -> tuple[CompiledRule, ...]:
    return tuple(rule for rule in (*book.about("deny", EDIT), *book.about("ask", EDIT)) if rule.path)


def _protected_places(book: RuleBook, protects: _Protects) -> tuple[str, ...] | None:
    """Find what is protected below the session's folders: what is there, and the names that matter most before they are.

    None where the folders are too large to know.
    """
    found = dict.fromkeys((*book.sandbox.deny_write, *_expected_places(book, protects, there=False)))
    count = 0
    for folder in {os.path.realpath(folder) for folder in book.folders}:
        for here, folders, files in os.walk(folder):
            count += len(folders) + len(files)
            # names looked at for what is protected; in larger folders it is not known
            if count > 5_000:
                return None
            here_protected = {name for name in (*folders, *files) if protects(os.path.join(here, name))}
            # whoever allows an installation means its programs, too
            here_protected -= {".bin"}
            if protects.git_in and ".git" in folders:
                steering = (os.path.join(here, ".git", name) for name in _STEERS_GIT)
                found.update(dict.fromkeys(filter(os.path.lexists, steering)))
            found.update(dict.fromkeys(os.path.join(here, name) for name in here_protected))
            folders[:] = [name for name in folders if name not in here_protected and name not in NOT_SEARCHED]
    return tuple(found)


def _expected_places(book: RuleBook, protects: _Protects, *, there: bool) -> Iterator[str]:
    """Yield what is protected and known by its name in the session's folders; with `there`, only what is there."""
    names = [*PROTECTED_FOLDERS, *(name for name in PROTECTED_FILES if "*" not in name)]
    home = _home(os.path.expanduser("~"))
    data = _repositories(book) if protects.git_in else ()
    places = [os.path.join(folder, name) for folder in book.folders for name in names]
    places += [os.path.join(folder, name) for folder in data for name in _STEERS_GIT]
    for place in places:
        at_once = not there and (place.endswith(PROTECTED_AT_ONCE) or os.path.dirname(place) == home)
        if (at_once or os.path.lexists(place)) and protects(place):
            yield place


def _folder_of(path: str, tops: Sequence[str]) -> str:
    """The folder that what is at `path` is in, or the nearest above it that is there; one of `tops` is in none."""
    folder = path
    while folder not in tops and folder != os.sep and (folder == path or not os.path.isdir(folder)):
        folder = os.path.dirname(folder)
    return folder


def _git_data(top: str) -> tuple[str, ...]:
    """The folder of the data of the repository at `top`, if it lies elsewhere and names `top` as its work tree."""
    data = linked_git_data(os.path.join(top, ".git"))
    # what is protected in a repository's data is known by the name `.git`
    return (data,) if ".git" in data.split(os.sep) else ()


@functools.lru_cache(maxsize=4)
def _home(spelling: str) -> str:
    return os.path.realpath(spelling)


@functools.lru_cache(maxsize=4)
def _secrets(home: str) -> tuple[str, ...]:
    return tuple(os.path.join(home, name) for name in SECRET_PLACES)


@functools.cache
def _environment() -> tuple[str, ...]:
    """The environment that we run in, which every command may read."""
    return tuple(dict.fromkeys(os.path.realpath(folder) for folder in (sys.prefix, sys.base_prefix)))
