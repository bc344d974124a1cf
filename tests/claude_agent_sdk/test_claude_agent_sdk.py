"""Programs of claude-agent-sdk with the import changed: each example of the SDK's repository, in its shape.

They are written anew after `examples/` of anthropics/claude-agent-sdk-python 0.2.189: with short prompts, and with waits
for events in place of times.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from cellwright.claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLIConnectionError,
    HookContext,
    HookInput,
    HookJSONOutput,
    HookMatcher,
    Message,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultError,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolPermissionContext,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.testing import Gate, MessagesServer, hold, say, use

Server = Callable[..., MessagesServer]


@pytest.fixture
def server(messages_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MessagesServer:
    """The model; programs are in an empty folder."""
    made = messages_server()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", made.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", made.api_key)
    monkeypatch.chdir(tmp_path)
    return made


def texts(message: Message) -> list[str]:
    """What Claude says in a message."""
    if not isinstance(message, AssistantMessage):
        return []
    return [block.text for block in message.content if isinstance(block, TextBlock)]


async def said(prompt: str, options: ClaudeAgentOptions | None = None) -> tuple[list[str], ResultMessage]:
    """All that Claude says to a prompt, and the result."""
    found: list[str] = []
    result: ResultMessage | None = None
    async for message in query(prompt=prompt, options=options):
        found += texts(message)
        if isinstance(message, ResultMessage):
            result = message
    assert result is not None
    return found, result


def test_quick_start(server: MessagesServer, tmp_path: Path) -> None:
    async def main() -> None:
        assert (await said("What is 2 + 2?"))[0] == ["4."]
        short = ClaudeAgentOptions(system_prompt="You explain things simply.", max_turns=1)
        told = await said("Explain Python in one sentence.", short)
        assert told[0] == ["A language."]
        files = ClaudeAgentOptions(allowed_tools=["Read", "Write"], system_prompt="You are a file assistant.")
        words, result = await said("Create hello.txt", files)
        assert words == ["Made."]
        assert result.total_cost_usd is not None
        assert result.total_cost_usd > 0

    server.add(
        say("4."), say("A language."), use("Write", file_path="hello.txt", content="Hello, World!"), say("Made.")
    )
    anyio.run(main)
    assert (tmp_path / "hello.txt").read_text() == "Hello, World!"
    assert server.requests[1].body["system"][0]["text"] == "You explain things simply."


@tool("add", "Add two numbers", {"a": float, "b": float})
async def add(args: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"{args['a']} + {args['b']} = {args['a'] + args['b']}"}]}


@tool("divide", "Divide one number by another", {"a": float, "b": float})
async def divide(args: dict[str, Any]) -> dict[str, Any]:
    if args["b"] == 0:
        return {"content": [{"type": "text", "text": "Error: division by zero"}], "is_error": True}
    return {"content": [{"type": "text", "text": str(args["a"] / args["b"])}]}


def test_mcp_calculator(server: MessagesServer) -> None:
    calculator = create_sdk_mcp_server(name="calculator", version="2.0.0", tools=[add, divide])
    options = ClaudeAgentOptions(
        mcp_servers={"calc": calculator}, allowed_tools=["mcp__calc__add", "mcp__calc__divide"]
    )
    shown: list[str] = []

    def display(message: Message) -> None:
        match message:
            case UserMessage(content=list(blocks)):
                shown.extend(f"result: {each.content}" for each in blocks if isinstance(each, ToolResultBlock))
            case AssistantMessage():
                shown.extend(f"{each.name} {each.input}" for each in message.content if isinstance(each, ToolUseBlock))
                shown.extend(texts(message))
            case ResultMessage():
                shown.append("end")

    async def main() -> None:
        for prompt in ("Calculate 15 + 27", "Divide 1 by 0"):
            async with ClaudeSDKClient(options=options) as client:
                await client.query(prompt)
                async for message in client.receive_response():
                    display(message)

    server.add(
        use("mcp__calc__add", a=15, b=27),
        say("42."),
        use("mcp__calc__divide", a=1, b=0),
        say("It cannot be done."),
    )
    asyncio.run(main())
    assert shown == [
        "mcp__calc__add {'a': 15, 'b': 27}",
        "result: 15 + 27 = 42",
        "42.",
        "end",
        "mcp__calc__divide {'a': 1, 'b': 0}",
        "result: Error: division by zero",
        "It cannot be done.",
        "end",
    ]


def test_tool_permission_callback(server: MessagesServer, tmp_path: Path) -> None:
    log: list[tuple[str, Any]] = []

    async def decide(
        name: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        log.append((name, context.suggestions))
        if name == "Write" and given["file_path"].startswith("/etc/"):
            return PermissionResultDeny(message=f"Cannot write to system directory: {given['file_path']}")
        if name == "Write" and not given["file_path"].startswith("./"):
            safe = f"./safe_output/{Path(given['file_path']).name}"
            return PermissionResultAllow(updated_input={**given, "file_path": safe})
        if name == "Bash" and "rm -rf" in given["command"]:
            return PermissionResultDeny(message="Dangerous command pattern: rm -rf")
        return PermissionResultAllow()

    async def main() -> ResultMessage:
        options = ClaudeAgentOptions(can_use_tool=decide, permission_mode="default", cwd=".")
        async with ClaudeSDKClient(options) as client:
            await client.query("List the files, write hello.py, run it.")
            async for message in client.receive_response():
                if isinstance(message, ResultMessage):
                    return message
        raise AssertionError

    server.add(
        use("Write", file_path="hello.py", content="print(1)\n"),
        use("Write", file_path="/etc/hello.py", content="print(1)\n"),
        use("Bash", command="rm -rf safe_output"),
        say("Done."),
    )
    result = asyncio.run(main())
    assert [name for name, _ in log] == ["Write", "Write", "Bash"]
    assert (tmp_path / "safe_output" / "hello.py").is_file()
    assert not (tmp_path / "hello.py").exists()
    assert [each["tool_name"] for each in result.permission_denials or ()] == ["Write", "Bash"]


async def check_command(given: HookInput, tool_use_id: str | None, context: HookContext) -> HookJSONOutput:
    """The example's hook: no call of `foo.sh`."""
    if given["hook_event_name"] != "PreToolUse" or "foo.sh" not in given["tool_input"]["command"]:
        return {}
    why = "Command contains invalid pattern: foo.sh"
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": why,
        }
    }


async def add_instructions(given: HookInput, tool_use_id: str | None, context: HookContext) -> HookJSONOutput:
    """The example's answer names another event than the one that it is for: Claude Code refuses it, and so do we."""
    return {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "I like hot pink"}}


async def review_output(given: HookInput, tool_use_id: str | None, context: HookContext) -> HookJSONOutput:
    if "error" not in str(given.get("tool_response", "")).lower():
        return {}
    return {
        "systemMessage": "The command produced an error",
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "Try a different approach."},
    }


async def approve(given: HookInput, tool_use_id: str | None, context: HookContext) -> HookJSONOutput:
    important = given["hook_event_name"] == "PreToolUse" and "important" in given["tool_input"]["file_path"]
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny" if important else "allow",
            "permissionDecisionReason": "Security policy blocks writes to important files" if important else "checked",
        },
    }


async def stop_on_error(given: HookInput, tool_use_id: str | None, context: HookContext) -> HookJSONOutput:
    if "critical" in str(given.get("tool_response", "")).lower():
        return {"continue_": False, "stopReason": "Critical error detected"}
    return {"continue_": True}


def test_hooks(server: MessagesServer, tmp_path: Path) -> None:
    (tmp_path / "foo.sh").write_text("echo ran > ran\n")

    async def talk(options: ClaudeAgentOptions, *prompts: str) -> list[Message]:
        found: list[Message] = []
        async with ClaudeSDKClient(options=options) as client:
            for prompt in prompts:
                await client.query(prompt)
                found += [message async for message in client.receive_response()]
        return found

    async def main() -> list[list[Message]]:
        pre = ClaudeAgentOptions(
            allowed_tools=["Bash"], hooks={"PreToolUse": [HookMatcher(matcher="Bash", hooks=[check_command])]}
        )
        submit = ClaudeAgentOptions(hooks={"UserPromptSubmit": [HookMatcher(matcher=None, hooks=[add_instructions])]})
        post = ClaudeAgentOptions(
            allowed_tools=["Bash"], hooks={"PostToolUse": [HookMatcher(matcher="Bash", hooks=[review_output])]}
        )
        fields = ClaudeAgentOptions(
            allowed_tools=["Write", "Bash"],
            model="claude-sonnet-4-5-20250929",
            hooks={"PreToolUse": [HookMatcher(matcher="Write", hooks=[approve])]},
        )
        stop = ClaudeAgentOptions(
            allowed_tools=["Bash"], hooks={"PostToolUse": [HookMatcher(matcher="Bash", hooks=[stop_on_error])]}
        )
        return [
            await talk(pre, "Run ./foo.sh", "Run echo hello"),
            await talk(submit, "What is my favourite colour?"),
            await talk(post, "Say error"),
            await talk(fields, "Write two files"),
            await talk(stop, "Run a command that prints CRITICAL ERROR"),
        ]

    server.add(
        use("Bash", command="sh foo.sh"),
        say("It was blocked."),
        use("Bash", command="echo hello"),
        say("hello"),
        say("Hot pink."),
        use("Bash", command="echo an error"),
        say("I see."),
        use("Write", file_path="important_config.txt", content="x"),
        use("Write", file_path="regular.txt", content="x"),
        say("One of two."),
        use("Bash", command="echo CRITICAL ERROR"),
    )
    _, submitted, *_, stopped = asyncio.run(main())
    assert not (tmp_path / "ran").exists()
    told = [each.data["content"] for each in submitted if isinstance(each, SystemMessage) and each.subtype != "init"]
    assert ["SessionStart" in each for each in told] == [True]
    assert "Try a different approach." in json.dumps(server.requests[6].body["messages"])
    assert sorted(path.name for path in tmp_path.glob("*.txt")) == ["regular.txt"]
    assert isinstance(stopped[-1], ResultMessage)
    assert (server.remaining_turns, server.rejected) == (0, [])


def test_agents(server: MessagesServer, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    reviewer = AgentDefinition(
        description="Reviews code", prompt="You are a code reviewer.", tools=["Read", "Grep"], model="sonnet"
    )

    async def main(*, whole: bool) -> list[Message]:
        options = ClaudeAgentOptions(
            agents={"code-reader": reviewer}, setting_sources=["user", "project"], forward_subagent_text=whole
        )
        return [message async for message in query(prompt="Use the code-reader agent on a.py", options=options)]

    for whole in (False, True):
        server.add(
            use("Agent", subagent_type="code-reader", description="review", prompt="Review a.py"),
            use("Read", file_path=str(tmp_path / "a.py")),
            say("It is fine."),
            say("The agent says that it is fine."),
        )
        messages = anyio.run(lambda whole=whole: main(whole=whole))
        assert isinstance(messages[-1], ResultMessage)
        assert messages[-1].result == "The agent says that it is fine."
        of_agent = [each for each in messages if getattr(each, "parent_tool_use_id", None)]
        assert [type(each).__name__ for each in of_agent] == ["AssistantMessage", "UserMessage"] + (
            ["AssistantMessage"] if whole else []
        )
        named = [each.subtype for each in messages if isinstance(each, SystemMessage)]
        assert named == ["init", "task_started", "task_notification"]
    assert "You are a code reviewer." in json.dumps(server.requests[1].body["system"])


def test_streaming_mode(server: MessagesServer) -> None:
    """Turns, a reader beside the prompts, an interrupt, messages by hand, a stream of prompts, errors."""
    gate = Gate()

    async def answer(client: ClaudeSDKClient) -> list[str]:
        return [text async for message in client.receive_response() for text in texts(message)]

    async def prompts() -> AsyncIterator[dict[str, Any]]:
        for content in ("Hello!", "What is the capital of Japan?"):
            message = {"role": "user", "content": content}
            yield {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "qa"}

    async def main() -> None:
        async with ClaudeSDKClient() as client:
            await client.query("What is the capital of France?")
            assert await answer(client) == ["Paris."]
            await client.query("And its population?")
            assert await answer(client) == ["Two million."]
            assert "capital of France" in json.dumps(server.requests[1].body["messages"])

            heard: list[Message] = []
            results = asyncio.Queue[ResultMessage]()

            async def listen() -> None:
                async for message in client.receive_messages():
                    heard.append(message)
                    if isinstance(message, ResultMessage):
                        results.put_nowait(message)

            listening = asyncio.create_task(listen())
            for question in ("2 + 2?", "10 % of 80?"):
                await client.query(question)
            assert [(await results.get()).result, (await results.get()).result] == ["4", "8"]

            await client.query("Count from 1 to 100 slowly")
            await asyncio.to_thread(gate.wait_until_reached)
            await client.interrupt()
            interrupted = await results.get()
            assert (interrupted.subtype, interrupted.is_error) == ("error_during_execution", True)
            listening.cancel()
            await client.query("Just a joke")
            assert await answer(client) == ["A joke."]

            await client.query(prompts())
            assert await answer(client) == ["Hello."]
            assert await answer(client) == ["Tokyo."]

            info = await client.get_server_info()
            assert info is not None
            assert {"compact", "code-review"} <= {each["name"] for each in info["commands"]}
            assert info["output_style"] in info["available_output_styles"]

        with pytest.raises(CLIConnectionError, match=r"connect\(\) first"):
            await client.query("Too late")

    server.add(
        say("Paris."),
        say("Two million."),
        say("4"),
        say("8"),
        hold(gate),
        say("A joke."),
        say("Hello."),
        say("Tokyo."),
    )
    asyncio.run(main())
    gate.open()


def test_a_timeout_and_a_disconnect(server: MessagesServer) -> None:
    """As in the example of errors: the wait is given up, and the client leaves what goes on."""
    gate = Gate()

    async def main() -> None:
        client = ClaudeSDKClient()
        try:
            await client.connect()
            await client.query("Wait")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(client.receive_response()), 0)
        finally:
            await client.disconnect()

    server.add(hold(gate))
    asyncio.run(main())
    gate.open()


def test_streaming_mode_with_trio(server: MessagesServer) -> None:
    trio = pytest.importorskip("trio")
    here: list[bool] = []

    @tool("double", "Double a number", {"n": int})
    async def double(args: dict[str, Any]) -> dict[str, Any]:
        await trio.sleep(0)
        here.append(trio.lowlevel.in_trio_run())
        return {"content": [{"type": "text", "text": str(2 * args["n"])}]}

    async def main() -> list[str]:
        options = ClaudeAgentOptions(
            model="claude-sonnet-4-5",
            mcp_servers={"m": create_sdk_mcp_server("m", tools=[double])},
            allowed_tools=["mcp__m"],
        )
        found: list[str] = []
        async with ClaudeSDKClient(options=options) as client:
            for prompt in ("15 + 27?", "Twice that?"):
                await client.query(prompt)
                async for message in client.receive_response():
                    found += texts(message)
        return found

    server.add(say("42"), use("mcp__m__double", n=42), say("84"))
    assert trio.run(main) == ["42", "84"]
    assert here == [True]


def test_system_prompts(server: MessagesServer) -> None:
    preset: Any = {"type": "preset", "preset": "claude_code"}

    async def main() -> None:
        for prompt in (None, "You are a pirate.", preset, {**preset, "append": "End with a fun fact."}):
            await said("What is 2 + 2?", ClaudeAgentOptions(system_prompt=prompt))

    server.add(*[say("4.")] * 4)
    anyio.run(main)
    own, pirate, again, more = ([each["text"] for each in request.body["system"]] for request in server.requests)
    assert pirate[0] == "You are a pirate."
    assert again == own
    assert more[-1] == "End with a fun fact."


def test_include_partial_messages(server: MessagesServer) -> None:
    async def main() -> list[Message]:
        options = ClaudeAgentOptions(
            include_partial_messages=True,
            model="claude-sonnet-4-5",
            max_turns=2,
            env={"MAX_THINKING_TOKENS": "8000"},
        )
        client = ClaudeSDKClient(options)
        try:
            await client.connect()
            await client.query("Tell a joke")
            return [message async for message in client.receive_response()]
        finally:
            await client.disconnect()

    server.add(say("A joke of some length, in pieces."))
    messages = asyncio.run(main())
    events = [each.event for each in messages if isinstance(each, StreamEvent)]
    assert [event["type"] for event in events][:2] == ["message_start", "content_block_start"]
    pieces = [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(pieces) == "A joke of some length, in pieces."
    assert server.requests[0].body["thinking"] == {"type": "enabled", "budget_tokens": 8000}


def test_stderr_callback(server: MessagesServer) -> None:
    lines: list[str] = []
    server.add(say("4."))
    words, _ = asyncio.run(said("What is 2+2?", ClaudeAgentOptions(stderr=lines.append)))
    assert words == ["4."]


def test_plugins(server: MessagesServer, tmp_path: Path) -> None:
    plugin = tmp_path / "plugins" / "demo-plugin"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / "commands").mkdir()
    (plugin / ".claude-plugin" / "plugin.json").write_text('{"name": "demo-plugin", "version": "1.0.0"}')
    (plugin / "commands" / "greet.md").write_text("# Greet\n\nGreet the user warmly.\n")

    async def main() -> dict[str, Any]:
        options = ClaudeAgentOptions(plugins=[{"type": "local", "path": str(plugin)}], max_turns=1)
        async for message in query(prompt="/demo-plugin:greet", options=options):
            if isinstance(message, SystemMessage) and message.subtype == "init":
                return message.data
        raise AssertionError

    server.add(say("Hello!"))
    facts = anyio.run(main)
    assert facts["plugins"] == [{"name": "demo-plugin", "path": str(plugin)}]
    assert "demo-plugin:greet" in facts["slash_commands"]


def test_tools_option(server: MessagesServer) -> None:
    async def tools(value: Any) -> list[str]:
        async for message in query(prompt="Which tools?", options=ClaudeAgentOptions(tools=value, max_turns=1)):
            if isinstance(message, SystemMessage) and message.subtype == "init":
                found: list[str] = message.data["tools"]
        return found

    async def main() -> list[list[str]]:
        return [await tools(["Read", "Glob", "Grep"]), await tools([]), await tools({"type": "preset"})]

    server.add(*[say("These.")] * 3)
    some, none, every = anyio.run(main)
    assert (sorted(some), none) == (["Glob", "Grep", "Read"], [])
    assert {"Bash", "Edit", "Read", "WebFetch"} <= set(every)
    assert sorted(each["name"] for each in server.requests[0].body["tools"]) == ["Glob", "Grep", "Read"]
    assert "tools" not in server.requests[1].body


def test_setting_sources_and_filesystem_agents(server: MessagesServer, tmp_path: Path) -> None:
    (tmp_path / ".claude" / "commands").mkdir(parents=True)
    (tmp_path / ".claude" / "agents").mkdir()
    (tmp_path / ".claude" / "commands" / "commit.md").write_text("Commit.")
    (tmp_path / ".claude" / "agents" / "test-agent.md").write_text(
        "---\nname: test-agent\ndescription: Tests.\n---\nYou test.\n"
    )
    in_force = SettingsInForce(tmp_path, os.environ)
    while (question := in_force.question()) is not None:  # the folder is trusted
        in_force.answer(question, yes=True)

    async def found(sources: Any) -> tuple[bool, bool]:
        async with ClaudeSDKClient(ClaudeAgentOptions(setting_sources=sources, cwd=tmp_path)) as client:
            await client.query("Say hello in three words")
            messages = [message async for message in client.receive_response()]
        [facts] = [each.data for each in messages if isinstance(each, SystemMessage) and each.subtype == "init"]
        assert [type(each).__name__ for each in messages[-2:]] == ["AssistantMessage", "ResultMessage"]
        return "commit" in facts["slash_commands"], "test-agent" in facts["agents"]

    async def main() -> list[tuple[bool, bool]]:
        return [await found(None), await found([]), await found(["user"]), await found(["user", "project"])]

    server.add(*[say("Hello my friend.")] * 4)
    assert asyncio.run(main()) == [(True, True), (False, False), (False, False), (True, True)]


def test_max_budget_usd(server: MessagesServer) -> None:
    results: list[str] = []

    async def main() -> None:
        nonlocal results
        _, result = await said("What is 2 + 2?", ClaudeAgentOptions(max_budget_usd=100.0))
        assert (result.subtype, (result.total_cost_usd or 0) > 0) == ("success", True)
        async for message in query(prompt="Read README.md", options=ClaudeAgentOptions(max_budget_usd=0.0001)):
            results += [message.subtype] if isinstance(message, ResultMessage) else []

    server.add(say("4."))
    with pytest.raises(ResultError) as caught:  # as the SDK does, after the message
        anyio.run(main)
    assert (results, caught.value.subtype) == (["error_max_budget_usd"], "error_max_budget_usd")


NOTEBOOK_CELLS = [
    """
from cellwright.claude_agent_sdk import AssistantMessage, ClaudeSDKClient, TextBlock
client = ClaudeSDKClient()
await client.connect()
async def get_response():
    async for msg in client.receive_response():
        if isinstance(msg, AssistantMessage):
            print(*(block.text for block in msg.content if isinstance(block, TextBlock)))
await client.query("What's 2+2?")
await get_response()
""",
    """
await client.query("What's 10*10?")
await get_response()
await client.disconnect()
""",
]


def test_streaming_mode_in_ipython(server: MessagesServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Cells of IPython, one after another on one loop, with `await` at the top."""
    import ast
    import inspect

    names: dict[str, Any] = {}

    async def main() -> None:
        for cell in NOTEBOOK_CELLS:
            code = compile(cell, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            made = eval(code, names)
            if inspect.iscoroutine(made):
                await made

    server.add(say("4"), say("100"))
    asyncio.run(main())
    assert capsys.readouterr().out == "4\n100\n"
