"""Commands of which the text says little, a class each: decided, and run, with each means of confinement and with none.

`docs/security.md` has the outcomes as a table, which is held to them here.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cellwright.agent.calls.approval import Confinement, Decision
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxRules
from cellwright.sandbox.mechanisms import Sandbox
from cellwright.tools.process.child_processes import ChildProcesses, Command
from cellwright.tools.process.runner import OutputHead, RunningProgram, child_environment
from confined import sandbox_by
from declared_tools import tool_named
from eventual import paces

CANARY = "canary-in-a-secret"
MOST_PACES = 16
"""That a decision may take."""

CLASSES = {
    "an option that some programs take for an operand": "sort notes.txt -o made.txt",
    "a glob with quotes in its brackets": "cat .en['v']",
    "a tilde in an assignment": "x=~/diary.txt; cat $x",
    "a link that the command itself makes": "ln -s ~ made.txt; cat made.txt/diary.txt",
    "a search through folders that others leave out": "grep -rn canary node_modules",
    "a repository whose data lies elsewhere": "cd nested && git log -p",
    "a deletion whose target shows only when it runs": "cd src && rm -rf ~+/../../project",
    "a setting of git that is written": "git config core.pager 'touch made.txt'",
    "names that a substitution makes a glob of": "echo $(printf '%s/*' ~)",
    "a program in a variable": "x=cat; $x ~/diary.txt",
}


@dataclass(frozen=True)
class World:
    """A home with a secret, and in it a project with one that a rule denies."""

    home: Path
    project: Path

    def state(self) -> dict[str, bytes]:
        """All files of both, with their contents."""
        files = (path for path in self.home.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in files}

    def decide(self, command: str, sandbox: Sandbox | None) -> Decision:
        rules = SandboxRules(means=None if sandbox is None else sandbox.abilities)
        policy = PermissionPolicy(cwd=self.project, roots=[self.project], deny=["Read(.env)"], sandbox=rules)
        return policy.decide(tool_named("Bash"), {"command": command})

    def run(self, command: str, confinement: Confinement | None, sandbox: Sandbox | None) -> str:
        children = ChildProcesses(find_sandbox=lambda: sandbox)

        async def play() -> str:
            output = OutputHead(100_000)
            what = Command(
                arguments=["bash", "--noprofile", "--norc", "-c", command],
                cwd=self.project,
                environ=child_environment(os.environ),
                confinement=confinement,
            )
            await RunningProgram(what, output=output.take, children=children).finish(60)
            return output.text()

        try:
            return asyncio.run(play())
        finally:
            children.stop()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return world_in(tmp_path, monkeypatch)


def world_in(base: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    home, project = base / "home", base / "home" / "work" / "project"
    for folder in ("src", "node_modules/x"):
        (project / folder).mkdir(parents=True)
    (home / "diary.txt").write_text(CANARY, "utf-8")
    for file in (".env", "node_modules/x/.env"):
        (project / file).write_text(CANARY, "utf-8")
    (project / "notes.txt").write_text("tide\n", "utf-8")
    monkeypatch.setenv("HOME", str(home))
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    private = home / "private"
    private.mkdir()
    for folder in (private, project):
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (private / "kept").write_text(CANARY, "utf-8")
    subprocess.run(["git", *identity, "add", "."], cwd=private, check=True)
    subprocess.run(["git", *identity, "commit", "-qm", "x"], cwd=private, check=True)
    (project / "nested").mkdir()
    (project / "nested" / ".git").write_text(f"gitdir: {private}/.git\n", "utf-8")
    return World(home, project)


@pytest.fixture(params=["none", "Landlock", "bubblewrap"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox | None]:
    return None if request.param == "none" else sandbox_by(request.param)


def harm(world: World, command: str, confinement: Confinement | None, sandbox: Sandbox | None) -> str:
    """What a command that nobody was asked about has shown or changed; "" for nothing."""
    before = world.state()
    shown = world.run(command, confinement, sandbox)
    if CANARY in shown:
        return f"it showed {shown}"
    # the names in a home are nobody's business either
    if "diary.txt" in shown and "diary.txt" not in command:
        return f"it listed {shown}"
    changed = [name for name in {*before, *world.state()} if before.get(name) != world.state().get(name)]
    return f"it changed {changed}" if changed else ""


def documented() -> dict[str, tuple[str, str]]:
    """The rows of the table: what a command does without a sandbox, and in one."""
    text = (Path(__file__).parents[3] / "docs" / "security.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| `(.+)` \| (\w+)[^|]* \| (\w+)[^|]* \|$", text, re.MULTILINE)
    return {f"{name}: {command.replace('¦', '|')}": (alone, confined) for name, command, alone, confined in rows}


def test_what_needs_no_question_does_no_harm(world: World, sandbox: Sandbox | None) -> None:
    table, wrong = documented(), []
    assert list(table) == [f"{name}: {command}" for name, command in CLASSES.items()]
    for name, command in CLASSES.items():
        decision = world.decide(command, sandbox)
        how = {"allow": "runs", "ask": "asks", "deny": "denied"}[decision.behavior]
        expected = table[f"{name}: {command}"][sandbox is not None]
        if how != expected:
            wrong.append(f"{command}: {how} instead of {expected}: {decision.reason}")
        done = harm(world, command, decision.confinement, sandbox) if decision.behavior == "allow" else ""
        if done:
            wrong.append(f"{command}: {done}")
        # seen with `-rP`
        print(f"{sandbox.abilities.name if sandbox else 'none':10} | {how:6} | {done or 'no harm'} | {name}: {command}")
    assert not wrong, "\n".join(wrong)


def test_in_bounds_no_class_does_harm_whatever_was_decided(world: World, sandbox: Sandbox | None) -> None:
    if sandbox is None:
        pytest.skip("there are no bounds without a sandbox")
    reading = world.decide("awk '{print $(1)}' notes.txt", sandbox).confinement
    assert reading is not None
    found = {command: harm(world, command, reading, sandbox) for command in CLASSES.values()}
    # Landlock leaves open which files there are
    if sandbox.bubblewrap == "":
        found = {command: done for command, done in found.items() if not done.startswith("it listed")}
    assert {command: done for command, done in found.items() if done} == {}


def test_the_harm_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without bounds these commands show or change what they should not."""
    worlds = {command: world_in(tmp_path / str(at), monkeypatch) for at, command in enumerate(CLASSES.values())}
    harmless = []
    for command, world in worlds.items():
        monkeypatch.setenv("HOME", str(world.home))
        harmless += [] if harm(world, command, None, None) else [command]
    assert harmless == []


@pytest.mark.parametrize("piece", ["a ", "$(", "{a,b}", "[!x'", "~/x:", "a=b;", "\\\n", "git -c a.b=c "])
def test_a_decision_takes_no_longer_for_a_long_command(world: World, sandbox: Sandbox | None, piece: str) -> None:
    world.decide("echo x", sandbox)  # what is imported with the first
    numbers = itertools.count()  # each is another command

    def decide() -> None:
        world.decide(f"echo {next(numbers)} {piece * 10_000}"[:10_000], sandbox)

    assert paces(decide, MOST_PACES) < MOST_PACES, "far beyond what it may take"
