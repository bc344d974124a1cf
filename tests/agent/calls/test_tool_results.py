"""What is said of calls that were cut off: what they have shown, how long they ran, and which were not begun."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

from cellwright.agent.calls.approval import Allow, ToolUse
from cellwright.agent.tool import ToolAccess, ToolContext, tool
from cellwright.events import ToolEnd, ToolProgress
from cellwright.permissions.policy import PermissionPolicy
from cellwright.redaction.redaction import Redaction
from cellwright.testing import say, turn, use

GITHUB = "ghp_" + "a1B2" * 9


@tool(access=ToolAccess("shell", "command"), category="shell")
async def shout(command: str, ctx: ToolContext) -> str:
    """Say a command aloud, and go on for ever."""
    ctx.progress(text=f"\x1b[1m{command}\x1b[0m 10 %\r{command} 99 %\n")
    await asyncio.Event().wait()
    return "never"


def stop_when(played: Any, ready: Any) -> None:
    """Run a prompt until `ready` holds, then stop it."""

    async def main() -> None:
        run = asyncio.create_task(played.run("go"))
        while not ready():
            await asyncio.sleep(0.001)
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await run

    asyncio.run(main())


def ends(played: Any) -> dict[str, ToolEnd]:
    return {event.tool_use_id: event for event in played.of(ToolEnd)}


def test_what_a_stopped_call_has_shown_is_told_to_claude(scene: Any) -> None:
    played = scene([turn(use("shout", command="one"), use("shout", command="two")), say("It said one.")], tools=[shout])
    stop_when(played, lambda: played.of(ToolProgress))
    first, second = ends(played).values()
    assert "have had effects" in first.content
    assert ":\none 99 %" in first.content
    assert first.duration_ms > 0
    assert "not run" in second.content
    assert second.duration_ms == 0
    played.go_on("what did it say?")
    [_, _, results, _] = played.bodies[1]["messages"]
    assert [block["content"] for block in results["content"]] == [first.content, second.content]


def test_what_a_stopped_call_has_shown_is_bounded(scene: Any) -> None:
    @tool
    async def count(ctx: ToolContext) -> str:
        """Count for ever."""
        for number in range(100_000):
            ctx.progress(text=f"{number}\n")
        ctx.progress(text="counted")
        await asyncio.Event().wait()
        return "never"

    played = scene([use("count"), say("No.")], tools=[count])
    stop_when(played, lambda: played.of(ToolProgress)[-1:] and played.of(ToolProgress)[-1].text == "counted")
    [end] = ends(played).values()
    assert len(end.content) < count.limits.result_chars + 1_000
    assert end.content.endswith("99999\ncounted")


def test_secrets_of_a_stopped_call_are_kept_from_claude(scene: Any) -> None:
    played = scene([use("shout", command=GITHUB), say("A token.")], tools=[shout], redaction=Redaction())
    stop_when(played, lambda: played.of(ToolProgress))
    [end] = ends(played).values()
    assert end.content.endswith(": GitHub token] 99 %")


def test_a_call_that_waits_for_a_permission_was_not_run(scene: Any, tmp_path: Any) -> None:
    asked = threading.Event()

    async def ask(use: ToolUse) -> Allow:
        asked.set()
        await asyncio.Event().wait()
        return Allow()

    policy = PermissionPolicy(roots=(tmp_path,), cwd=tmp_path)
    played = scene([use("shout", command="one"), say("No.")], tools=[shout], policy=policy, can_use_tool=ask)
    stop_when(played, asked.is_set)
    assert ["not run" in end.content for end in ends(played).values()] == [True]
