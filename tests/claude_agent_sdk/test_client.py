"""`ClaudeSDKClient` while it works, and the options whose effect is in what is sent: servers, tasks, models, modes."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import cellwright.claude_agent_sdk as sdk
from cellwright.testing import Gate, MessagesServer, fault, hold, say, think, turn, use
from eventual import eventually

SERVER = Path(__file__).parents[1] / "shared" / "mcp_servers" / "plain_server.py"
PLAIN = {"command": sys.executable, "args": [str(SERVER), "--answers"]}


async def answer(client: sdk.ClaudeSDKClient, prompt: str) -> sdk.ResultMessage:
    await client.query(prompt)
    async for message in client.receive_response():
        if isinstance(message, sdk.ResultMessage):
            return message
    raise AssertionError


async def result(prompt: str, **options: Any) -> sdk.ResultMessage:
    async with sdk.ClaudeSDKClient(sdk.ClaudeAgentOptions(**options)) as client:
        return await answer(client, prompt)


def told(server: MessagesServer, number: int) -> set[str]:
    """The names of the tools in a request."""
    return {tool["name"] for tool in server.requests[number].body.get("tools", ())}


def test_a_tool_of_a_server_answers_in_place_of_the_user(server: MessagesServer, tmp_path: Path) -> None:
    server.add(
        use("Bash", command="touch other"), use("Write", file_path="b.txt", content="b"), say("Done."), say("Done.")
    )
    options = {"mcp_servers": {"plain": PLAIN}, "permission_prompt_tool_name": "mcp__plain__may"}
    done = asyncio.run(result("Go", **options))
    assert done.result == "Done."
    assert (tmp_path / "made").exists(), "what the tool has put in place of the command"
    assert not (tmp_path / "b.txt").exists()
    assert "no Write today" in server.requests[2].last_user_text
    assert [each["tool_name"] for each in done.permission_denials or ()] == ["Write"]


def test_only_the_servers_that_are_given(server: MessagesServer, tmp_path: Path) -> None:
    (Path.home() / ".claude.json").write_text(json.dumps({"mcpServers": {"users": PLAIN}}))

    async def names(**options: Any) -> list[str]:
        async with sdk.ClaudeSDKClient(sdk.ClaudeAgentOptions(mcp_servers={"plain": PLAIN}, **options)) as client:
            await answer(client, "Hi")
            return sorted(each["name"] for each in (await client.get_mcp_status())["mcpServers"])

    server.add(say("1"), say("2"))
    assert asyncio.run(names()) == ["plain", "users"]
    assert asyncio.run(names(strict_mcp_config=True)) == ["plain"]


def test_a_server_is_switched_off_on_and_connected_again(server: MessagesServer) -> None:
    async def main() -> None:
        async with sdk.ClaudeSDKClient(sdk.ClaudeAgentOptions(mcp_servers={"plain": PLAIN})) as client:

            async def state() -> str:
                (found,) = (await client.get_mcp_status())["mcpServers"]
                return found["status"]

            await answer(client, "One")
            await client.toggle_mcp_server("plain", enabled=False)
            assert await state() == "disabled"
            await answer(client, "Two")
            await client.toggle_mcp_server("plain", enabled=True)
            await client.reconnect_mcp_server("plain")
            await answer(client, "Three")
            assert await state() == "connected"
            with pytest.raises(sdk.ClaudeSDKError, match="nowhere"):
                await client.reconnect_mcp_server("nowhere")
            with pytest.raises(sdk.ClaudeSDKError, match="nowhere"):
                await client.toggle_mcp_server("nowhere", enabled=False)

    server.add(say("1"), say("2"), say("3"))
    asyncio.run(main())


def test_a_task_in_the_background_is_stopped(server: MessagesServer) -> None:
    async def main() -> None:
        options = sdk.ClaudeAgentOptions(permission_mode="bypassPermissions", allowed_tools=["Bash"])
        async with sdk.ClaudeSDKClient(options) as client:
            await answer(client, "Begin")
            task = background_tasks().all()[-1]  # other tests of this process have some, too
            await client.stop_task(task.id)
            await asyncio.to_thread(eventually, task.run.ended.done)
            with pytest.raises(sdk.ClaudeSDKError, match="nothing-of-this-name"):
                await client.stop_task("nothing-of-this-name")

    from cellwright.tools.shell.background import background_tasks

    server.add(use("Bash", command="sleep 600", run_in_background=True), say("It runs."))
    asyncio.run(main())


def test_model_and_mode_change_between_prompts_and_at_work(server: MessagesServer, tmp_path: Path) -> None:
    gate = Gate()

    async def main() -> None:
        async with sdk.ClaudeSDKClient() as client:
            await answer(client, "One")
            await client.set_model("sonnet")
            await client.set_permission_mode("acceptEdits")
            assert (await answer(client, "Write")).permission_denials in (None, [])
            assert (tmp_path / "a.txt").read_text() == "a"
            await client.query("At work")
            await asyncio.to_thread(gate.wait_until_reached)
            await client.set_permission_mode("plan")
            gate.open()
            async for _ in client.receive_response():
                pass
            assert not (tmp_path / "b.txt").exists()
            await client.set_permission_mode("auto")
            await client.set_model(None)
            await answer(client, "Last")
            with pytest.raises(sdk.ClaudeSDKError, match="sideways"):
                await client.set_permission_mode("sideways")  # type: ignore[arg-type]

    server.add(
        say("1"),
        *(use("Write", file_path="a.txt", content="a"), say("2")),
        *(turn(hold(gate), use("Write", file_path="b.txt", content="b")), say("3")),
        say("4"),
    )
    asyncio.run(main())
    models = [request.body["model"] for request in server.requests]
    assert models == ["claude-opus-5-5", *["claude-sonnet-5-5"] * 4, "claude-opus-5-5"]


def test_an_interrupt_ends_the_prompt_and_its_session_goes_on(server: MessagesServer) -> None:
    gate = Gate()

    async def main() -> None:
        async with sdk.ClaudeSDKClient() as client:
            await client.interrupt()  # nothing is at work: nothing happens
            await client.query("Slow")
            await asyncio.to_thread(gate.wait_until_reached)
            await client.interrupt()
            found = [each async for each in client.receive_response()]
            assert isinstance(found[-1], sdk.ResultMessage)
            assert found[-1].is_error
            assert (await answer(client, "Again")).result == "Here."

    server.add(hold(gate), say("Here."))
    asyncio.run(main())
    gate.open()
    assert "Slow" in json.dumps(server.requests[1].body["messages"])


def test_options_that_a_request_shows(server: MessagesServer, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "note.txt").write_text("from the other folder")

    async def main() -> None:
        await result("A", thinking={"type": "disabled"}, model="claude-opus-5")
        await result("B", thinking={"type": "enabled", "budget_tokens": 2048}, model="claude-haiku-4-5")
        await result("C", max_thinking_tokens=3000, model="claude-haiku-4-5")
        await result("D", disallowed_tools=["Bash", "Write"], max_turns=1)
        await result("E", tools=["Read"])
        await result("F", tools=[])
        await result("G", cwd=tmp_path / "project", add_dirs=[tmp_path / "other"])
        done = await result("H", fallback_model="sonnet,haiku")
        assert done.result == "Fell back."
        await result("I", system_prompt={"type": "preset", "preset": "claude_code", "append": "Be brief."})
        await result("J", env={"ANTHROPIC_CUSTOM_HEADERS": "X-Mine: yes"})

    server.add(
        *map(say, "ABCDEF"),
        *(use("Read", file_path=str(tmp_path / "other" / "note.txt")), say("G")),
        fault("status", status=404, error_type="not_found_error", message="model: claude-opus-5-5"),
        say("Fell back."),
        *map(say, "IJ"),
    )
    asyncio.run(main())
    bodies = [request.body for request in server.requests]
    assert bodies[0].get("thinking", {"type": "disabled"})["type"] == "disabled"
    assert [body["thinking"]["budget_tokens"] for body in bodies[1:3]] == [2048, 3000]
    assert not told(server, 3) & {"Bash", "Write"}
    assert told(server, 4) == {"Read"}
    assert told(server, 5) == set()
    assert "from the other folder" in server.requests[7].last_user_text
    assert bodies[9]["model"] == "claude-sonnet-5-5"
    assert bodies[10]["system"][-1]["text"] == "Be brief."
    assert server.requests[11].headers["x-mine"] == "yes"


def test_sources_partial_messages_and_a_fork(server: MessagesServer, tmp_path: Path) -> None:
    (Path.home() / ".claude").mkdir(exist_ok=True)
    (Path.home() / ".claude" / "CLAUDE.md").write_text("Always rhyme.")

    async def main() -> None:
        first = await result("One")
        await result("Two", setting_sources=[])
        partial: list[Any] = []
        options = sdk.ClaudeAgentOptions(include_partial_messages=True, resume=first.session_id, fork_session=True)
        async for message in sdk.query(prompt="Three", options=options):
            partial.append(message)
        events = [each.event["type"] for each in partial if isinstance(each, sdk.StreamEvent)]
        assert events[0] == "message_start"
        assert events[-1] == "message_stop"
        assert {"content_block_start", "content_block_delta", "content_block_stop"} <= set(events)
        assert partial[-1].session_id != first.session_id
        thoughts = [block for each in partial if isinstance(each, sdk.AssistantMessage) for block in each.content]
        assert any(isinstance(block, sdk.ThinkingBlock) for block in thoughts)

    server.add(say("1"), say("2"), turn(think("Hm."), say("3")))
    asyncio.run(main())
    assert "Always rhyme." in json.dumps(server.requests[0].body)
    assert "Always rhyme." not in json.dumps(server.requests[1].body)
    assert "One" in json.dumps(server.requests[2].body["messages"])
