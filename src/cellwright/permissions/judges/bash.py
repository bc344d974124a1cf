"""Judging a Bash command: what restricts looks at everything it might run, what allows at each simple command of it.

A rule that denies or asks is compared with a rough reading that takes rather too much for a command
(`permissions/shell/conservative_parse.py`), one that allows with a careful one that takes nothing for granted
(`permissions/shell/analysis.py`).
"""

# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH118
from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal

from msgspec import structs

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.judges.files import judge_path
from cellwright.permissions.judges.shell_call import (
    MAX_FOLDERS,
    ShellCall,
    changes_anything,
    changes_in_background,
    settled_parts,
    shell_call,
)
from cellwright.permissions.judges.simple_command import (
    ALLOWED,
    LOOKS,
    CommandFacts,
    against_names,
    against_patterns,
    against_writes,
    changes,
    granting_rule,
    is_inside,
    is_understood,
    judge_made_unseen,
    judge_part,
    needs_approval,
    only_looks,
    restricted_use,
    writes_files,
)
from cellwright.permissions.rules.rule import (
    BASH,
    BYPASSED,
    LIST,
    READERS,
    CompiledRule,
    RuleBook,
    allowed_by,
    asked_by,
    denied_by,
    denied_by_plan,
)
from cellwright.permissions.shell.analysis import MOVERS, STANDARD_ERROR
from cellwright.permissions.shell.command_paths import (
    git_words,
    hidden_by,
    is_harmless,
    may_show,
    places_named,
    shown_whole,
    starts_at,
)
from cellwright.permissions.shell.conservative_parse import SHELLS, ConservativeParse
from cellwright.permissions.shell.critical_deletes import DELETERS, EMPTIERS, critical_delete
from cellwright.permissions.shell.reading import MAX_LENGTH
from cellwright.text import lazy_pattern, unseen_characters, visible_line

if TYPE_CHECKING:
    from cellwright.permissions.judges.confined import ConfinableCommand

_NOT_FIXED = lazy_pattern(r"[$`*?\[~]")

Known = dict[str, tuple[str, ...] | None]
"""The places of the names that were looked up for this decision."""


class Cause(IntEnum):
    """The effects of a command that need the user's approval, the weakest first."""

    APPROVAL = 0
    WRITES = 1
    UNKNOWN = 2
    NETWORK = 3
    DESTROYS = 4


_DESTROYERS = frozenset(
    {*DELETERS, *EMPTIERS, "dd", "mkfs", "fdisk", "parted", "wipefs", "blkdiscard"}
    | {"kill", "pkill", "killall", "reboot", "shutdown", "poweroff", "userdel"}
)
_CONNECTS = frozenset(
    {"curl", "wget", "aria2c", "http", "https", "ftp", "sftp", "lftp", "ssh", "scp", "rsync", "rclone", "nc", "ncat"}
    | {"netcat", "socat", "telnet", "gh", "glab", "aws", "gcloud", "az", "psql", "mysql", "twine", "ollama"}
    | {"apt", "apt-get", "brew", "conda", "mamba", "npm", "npx", "pip", "pip3", "pnpm", "uv", "uvx", "yarn"}
)
_RUNS_CODE = frozenset(
    {*SHELLS, "python", "python3", "ipython", "pypy3", "perl", "ruby", "node", "deno", "bun", "php", "lua", "Rscript"}
    | {"julia", "awk", "make", "eval", "source", ".", "env", "xargs", "pytest", "sudo"}
)
_GIT_DESTROYS = (("clean",), ("reset", "--hard"), ("push", "--force"), ("push", "-f"), ("checkout", "--"), ("rm",))
_GIT_CONNECTS = frozenset({"clone", "fetch", "pull", "push", "submodule"})


def cause(facts: CommandFacts) -> Cause:
    """Say what a simple command may do, as far as its words tell."""
    program = facts.words[0] if facts.words else None
    arguments = [word.text for word in facts.words[1:]]
    name = program.text.rpartition("/")[2] if program is not None else ""
    if name in _DESTROYERS or (name == "find" and "-delete" in arguments):
        return Cause.DESTROYS
    if name == "git":
        if any(all(word in arguments for word in words) for words in _GIT_DESTROYS):
            return Cause.DESTROYS
        if _GIT_CONNECTS.intersection(arguments):
            return Cause.NETWORK
    if name in _CONNECTS:
        return Cause.NETWORK
    if program is not None and (program.dynamic or facts.gets_more or "/" in program.text or name in _RUNS_CODE):
        return Cause.UNKNOWN
    return Cause.WRITES if facts.changed is not None or writes_files(facts) else Cause.APPROVAL


def strongest(asked: Iterable[tuple[CommandFacts, Decision]]) -> Decision | None:
    """The decision to ask with: one that no mode waves through first, then the strongest cause; None without any.

    People read of the other parts, too.
    """
    asking = [(facts, decision) for facts, decision in asked if decision.behavior == "ask"]
    if not asking:
        return None
    ranked = sorted(asking, key=lambda each: (each[1].firm, cause(each[0])), reverse=True)
    return structs.replace(ranked[0][1], for_people=_reasons(ranked))


MAX_SAID = 6
"""Of more programs, or reasons, the rest is counted."""


def _reasons(ranked: Sequence[tuple[CommandFacts, Decision]]) -> str:
    """Say every reason once; programs that only need approval are named in one sentence."""
    plain = [bool(facts.words) and decision.reason == needs_approval(facts) for facts, decision in ranked]
    named = (visible_line(facts.words[0].text) for (facts, _), is_plain in zip(ranked, plain, strict=True) if is_plain)
    programs = [f"`{name}`" for name in dict.fromkeys(named)]
    if len(programs) > MAX_SAID:
        programs[MAX_SAID:] = [f"{len(programs) - MAX_SAID} more"]
    running = f"Running {' and '.join(filter(None, (', '.join(programs[:-1]), *programs[-1:])))} needs your approval."
    said = dict.fromkeys(
        running if is_plain else decision.reason for (_, decision), is_plain in zip(ranked, plain, strict=True)
    )
    more = [f"{len(said) - MAX_SAID} more reasons."] if len(said) > MAX_SAID else []
    return " ".join([*list(said)[:MAX_SAID], *more])


def judge_command(book: RuleBook, tool_input: Mapping[str, Any]) -> Decision:
    """Judge whether a shell command may run. `tool_input` is Bash's, with the fact "cwd": its shell's folder."""
    call = shell_call(book, tool_input)
    known: Known = {}
    if denied := _restricted_start(book, call, "deny") or _denied(book, call, known):
        return denied
    looks = bool(call.parts) and all(only_looks(book, part) for part in call.parts)
    command = _confinable(book, call, tool_input)
    reads = not looks and command is not None and command.reading is not None
    confined = reads or (not looks and command is not None and _is_tried(book, call, command, known))
    if book.mode == "plan" and not (looks or confined):
        return denied_by_plan(BASH)
    asked = _restricted_start(book, call, "ask") or _asked(book, call, known, command, looks=looks or confined)
    if asked := asked or _shows_hidden(book, call, confined=confined) or _unsafe(book, call):
        return asked if command is None else command.asked(asked)
    decision = BYPASSED if book.mode == "bypassPermissions" else _judge_by_rules(book, call, known)
    if command is not None:
        decision = command.decided(decision, looks=looks)
        reads = reads and decision.confinement is command.reading and not _PRIVATE_FOLDER.search(call.command)
    if decision.behavior == "allow" and (looks or reads) and _keeps_folder(call):
        return structs.replace(decision, works_beside=True)
    return decision


def _is_tried(book: RuleBook, call: ShellCall, command: ConfinableCommand, known: Known) -> bool:
    """Return whether the command is tried in bounds for reading: a rule that allows it would let it do more."""
    if not command.is_tried_reading:
        return False
    by_rules = _judge_by_rules(book, call, known)
    return by_rules.behavior == "ask" and not by_rules.firm


_PRIVATE_FOLDER = lazy_pattern("te?mp", re.IGNORECASE)
"""The names of the place that confined commands share and may write to: `$TMPDIR`, and what `mktemp` makes there."""


def _keeps_folder(call: ShellCall) -> bool:
    """Return whether the shell is certain to end in the folder that it starts in, where the next call starts."""
    programs = [part.words[0] for part in call.parts if part.words]
    return bool(call.parts) and not any(word.dynamic or word.globs or word.text in MOVERS for word in programs)


def _confinable(book: RuleBook, call: ShellCall, tool_input: Mapping[str, Any]) -> ConfinableCommand | None:
    if book.sandbox.abilities is None:
        return None
    from cellwright.permissions.judges.confined import confinable  # where there is no sandbox nobody needs it

    return confinable(book, call, tool_input)


def _judge_by_rules(book: RuleBook, call: ShellCall, known: Known) -> Decision:
    every_use = next((rule for rule in book.about("allow", BASH) if rule.every_use), None)
    return _judge_every_use(book, call, every_use, known) if every_use else judge_parts(book, call)


def judge_parts(book: RuleBook, call: ShellCall) -> Decision:
    """Each simple command must be allowed by itself; of those that are not, the one with the strongest cause speaks."""
    if call.analysis.problem:
        return Decision("ask", f"The command {call.analysis.problem}, so that no rule for a command can cover it.")
    if against := _start_problem(book, call) or _background_problem(call):
        return against
    parts = settled_parts(call.parts)
    judged = [(part, judge_part(book, part)) for part in parts]
    after_changes = call.parts[next((at for at, part in enumerate(call.parts) if changes(part)), len(call.parts)) :][1:]
    judged += [(part, made) for part in after_changes if (made := judge_made_unseen(book, part)) is not None]
    decisions = [decision for _, decision in judged]
    denied = next((decision for decision in decisions if decision.behavior == "deny"), None)
    if found := denied or strongest(judged):
        return found
    ruled = next((decision for decision in decisions if decision.rule), None)
    # what one part of the command changes is said rather than what another reads
    return ruled or next((decision for decision in decisions if decision not in LOOKS), (*decisions, ALLOWED)[0])


def covered_command(book: RuleBook, tool_input: Mapping[str, Any]) -> bool:
    """Return whether allow rules speak of every simple command in it, and none redirects its output to a file."""
    call = shell_call(book, tool_input)
    if call.problem or call.analysis.problem:
        return False
    return all(
        not writes_files(part)
        and (granting_rule(book, part) is not None if part.words else not part.command.assignments)
        for part in call.parts
    )


def _start_problem(book: RuleBook, call: ShellCall) -> Decision | None:
    """Find what is against starting in the call's folder."""
    if call.folder == book.cwd:
        return None
    decision = judge_path(book, LIST, call.folder)
    return None if decision.behavior == "allow" else decision


def _restricted_start(book: RuleBook, call: ShellCall, behavior: Literal["deny", "ask"]) -> Decision | None:
    """Find the rule that denies, or asks about, the folder that the call starts in, as it would a `cd` to it."""
    if call.folder == book.cwd or not any(rule.path for rule in (*book.deny, *book.ask)):
        return None
    decision = judge_path(book, LIST, call.folder)
    return decision if decision.behavior == behavior and (behavior == "deny" or decision.firm) else None


def _background_problem(call: ShellCall) -> Decision | None:
    """Find what is against changes that later calls run beside: what they name may lead elsewhere by then."""
    found = changes_anything if call.detached else changes_in_background
    if not found(call):
        return None
    return Decision("ask", "It changes files in the background, where that may redirect what later commands name.")


def _foreign_descriptor(call: ShellCall) -> Decision | None:
    """Find what is against a descriptor that the command uses and has not opened: it would be somebody else's."""
    if call.analysis.problem:
        text = call.rough.text
        opened = {int(found[1]) for found in _OPENS.finditer(text)}
        used = next((int(found[1]) for found in _USES.finditer(text) if int(found[1]) not in opened), 0)
    else:
        used = next(filter(None, (part.command.foreign_descriptor for part in call.parts)), 0)
    if used <= STANDARD_ERROR:
        return None
    return Decision("ask", f"It uses the descriptor {used}, which it has not opened.")


_OPENS = lazy_pattern(r"(?<![\w&>])(\d{1,5})[<>](?!&-)")
_USES = lazy_pattern(r"[<>]&[ \t]*(\d{1,5})(?![\w.])")


def _denied(book: RuleBook, call: ShellCall, known: Known) -> Decision | None:
    rough = call.rough
    if rule := _command_rule(book.about("deny", BASH), rough):
        return denied_by(rule, "This command")
    for rule, name in _file_rules(book.deny, call.names, call, known, reading=True):
        return denied_by(rule, f"A command that names {visible_line(name)}")
    redirects = call.names[: len(set(rough.redirects))]
    for rule, name in _file_rules(book.deny, redirects, call, known, reading=False):
        return denied_by(rule, f"Redirecting to {visible_line(name)}")
    if book.blocks_reads or book.blocks_writes or any(rule.path for rule in book.deny):
        used = filter(None, (restricted_use(book, part) for part in call.parts))
        return next((decision for decision in used if decision.behavior == "deny"), None)
    return None


def _asked(
    book: RuleBook, call: ShellCall, known: Known, command: ConfinableCommand | None, *, looks: bool
) -> Decision | None:
    rules = book.about("ask", BASH)
    narrower = tuple(rule for rule in rules if not (rule.every_use and rule.rule.tool == "Bash"))
    if narrower != rules and command is not None and command.is_auto_allowed:
        # as in Claude Code: the settings that let what is confined run unasked mean more than a rule for Bash as a whole
        rules = narrower
    if rule := _command_rule(rules, call.rough):
        return asked_by(rule, "This command")
    for rule, name in _file_rules(book.ask, call.names, call, known, reading=True):
        return asked_by(rule, f"A command that names {visible_line(name)}")
    if not looks and (call.analysis.problem or not all(is_understood(book, part) for part in call.parts)):
        # whether the command changes the file it names is not known here
        for rule, name in _file_rules((*book.ask, *book.deny), call.names, call, known, reading=False):
            return asked_by(rule, f"A command that may change {visible_line(name)}")
    if any(rule.path for rule in (*book.ask, *book.deny)):
        return next(filter(None, (restricted_use(book, part) for part in call.parts)), None)
    return None


def _shows_hidden(book: RuleBook, call: ShellCall, *, confined: bool) -> Decision | None:
    """Find what is against a `git show`, a `tar c .` in the command: they may show files that a rule hides.

    From what is `confined` files are hidden anyway, but not what a repository's history holds.
    """
    for words in filter(None, map(git_words, call.rough.parts)):
        for folder in call.folders:
            if rule := hidden_by(book, folder, words):
                return may_show(rule)
    return None if confined else shown_whole(book, call.rough.parts, call.folders)


def _unsafe(book: RuleBook, call: ShellCall) -> Decision | None:
    if target := critical_delete(call.command, call.analysis.commands, book.folders, call.folder):
        reason = f"The command deletes {visible_line(target)}; no mode and no rule allows that unasked."
        return Decision("ask", reason, firm=True)
    if against := _foreign_descriptor(call):
        return against
    scoped = next((rule for rule in (*book.deny, *book.ask) if rule.restricts or rule.path), None)
    if scoped and len(call.folders) > MAX_FOLDERS:
        return Decision("ask", f"It changes its folder too often to check the rule `{scoped.rule}`.", firm=True)
    if not call.all_names and any(rule.path for rule in (*book.deny, *book.ask)):
        return Decision("ask", "It names too many files to check the rules for files.", firm=True)
    if scoped and not call.rough.whole:
        return Decision(
            "ask", f"It has too many redirects, or words in braces, to check the rule `{scoped.rule}`.", firm=True
        )
    if scoped and any(part.opaque for part in call.rough.parts):
        reason = f"What the command runs shows only when it runs, so the rule `{scoped.rule}` cannot be checked."
        return Decision("ask", reason)
    return None


def _judge_every_use(book: RuleBook, call: ShellCall, rule: CompiledRule, known: Known) -> Decision:
    """`Bash` allows whatever runs, as far as it can be read; what is protected or elsewhere is written with consent only."""
    if unseen := unseen_characters(call.command):
        return Decision("ask", f"The command has a character that cannot be seen ({unseen[0]}).")
    if len(call.command) > MAX_LENGTH:
        return Decision("ask", f"The command is longer than {MAX_LENGTH:,} characters.")
    if not call.analysis.parses:
        return Decision("ask", "The command cannot be read as bash, so what it runs is not known.")
    if against := _start_problem(book, call) or _background_problem(call):
        return against
    if not call.all_names:
        return Decision("ask", "The command names too many files to see whether one is protected.")
    if against := against_names(call.names, starts_at(call.folders), known):
        return against
    if against := next(filter(None, map(against_patterns, call.parts)), None):
        return against
    return _judge_targets(book, call) or allowed_by(rule)


def _judge_targets(book: RuleBook, call: ShellCall) -> Decision | None:
    """Find what is against the places that a command writes to; None when nothing is."""
    if not call.analysis.problem:
        return next(filter(None, (against_writes(book, part) for part in call.parts)), None)
    for target in call.rough.redirects:
        if is_harmless(target) or target.removesuffix("-").isdecimal():
            continue
        if _NOT_FIXED.search(target):
            return Decision("ask", f"It redirects to {visible_line(target)}, which shows only when the command runs.")
        if not all(is_inside(book, os.path.join(folder, target)) for folder in call.folders):
            return Decision("ask", f"It redirects to {visible_line(target)}, outside the project.")
    return None


def _command_rule(rules: Sequence[CompiledRule], rough: ConservativeParse) -> CompiledRule | None:
    """The first of these rules about Bash that `rough` falls under."""
    for rule in rules:
        if rule.every_use or (rule.restricts is not None and rule.restricts.touches(rough)):
            return rule
    return None


def _file_rules(
    rules: Sequence[CompiledRule], names: Sequence[str], call: ShellCall, known: Known, *, reading: bool
) -> Iterator[tuple[CompiledRule, str]]:
    about = [rule for rule in rules if rule.path and (rule.rule.tool in READERS) is reading]
    starts = starts_at(call.folders) if about and names else {}
    for name in names if about else ():
        if name not in known:
            known[name] = places_named(name, starts)
        found = known[name]
        for rule in about:
            if found is None or rule.covers_place(found):
                yield rule, name
