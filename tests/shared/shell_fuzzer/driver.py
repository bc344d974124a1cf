"""The program that strace watches: it lets the policy decide a command and runs what needs no question, one after another.

It reads lines of JSON and answers each with one. The runs are the product's own: `PermissionPolicy.decide` says how, and
`ChildProcesses.start` starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import selectors
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellwright.agent.calls.approval import Confinement, Decision
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from cellwright.tools.process.child_processes import ChildProcesses, Command
from cellwright.tools.process.runner import child_environment
from declared_tools import tool_named
from eventual import eventually

MAX_OUTPUT = 200_000
MARK = "//.//"
"""The folder `/`, as no command spells it."""


async def main() -> None:
    """Answer the lines of standard input until they end."""
    children = ChildProcesses()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    abilities = _abilities()
    told = {name: getattr(abilities, name) for name in ("name", "hides", "protects", "hosts")} if abilities else {}
    print(json.dumps(told), file=answers, flush=True)
    for line in sys.stdin:
        answer = await answered(json.loads(line), children, abilities)
        os.chdir(MARK)  # nothing of this command comes behind it in the trace
        print(json.dumps(answer), file=answers, flush=True)
    children.stop()


def _abilities() -> SandboxAbilities | None:
    try:
        from cellwright.sandbox.mechanisms import find_sandbox
    except ModuleNotFoundError:
        return None
    found = find_sandbox()
    return found.abilities if found else None


async def answered(
    given: Mapping[str, Any], children: ChildProcesses, abilities: SandboxAbilities | None
) -> dict[str, Any]:
    """Decide the command `given` and, where it is allowed or `decided` says that it is, run it.

    With `bounds`, the fields of a `Confinement`, nothing is decided: it runs in them whatever it is.
    """
    policy = PermissionPolicy(
        mode=given["mode"],
        deny=given["deny"],
        ask=given["ask"],
        roots=[given["project"]],
        cwd=given["project"],
        sandbox=SandboxRules(means=abilities if given["sandbox"] else None),
    )
    if given["bounds"] is None:
        decision = policy.decide(tool_named("Bash"), {"command": given["command"], "cwd": given["folder"]})
    else:
        bounds = {name: tuple(paths) for name, paths in given["bounds"].items()}
        decision = Decision("allow", "It is tried.", confinement=Confinement(**bounds))
    if decision.behavior != "allow" and not given["decided"]:
        return {"allowed": False}
    command = Command(
        arguments=[str(shutil.which("bash")), "--noprofile", "--norc", "-c", given["command"]],
        cwd=Path(given["folder"]),
        environ=child_environment(os.environ),
        confinement=decision.confinement,
    )
    try:
        ran = await _run(command, children, given["seconds"])
    except OSError as error:  # it cannot be confined as it must be
        return {"allowed": False, "not_started": str(error)}
    return {"allowed": True, "confined": decision.confinement is not None, **ran}


UNTIL_GONE_SECONDS = 60.0
"""The time that what was killed may take to be gone, on a machine that does much besides."""


async def _run(command: Command, children: ChildProcesses, seconds: float) -> dict[str, Any]:
    reader, writer = os.pipe()
    deadline = time.monotonic() + seconds
    try:
        child = children.start(command, output=writer)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    try:
        output = _output(reader, deadline)
        # what has closed its output, or is stopped by a limit, need not have ended
        left = max(0.0, min(0.3, deadline - time.monotonic()))
        await asyncio.wait({child.exited}, timeout=left)
        timed_out = not child.exited.done()
        child.kill()
        await asyncio.wait({child.exited}, timeout=UNTIL_GONE_SECONDS)
        # what a sandbox laid into the project is gone only when all that was killed is
        with contextlib.suppress(AssertionError):
            eventually(child.is_alive, lambda alive: not alive, UNTIL_GONE_SECONDS)
    finally:
        os.close(reader)
    children.sweep()
    return {"pid": child.group, "output": output.decode("utf-8", "replace"), "timed_out": timed_out}


def _output(reader: int, deadline: float) -> bytes:
    """Read what the command and all that it started write, until they have closed their ends."""
    output = b""
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        while len(output) < MAX_OUTPUT and (left := deadline - time.monotonic()) > 0:
            if selector.select(left):
                chunk = os.read(reader, 65536)
                if not chunk:
                    break
                output += chunk
    return output


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
