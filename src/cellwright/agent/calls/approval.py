"""Permission as the loop sees it: a decision, a question, an answer, and the bounds of a command.

Whoever decides lives in a layer above. The bounds say what a command may read, write and reach; they are part of the
policy's decision, and `sandbox/` enforces them.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from cellwright.errors import CellwrightError
from cellwright.events import AnsweredBy, FollowingCall, Preview, QuestionKind, Suggestion

if TYPE_CHECKING:
    from cellwright.agent.tool import Tool


class Decision(Struct, frozen=True):
    """The policy's answer for a call. `rule` is the rule that decided, if any; `suggestions` are rules to allow it.

    `firm`: the user is to be asked whatever a hook says (an ask rule, a critical deletion, a question to the user).
    `confinement`: how the call must be run, also once somebody has allowed it; None for no bounds.
    `trial`: the call is allowed within its `confinement` to find out whether it needs more. If it is refused something
    that it needs, the decision of `Policy.without_trials` counts.
    `works_beside`: the call changes nothing, not even the folder that its shell is in, so it may run beside others; the
    tool itself says so of most (`Tool.works_beside`).
    `for_people`: the reason on a screen that shows the call as well; None for the same.

    >>> Decision("ask", "No rule allows it.").behavior
    'ask'
    """

    behavior: Literal["allow", "ask", "deny"]
    reason: str
    rule: str = ""
    suggestions: tuple[Suggestion, ...] = ()
    firm: bool = False
    confinement: Confinement | None = None
    works_beside: bool = False
    trial: bool = False
    for_people: str | None = None

    @property
    def shown_reason(self) -> str:
        """The reason as people read it beside the call; "" if the call says it all."""
        return self.reason if self.for_people is None else self.for_people

    def because(self, reason: str, **changed: Any) -> Decision:
        """Return the decision with another `reason`, which may hold this one's, and with what else has changed."""
        shown = self.for_people
        if shown is not None and self.reason:
            shown = reason.replace(self.reason, shown).strip()
        return replace(self, reason=reason, for_people=shown, **changed)


class ToolUse(Struct, frozen=True):
    """A call that must be asked for, as `can_use_tool` gets it.

    `id`, `name` and `input` are the API's; `decision` says why it is asked for and which rules would allow it, `preview`
    what a person would be shown. `agent_id` is the agent's that makes the call, "" for Claude itself. `kind` is
    "permission", or what else Claude asks: "question", "plan". `following` are the calls of the same message that will be
    asked about next; `Allow(following=True)` allows them as well.

    >>> async def only_tests(use: ToolUse):
    ...     return Allow() if use.input.get("command", "").startswith("pytest") else Deny(f"{use.name} is not for tests")
    """

    id: str
    name: str
    input: Mapping[str, Any]
    decision: Decision
    preview: Preview
    question_id: str = ""
    kind: QuestionKind = "permission"
    agent_id: str = ""
    following: tuple[FollowingCall, ...] = ()


class Allow(Struct, frozen=True):
    """Run the call, with `updated_input` instead of its own where given (it is decided on again).

    `scope` and `rules` (permission rules such as `Bash(pytest *)`): what is allowed beside this one call; the session
    remembers `rules` for "session" and "always". `mode` is the permission mode that the session goes on in, None: as it is.
    `notice` tells the user what came of it besides. `following`: the calls shown with it are allowed, too.

    >>> Allow().scope, Allow({"command": "pytest -q"}).updated_input, Allow(scope="session", rules=("Bash(pytest *)",)).rules
    ('once', {'command': 'pytest -q'}, ('Bash(pytest *)',))
    """

    updated_input: Mapping[str, Any] | None = None
    scope: Literal["once", "session", "always"] = "once"
    rules: tuple[str, ...] = ()
    by: AnsweredBy = "callback"
    notice: str = ""
    mode: str | None = None
    following: bool = False


async def keep_rules(given: Allow | Deny, save: Callable[[Sequence[str]], object]) -> Allow | Deny:
    """`given`, with the rules of an "always" kept by `save`; if they cannot be, they hold for this session, and why is said.

    The user allowed the call all the same.
    """
    if not isinstance(given, Allow) or given.scope != "always":
        return given
    try:
        await asyncio.to_thread(save, given.rules)
    except (CellwrightError, OSError) as error:
        why = error.message if isinstance(error, CellwrightError) else f"The rule was not saved: {error}."
        return replace(given, scope="session", notice=f"{why.rstrip('.')}. It holds for this session.")
    return given


class Deny(Struct, frozen=True):
    """Do not run the call; Claude and the user are told `reason`. `interrupt` ends the run as well.

    >>> Deny("not on a Friday").reason, Deny(interrupt=True).interrupt
    ('not on a Friday', True)
    """

    reason: str = ""
    by: AnsweredBy = "callback"
    interrupt: bool = False


CanUseTool = Callable[[ToolUse], Awaitable[Allow | Deny]]


class Policy(Protocol):
    """A permission policy, as the loop sees it, asked for each call. A variant of it is immutable."""

    @property
    def mode(self) -> str: ...

    def decide(self, tool: Tool, tool_input: Mapping[str, Any]) -> Decision:
        """Return whether `tool` may run with `tool_input`."""
        ...

    def may_read(self, path: str) -> bool:
        """Return whether the file at `path` may be read unasked."""
        ...

    def confinement_for_project_code(self) -> Confinement | None:
        """Return the bounds of programs that the project brings along and that no call starts; None for no bounds."""
        ...

    def hides(self, tool: Tool) -> bool:
        """Return whether the tool is denied as a whole, so that Claude need not know of it."""
        ...

    def allowing(self, rules: Sequence[str]) -> Policy:
        """The same policy with these allow rules besides its own."""
        ...

    def in_mode(self, mode: str) -> Policy:
        """The same policy in another mode."""
        ...

    def without_trials(self) -> Policy:
        """The same policy, which asks about what it would otherwise have tried in bounds first."""
        ...


class PolicyAround(Struct, frozen=True):
    """A policy around another, `base`: it judges as that does, but for what a class made of it says of calls."""

    base: Policy

    @property
    def mode(self) -> str:
        return self.base.mode

    def decide(self, tool: Tool, tool_input: Mapping[str, Any]) -> Decision:
        return self.base.decide(tool, tool_input)

    def may_read(self, path: str) -> bool:
        return self.base.may_read(path)

    def confinement_for_project_code(self) -> Confinement | None:
        return self.base.confinement_for_project_code()

    def hides(self, tool: Tool) -> bool:
        return self.base.hides(tool)

    def allowing(self, rules: Sequence[str]) -> Policy:
        return replace(self, base=self.base.allowing(rules))

    def in_mode(self, mode: str) -> Policy:
        return replace(self, base=self.base.in_mode(mode))

    def without_trials(self) -> Policy:
        return replace(self, base=self.base.without_trials())


def describe_rules(rules: Sequence[str]) -> str:
    """Allow rules as the subject of a sentence."""
    shown = ", ".join(f"`{rule}`" for rule in rules)
    return f"The allow rule {shown}" if len(rules) == 1 else f"The allow rules {shown} together"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The container that commands run in: whose files they see instead of this machine's, and its limits.

    One of `image` (a name that a container program knows), `dockerfile` (a file, built in the folder `context`) and
    `files` (a folder with an image's files, or an archive of one) says what it is made of. `program` is "podman", "docker",
    "bubblewrap", or "" for whichever is there. `project` is the folder that it belongs to, and `workspace` where that is
    shown besides ("": nowhere). `variables` are set in it, `user` is who commands run as ("": whoever owns the project's
    files), `after_making` are run in it once. `network`: it reaches every host; else none. `memory` is as `--memory` takes
    it, `cpus` a number of them ("": all), `processes` the most that there may be. `keep`: it outlives the session.
    `own_for_agents`: each subagent has one for itself, and `agent` is that ("": all share one).
    """

    image: str = ""
    dockerfile: str = ""
    context: str = ""
    build_arguments: tuple[tuple[str, str], ...] = ()
    files: str = ""
    program: str = ""
    project: str = ""
    workspace: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    user: str = ""
    after_making: tuple[tuple[str, ...], ...] = ()
    network: bool = False
    memory: str = "4g"
    cpus: str = ""
    processes: int = 1024
    keep: bool = False
    own_for_agents: bool = False
    agent: str = ""

    @property
    def name(self) -> str:
        """Its name for people: the image's, or the file's that it is made of."""
        return self.image or self.dockerfile or self.files

    @property
    def memory_mb(self) -> int | None:
        """`memory` in MiB, at least 1; None if it is not set."""
        if not self.memory:
            return None
        number = self.memory.rstrip("bkmgBKMG")
        unit = self.memory[len(number) :].lower()
        return max(1, int(number) * {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}[unit] // 2**20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The bounds of a command, in absolute paths; the default is the system's programs and nothing else.

    What programs need to run (the system's folders, the environments that PATH and the interpreter lead to, a private
    temporary folder) is added by whoever enforces it. A folder stands for all below it.

    `read`: what it may read besides. `write`: what it may read, make, change and remove.
    `hidden`: what it may not read although it lies below one of these. `hides(path)` says the same of files that only a
    pattern names; None where no pattern does. `protected`: what it may not write although it lies below `write`, also
    where it does not exist yet; `protects(path)` says the same of what only a pattern names: so what the command changes
    is judged at its end, before it is made; `admits(path, file)` says what of that may be made after all, by the content
    of the file that is to stand there. `unstaged`: folders of `write` that the settings name, whose changes are made
    at once if they cannot be judged first. `metadata`: what it does to modes, owners and times is known, so it may, where
    the means cannot tell for which files.
    `hosts`: names, `*.name` or `name:port` that it may reach; None for no network at all. `any_host`: no bound on that.
    `denied_hosts`: what it may not reach although it falls under one of `hosts`; `asked_hosts`: what the user is asked about
    although it does. `asks_hosts`: the user is asked about those and about the others.
    `container`: it runs in there, where the system's programs are the container's own (None: in none). `keeps_installed`:
    what it changes of the container's own files is there for later commands; it may change none of them otherwise.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    denied_hosts: tuple[str, ...] = ()
    asked_hosts: tuple[str, ...] = ()
    asks_hosts: bool = True
    any_host: bool = False
    metadata: bool = False
    hides: Callable[[str], bool] | None = field(default=None, compare=False)
    protects: Callable[[str], bool] | None = field(default=None, compare=False)
    admits: Callable[[str, str], bool] | None = field(default=None, compare=False)
    unstaged: tuple[str, ...] = ()
    container: Container | None = None
    keeps_installed: bool = False


def also_writing(confinement: Confinement | None, path: Path) -> Confinement | None:
    """The same bounds with a file or folder of ours to write to besides: for what a program is to hand over."""
    return None if confinement is None else dataclasses.replace(confinement, write=(*confinement.write, str(path)))


def without_hosts(confinement: Confinement | None) -> Confinement | None:
    """The same bounds without a way to named hosts: for programs that no proxy is started for."""
    return None if confinement is None else dataclasses.replace(confinement, hosts=None)


def in_engine(confinement: Confinement) -> bool:
    """Return whether it is Podman or Docker that enforces it, and not this machine's own sandbox."""
    return confinement.container is not None and confinement.container.program != "bubblewrap"
