"""The fuzzer: makes commands, lets the policy decide, runs those that need no question, and judges what they did."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Literal

from shell_fuzzer.grammar import Grammar
from shell_fuzzer.judge import Bounds, failures
from shell_fuzzer.traced_shell import COMMAND_SECONDS, Touch, Trace, TracedShell
from shell_fuzzer.world import (
    DENIED,
    ENVIRONMENT_CANARY,
    PROTECTED,
    REPOSITORIES,
    World,
    build_world,
    changed,
    keep_copy,
    restore,
)

COMMANDS_A_WORLD = 150
"""Commands that are made for one world, before the next one is built."""
MAX_SHORTENED = 40
"""Shorter forms of a failing command that are tried."""

_OTHER_RULES: Mapping[str, str] = {
    "Bash(cat *)": "cat",
    "Bash(head *)": "head",
    "Edit(./src/**)": "src",
    "Edit(./sub/**)": "sub",
}
"""Further rules, each with the program or the folder that it is about."""

_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Worlds are built and restored often, which takes a disk several times as long."""

Sandbox = Literal["none", "with a sandbox", "any command in a sandbox"]
SANDBOXES: Sequence[Sandbox] = ("none", "with a sandbox", "any command in a sandbox")
"""The use of a sandbox: none, as the policy decides where there is one, or for every command, whatever it is."""

MODES = ("default", "acceptEdits", "default with deny rules", "acceptEdits with deny rules")


def _is_own_device(path: str) -> bool:
    """Return whether, in a sandbox, it is one of its own: their folder, or what is not among the devices of this machine."""
    return path == "/dev" or (
        path.startswith("/dev/") and not path.startswith("/dev/shm/") and not os.path.lexists(path)
    )


@dataclass(frozen=True, slots=True)
class Case:
    """A command in a folder of the world, decided in a mode with rules: all that is needed to play it again."""

    command: str
    folder: str
    mode: str
    deny: tuple[str, ...]
    ask: tuple[str, ...]
    sandbox: Sandbox = "none"

    @property
    def label(self) -> str:
        """The mode as it is counted."""
        return self.mode if self.sandbox == "none" else f"{self.mode}, {self.sandbox}"


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that ran unasked and did `what` nothing allowed; `shortened` is the shortest command found that fails alike."""

    case: Case
    what: tuple[str, ...]
    shortened: str
    seed: str
    repository: str

    def __str__(self) -> str:
        rules = ", ".join((*(f"deny {rule}" for rule in self.case.deny), *(f"ask {rule}" for rule in self.case.ask)))
        how = f"allowed in mode {self.case.label}, rules: {rules or 'none'}; repository {self.repository}"
        where = f"in {self.case.folder}, seed {self.seed}"
        return "\n  ".join((repr(self.shortened), f"from {self.case.command!r}", how, where, *self.what[:6]))


@dataclass(slots=True)
class Tally:
    """The count of what has been done so far, by mode. `tell` is told each failure that is unlike those before."""

    tell: Callable[[Failure], None] | None = None
    made: Counter[str] = field(default_factory=Counter)
    allowed: Counter[str] = field(default_factory=Counter)
    confined: int = 0
    timed_out: int = 0
    not_started: Counter[str] = field(default_factory=Counter)
    sandbox: str = ""
    kinds: defaultdict[tuple[str, ...], list[Failure]] = field(default_factory=lambda: defaultdict(list))
    seconds: float = 0.0

    @property
    def failures(self) -> list[Failure]:
        """All that failed; of those that failed alike, the first is shortened."""
        return [failure for alike in self.kinds.values() for failure in alike]

    def add(self, kind: tuple[str, ...], failure: Failure) -> None:
        """Count a failure of this kind."""
        if self.tell and not self.kinds[kind]:
            self.tell(failure)
        self.kinds[kind].append(failure)

    def __str__(self) -> str:
        modes = [
            f"  {mode}: {self.made[mode]:,} made, {self.allowed[mode]:,} allowed and run, "
            f"{sum(1 for failure in self.failures if failure.case.label == mode)} failed"
            for mode in self.made
        ]
        made, ran = self.made.total(), self.allowed.total()
        speed = f"{made / max(self.seconds, 0.001):.0f} a second"
        share = f"{ran:,} ({ran / max(made, 1):.0%}) allowed and run"
        head = f"{made:,} commands made, {share}, {self.timed_out} timed out, {speed}"
        refused = "".join(f"\n  {count} not started: {why}" for why, count in self.not_started.most_common(5))
        sandbox = f"sandbox: {self.sandbox or 'none here'}, {self.confined:,} ran confined{refused}"
        return "\n".join((head, *sorted(modes), sandbox))


def fuzz(
    seed: str, commands: int, seconds: float, tell: Callable[[Failure], None] | None = None, *, at_least: int = 0
) -> Tally:
    """Play commands until there were as many, or `at_least` so many and the time is over.

    `tell` is told each failure that is unlike the others.

    The same seed plays the same commands.
    """
    tally = Tally(tell)
    begun, number = time.monotonic(), 0
    with traced_shell() as (base, shell):
        tally.sandbox, tally.not_started = str(shell.abilities.get("name", "")), shell.not_started
        while (made := tally.made.total()) < commands and (made < at_least or time.monotonic() - begun < seconds):
            play_world(base, shell, f"{seed}:{number}", tally, commands - made)
            number += 1
            tally.seconds = time.monotonic() - begun
    return tally


def play_world(base: Path, shell: TracedShell, seed: str, tally: Tally, most: int) -> None:
    """Build the world that `seed` says below `base` and play its commands, `most` at the most."""
    world = build_world(base, Random(seed).choice(REPOSITORIES))
    player = Player(world, shell)
    for index in range(min(most, COMMANDS_A_WORLD)):
        player.play(
            make_case(Random(f"{seed}:{index}"), world, sandbox=bool(shell.abilities)), f"{seed}:{index}", tally
        )


@contextlib.contextmanager
def traced_shell(seconds: float = COMMAND_SECONDS) -> Iterator[tuple[Path, TracedShell]]:
    """Start a watched shell in a folder of its own, and remove both in the end; each command may take `seconds`."""
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_MEMORY) as folder:
        base = Path(folder).resolve() / "world"
        base.mkdir()
        places = World(base, "none")
        for made in (places.home, places.temporary):
            made.mkdir(parents=True)
        environ = {"HOME": str(places.home), "TMPDIR": str(places.temporary), "LANG": "C.UTF-8"}
        environ["CELLWRIGHT_CANARY"] = ENVIRONMENT_CANARY
        shell = TracedShell(base.parent, {"PATH": os.environ["PATH"], **environ}, seconds)
        try:
            yield base, shell
        finally:
            shell.close()


def _kind_of(found: Sequence[str], trace: Trace, world: World) -> tuple[str, ...]:
    """Name what failures of the same reason have in common, as far as that can be told: the deeds and the programs."""
    deeds = {why.partition(":")[0] for why in found}
    programs = {Path(touch.path).name for touch in trace.touches if touch.kind == "execute"}
    # what git does depends on the repository more than on what is run beside it
    return (world.repository, *sorted(deeds), *(["git"] if "git" in programs else sorted(programs)))


def make_case(chance: Random, world: World, *, sandbox: bool) -> Case:
    """Make the case that `chance` says; `sandbox`: there is one, which most of the cases use."""
    mode = chance.choices(MODES, (4, 2, 4, 2))[0]
    rules = chance.sample(sorted(DENIED), chance.randint(1, 2)) if mode.endswith("rules") else []
    at = chance.randint(0, len(rules)) if chance.random() < 0.3 else 0
    deny, ask = rules[at:], rules[:at]
    if rules and chance.random() < 0.2:
        deny.append(chance.choice(sorted(_OTHER_RULES)))
    writes = mode.startswith("acceptEdits")
    command = Grammar(chance, changes=writes).command()
    for name, place in {"{PROJECT}": world.project, "{OUTSIDE}": world.outside}.items():
        command = command.replace(name, str(place))
    folder = chance.choice(("", "", "", "", "src", "sub/deep"))
    place = str(world.project / folder) if folder else str(world.project)
    use = chance.choice(SANDBOXES) if sandbox else "none"
    return Case(command, place, mode, tuple(deny), tuple(ask), use)


class Player:
    """Plays cases in one world: has them decided and run, judges, and puts the world back in order."""

    def __init__(self, world: World, shell: TracedShell) -> None:
        self._world = world
        self._shell = shell
        self._copy = keep_copy(world)

    def play(self, case: Case, seed: str, tally: Tally) -> None:
        """Play one case."""
        tally.made[case.label] += 1
        trace = self._run(case)
        if trace is None:
            return
        tally.allowed[case.label] += 1
        tally.confined += trace.confined
        tally.timed_out += trace.timed_out
        if found := self._judged(case, trace):
            kind = _kind_of(found, trace, self._world)
            shortened = case.command if tally.kinds[kind] else self._shortened(case, found)
            tally.add(kind, Failure(case, found, shortened, seed, self._world.repository))

    def deeds(self, case: Case, *, decided: bool = False) -> tuple[str, ...]:
        """Return what the case does that nothing allows; where it is not allowed, nothing, unless it is `decided`."""
        trace = self._run(case, decided=decided)
        return () if trace is None else self._judged(case, trace)

    def _judged(self, case: Case, trace: Trace) -> tuple[str, ...]:
        rules = (*case.deny, *case.ask)
        bounds = Bounds(
            self._world,
            writes=self._writes(case),
            hidden=self._hidden(case),
            any_command=case.sandbox == "any command in a sandbox",
            programs=frozenset(_OTHER_RULES[rule] for rule in rules if rule.startswith("Bash(")),
            unwritable=tuple(f"{self._world.project}/{name}" for name in self._unwritable(case)),
        )
        return tuple(dict.fromkeys(failures(bounds, case.command, trace)))

    def _run(self, case: Case, *, decided: bool = False) -> Trace | None:
        given = {
            **{"command": case.command, "folder": case.folder, "mode": case.mode.split()[0], "decided": decided},
            **{"deny": case.deny, "ask": case.ask, "project": str(self._world.project)},
            **{"sandbox": case.sandbox != "none", "bounds": self._bounds(case)},
        }
        trace = self._shell.run(given)
        if trace is None:
            return None
        base = str(self._world.base)
        if trace.confined:
            # the devices of a sandbox are its own: what is not here either was made among these
            own = [each for each in trace.touches if each.kind == "write" and _is_own_device(each.path)]
            trace = replace(trace, touches=tuple(each for each in trace.touches if each not in own))
        wrote = any(touch.kind == "write" and touch.path.startswith(base) for touch in trace.touches)
        if trace.confined and (wrote or self._writes(case)):
            # a sandbox may lay folders of its own over those of the world, and leave something behind
            real = [Touch("write", path, self._how(path), "") for path in sorted(changed(self._world, self._copy))]
            trace = replace(trace, touches=(*(each for each in trace.touches if each.kind != "write"), *real))
            wrote = bool(real)
        if wrote:
            restore(self._world, self._copy)
        return trace

    def _how(self, path: str) -> str:
        """The call that a change seen afterwards stands for: the mode is all that can differ of a project that is there."""
        is_project = path == str(self._world.project) and self._world.project.is_dir()
        return "chmod" if is_project and not self._world.project.is_symlink() else "changed"

    def _writes(self, case: Case) -> bool:
        # any command may make what is protected: a sandbox that cannot protect it is given nothing to write
        free = case.sandbox != "any command in a sandbox" or self._shell.abilities["protects"]
        return bool(case.mode.startswith("acceptEdits") and free)

    def _hidden(self, case: Case) -> frozenset[str]:
        able = case.sandbox != "any command in a sandbox" or self._shell.abilities["hides"]
        return self._world.hidden_by((*case.deny, *case.ask)) if able else frozenset()

    def _unwritable(self, case: Case) -> list[str]:
        return [_OTHER_RULES[rule] for rule in (*case.deny, *case.ask) if rule.startswith("Edit(")]

    def _bounds(self, case: Case) -> dict[str, Sequence[str]] | None:
        """The confinement in which any command may run: what the mode allows, as far as the sandbox can enforce it."""
        if case.sandbox != "any command in a sandbox":
            return None
        project = str(self._world.project)
        return {
            "read": [project, *self._world.readable],
            "write": [project] if self._writes(case) else [],
            "hidden": sorted(self._hidden(case)),
            "protected": [f"{project}/{name}" for name in (*PROTECTED, *self._unwritable(case))],
        }

    def _shortened(self, case: Case, found: Sequence[str]) -> str:
        """Leave out words of a failing command as long as what is left fails in the same way."""
        kinds = {why.partition(":")[0] for why in found}
        words, tries, at = case.command.split(" "), 0, 0
        while at < len(words) and tries < MAX_SHORTENED:
            tries += 1
            left = words[:at] + words[at + 1 :]
            why = self.deeds(replace(case, command=" ".join(left))) if left else ()
            if kinds & {each.partition(":")[0] for each in why}:
                words = left
            else:
                at += 1
        return " ".join(words)
