"""Judging a shell command that the operating system can bound: what runs unasked in bounds, and within which.

`docs/decisions/order-of-evaluation.md` says where in the order this stands.
"""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH112, PTH118, PTH120

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from cellwright.agent.calls.approval import Confinement, Decision
from cellwright.permissions.confined import bounds
from cellwright.permissions.confined.command_use import CommandUse, command_use
from cellwright.permissions.confined.program_use import NEEDS_DEVICES, made_protected
from cellwright.permissions.judges.files import judge_path, protected_among, protected_change
from cellwright.permissions.judges.simple_command import is_inside
from cellwright.permissions.paths import PathProblem, inside, normalised, places
from cellwright.permissions.rules.command_pattern import RestrictedCommand
from cellwright.permissions.rules.rule import BYPASSED, EDIT, RuleBook
from cellwright.permissions.shell.command_paths import is_harmless, paths_named, places_named, starts_at
from cellwright.permissions.shell.conservative_parse import parse_conservatively
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from cellwright.permissions.judges.shell_call import ShellCall

UNCONFINED = "dangerouslyDisableSandbox"
"""Claude Code's field of Bash's input by which Claude asks to run a command without the sandbox."""


_GLOB = lazy_pattern(r"[*?\[]")
_OPERATORS = lazy_pattern(r"[^\w\s./:=@%+,*?~-]|[\n\r]")
_OTHERS_HOME = lazy_pattern(r"~[^/]")
_BASH_RULE = lazy_pattern(r"Bash\((?P<pattern>.*)\)", re.DOTALL)


def confinable(book: RuleBook, call: ShellCall, tool_input: Mapping[str, Any]) -> ConfinableCommand | None:
    """The command as one that can be confined; None where there is no sandbox for it."""
    rules = book.sandbox
    if rules.abilities is None or (book.mode == "bypassPermissions" and not rules.enabled):
        return None
    if rules.excluded and _is_excluded(rules.excluded, command_use(call.command)):
        return None
    wants_none = tool_input.get(UNCONFINED) is True and rules.allow_unsandboxed
    return ConfinableCommand(book, call, wants_none, background=tool_input.get("run_in_background") is True)


def _is_excluded(rules: Sequence[str], command: CommandUse) -> bool:
    """Return whether a program is excluded, and everything beside it is, too, or only reads.

    What a rule allows to run confined does not get out by standing beside it (`false && docker ps; make`).
    """
    patterns = [_excluded(rule) for rule in rules]

    def is_excluded(text: str) -> bool:
        # nothing in its words is another command
        rough = parse_conservatively(_OPERATORS.sub("_", text))
        return any(pattern.touches(rough) for pattern in patterns)

    named = [is_excluded(program.text) for program in command.programs]
    beside = (program for program, excluded in zip(command.programs, named, strict=True) if not excluded)
    return any(named) and all(program.use == "reads" for program in beside)


@lru_cache(maxsize=256)
def _excluded(rule: str) -> RestrictedCommand:
    found = _BASH_RULE.fullmatch(rule.strip())
    return RestrictedCommand.read(found["pattern"] if found else rule)


@dataclass(frozen=True)
class ConfinableCommand:
    """A command for which there is a sandbox, and what may run in it. `unconfined`: Claude asks to run it without.

    `background`: it outlives its call, so nobody waits for its end, and what it changes cannot wait for that either.
    """

    book: RuleBook
    call: ShellCall
    unconfined: bool
    background: bool = False

    @cached_property
    def reading(self) -> Confinement | None:
        """The bounds in which it runs unasked because all its programs read; None where they do not."""
        use = self._use
        if use.use != "reads" or self.call.problem or not self._is_readable(use):
            return None
        besides = self._repositories(runs_git=use.runs_git)
        return None if besides is None else bounds.reading(self.book, besides)

    @cached_property
    def trial(self) -> Confinement | None:
        """The bounds for reading in which a command that may do anything is tried unasked; None if it is not tried."""
        use = self._use
        if not self._may_be_tried or use.changes:
            return None
        besides = self._repositories(runs_git=use.runs_git)
        return None if besides is None else bounds.reading(self.book, besides)

    @property
    def is_tried_reading(self) -> bool:
        """True if it is tried in bounds for reading, unless a rule allows it."""
        return self.trial is not None and self._editing is None and self._in_sandbox is None

    @property
    def _may_be_tried(self) -> bool:
        use = self._use
        # what goes on in the background would be refused when nobody waits for it any more
        waits = not (self.background or self.unconfined or use.stays)
        if not (self.book.trials and waits and use.use == "runs") or self.call.problem or not self._is_readable(use):
            return False
        return not self._made_protected  # it would fail, or its work be thrown away

    @property
    def _stages(self) -> bool:
        """True if the mode lets it change files, and the sandbox looks at each change before it is made."""
        abilities = self.book.sandbox.abilities
        return self.book.mode == "acceptEdits" and abilities is not None and abilities.protects_patterns

    @property
    def is_auto_allowed(self) -> bool:
        """True where the settings say that what is confined needs no question, and this can be."""
        return self._in_sandbox is not None

    def asked(self, question: Decision) -> Decision:
        """The question with the bounds in which the command runs when it is answered with yes."""
        if not self.book.sandbox.enabled:
            return question
        if self.unconfined:
            return question.because(f"{self._wish} {question.reason}")
        return bounds.within_allowed(self.book, question)

    def decided(self, unconfined: Decision, *, looks: bool) -> Decision:
        """The decision, where rules, the mode and what the command is known to do say `unconfined` of it.

        `looks`: it is known to only read and print.
        """
        if unconfined.behavior == "deny":
            return unconfined
        by_user = bool(unconfined.rule) or unconfined is BYPASSED
        if self.unconfined:
            return self._without_sandbox(unconfined, by_user=by_user)
        if unconfined.behavior == "allow":
            known = None if by_user else self._known(looks=looks)
            return self.asked(unconfined) if known is None else replace(unconfined, confinement=known)
        if self.reading is not None:
            # what it would do is not known for certain, only that it cannot
            return Decision("allow", f"It can change nothing, confined by {self._name}.", confinement=self.reading)
        if (editing := self._editing) is not None:
            reason = f"Mode Accept edits allows changes in the session's folders, confined by {self._name}."
            return Decision("allow", reason, confinement=editing, trial=self._use.use == "runs")
        if self._in_sandbox is not None and not unconfined.firm:
            return Decision(
                "allow", f"The sandbox is on: it is confined by {self._name}.", confinement=self._in_sandbox
            )
        if self.trial is not None and not unconfined.firm:
            reason = f"It is tried without being able to change anything, confined by {self._name}."
            return Decision("allow", reason, confinement=self.trial, trial=True)
        why = "" if unconfined.firm else self._why_it_asks
        return self.asked(unconfined.because(f"{unconfined.reason}{why}") if why else unconfined)

    def _without_sandbox(self, unconfined: Decision, *, by_user: bool) -> Decision:
        if unconfined.behavior == "allow" and by_user:
            return unconfined
        confined = self.reading is not None or self._use.use == "runs" or self.book.sandbox.enabled
        if unconfined.behavior == "allow" or confined:
            asks = unconfined.reason if unconfined.behavior == "ask" else "Confined it would need no question."
            return unconfined.because(f"{self._wish} {asks}", behavior="ask")
        return unconfined

    @property
    def _wish(self) -> str:
        return f"Claude asks to run it unconfined, without {self._name}."

    @property
    def _name(self) -> str:
        abilities = self.book.sandbox.abilities
        return "the sandbox" if abilities is None else f"the sandbox ({abilities.name})"

    @property
    def _use(self) -> CommandUse:
        return command_use(self.call.command)

    @property
    def _why_it_asks(self) -> str:
        """The sentence to add to the question where the command would run unasked, had the sandbox its usual powers here."""
        rules, use = self.book.sandbox, self._use
        if self.book.mode == "plan" or self.call.problem or not self._is_readable(use):
            return ""
        reads = use.use == "reads" or (self._may_be_tried and not use.changes)
        if not (use.is_readable and rules.auto_allow if rules.enabled else reads):
            return ""
        if self.background and rules.enabled:
            return " It runs in the background, so its changes cannot be checked before they are made."
        if rules.enabled and (made := self._made_protected):
            return f" It makes protected files ({made}): each change of them needs your approval."
        besides = self._repositories(runs_git=rules.enabled or use.runs_git)
        why = "" if besides is None else bounds.why_not_unasked(self.book, besides)
        return f" Confined it would need no question, but {self._name} cannot enforce that here: {why}." if why else ""

    @cached_property
    def _in_sandbox(self) -> Confinement | None:
        """The bounds in which any command runs unasked; None where none does, or it cannot be read."""
        rules = self.book.sandbox
        if not (rules.enabled and rules.auto_allow) or self.unconfined or self.book.mode == "plan":
            return None
        if self.background:
            return None  # what it changes has to be there while it runs, and nobody has judged it by then
        if self._made_protected:
            return None  # a question is better than work that is thrown away at its end
        if not self._use.is_readable or not self._is_readable(self._use):
            return None
        besides = self._repositories(runs_git=True)
        return None if besides is None else bounds.sandboxed(self.book, besides)

    @cached_property
    def _made_protected(self) -> str:
        """The protected files that the command is known to make or change; "" if none is known."""
        for program in self._use.programs:
            name, *arguments = program.text.split(" ") if program.use != "reads" else ("",)
            if found := made_protected(name.rpartition("/")[2], arguments):
                return found
        starts = starts_at(self.call.folders)
        return next(filter(None, (protected_change(places_named(path, starts) or ()) for path in self._written())), "")

    def _known(self, *, looks: bool) -> Confinement | None:
        """The bounds of a command of which all is known that it reads and writes, and allowed without a rule for it.

        None: those of what somebody has allowed, if any.
        """
        parts = self.call.parts
        programs = {part.words[0].text for part in parts if part.words}
        repositories = self._repositories(runs_git="git" in programs)
        if repositories is None or not programs.isdisjoint(NEEDS_DEVICES):
            return None
        besides = (*repositories, *self._named_outside())
        if looks:
            return bounds.reading(self.book, besides)
        written = [normalised(path) for path in self._written()]
        if self.book.mode == "acceptEdits" and all(is_inside(self.book, path) for path in written):
            return bounds.editing(self.book, besides, written)
        return None  # a rule for files lets it write elsewhere

    def _named_outside(self) -> Iterator[str]:
        """Yield the places beyond the session's folders that it may read by a rule for files."""
        for part in self.call.parts:
            for access in part.accesses:
                for path in paths_named(access.word, part.command.folders) or ():
                    if not is_inside(self.book, path):
                        yield from places(path, "/")
            for redirect in part.command.redirects:
                if redirect.reads:
                    yield from paths_named(redirect.target, part.command.folders) or ()
            yield from (folder for folder in part.command.folders or () if not inside(folder, self.book.folders))

    def _written(self) -> Iterator[str]:
        for part in self.call.parts:
            words = [access.word for access in part.changed or () if access.use == "Edit"]
            words += [redirect.target for redirect in part.command.redirects if redirect.writes]
            for word in words:
                yield from (path for path in paths_named(word, part.command.folders) or () if not is_harmless(path))

    def _repositories(self, *, runs_git: bool) -> Sequence[str] | None:
        """Find what git reads besides the session's folders; None where that is more than a project."""
        return bounds.git_folders(self.book, {self.book.cwd, self.call.folder}) if runs_git else ()

    def _is_readable(self, use: CommandUse) -> bool:
        """Return whether all that the command names and that is there can be read in bounds; else a question is better."""
        if not inside(self.call.folder, self.book.folders) and not bounds.may_read(self.book, self.call.folder):
            return False
        # for how many words one counts that names a user: there may be many on a server
        looked_up = sum(20 if _OTHERS_HOME.match(word) else 1 for word in use.words)
        # words looked up on the disk, counted for each folder that they may be meant from: what names more asks
        if looked_up * len(self.call.folders) > 2_000:
            return False
        return all(bounds.may_read(self.book, place) for word in use.words for place in self._places(word))

    def _places(self, word: str) -> Iterator[str]:
        name = word.partition("=")[2] if word.startswith("-") else word
        if found := _GLOB.search(name):
            name = os.path.dirname(name[: found.start()])
        if not name or name == "/" or len(name) > 1000 or "\n" in name or "\0" in name:
            return
        for folder in self.call.folders:
            path = os.path.join(folder, os.path.expanduser(name))
            if os.path.lexists(path) and not is_harmless(path):
                yield normalised(path)
                yield os.path.realpath(path)

    @cached_property
    def _editing(self) -> Confinement | None:
        """The bounds in which it runs unasked because it changes files of the session's folders; None where it does not."""
        book, use = self.book, self._use
        if not self._stages:
            return None  # a name that shows only when it runs may be a protected one
        if use.use == "unknown" or self.call.problem or not self._is_readable(use):
            return None
        if use.use == "runs" and not self._may_be_tried:
            return None
        starts = starts_at(self.call.folders)
        if len(use.targets) * len(starts) > 100 or not self.call.all_names:
            return None
        # code that is tried may name what it only reads
        if use.changes and any(protected_among(places_named(name, starts) or ()) for name in self.call.names):
            return None
        try:
            if use.changes and not all(self._may_change(word) for word in use.words):
                return None
            if not all(map(self._may_write, use.targets)):
                return None
        except PathProblem:  # a word that names no place
            return None
        besides = self._repositories(runs_git=use.runs_git)
        return None if besides is None else bounds.editing(book, besides, None)

    def _may_change(self, word: str) -> bool:
        """Return whether `word` names nothing outside of the session's folders that could be changed."""
        path = os.path.expanduser(word)
        if not (path.startswith("/") or ".." in path.split("/")) or is_harmless(path):
            return True
        for folder in self.call.folders:
            place = os.path.join(folder, path)
            named = os.path.lexists(place) or os.path.isdir(os.path.dirname(place.rstrip("/")) or "/")
            if named and os.path.dirname(place) != "/" and not is_inside(self.book, place):
                return False
        return True

    def _may_write(self, target: str) -> bool:
        path = os.path.expanduser(target)
        return all(
            judge_path(self.book, EDIT, os.path.join(folder, path)).behavior == "allow" for folder in self.call.folders
        )
