"""Hooks of settings files in an agent's run: what they say arrives, beside callables, at the right time."""

import asyncio
import os

import pytest
from hook_scenes import command, group, hooks_of, saying

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.hooks.make_hooks import as_hooks, together
from cellwright.agent.loop import run_agent
from cellwright.agent.tool import tool
from cellwright.conversation.system_prompt import system_blocks
from cellwright.events import Notice, RunEnd, ToolEnd, ToolProgress
from cellwright.model.anthropic import connect
from cellwright.permissions.policy import PermissionPolicy
from cellwright.sessions.session import Session
from cellwright.testing import say, use


@tool
async def change(name: str) -> str:
    """Change something."""
    return f"changed {name}"


class Played:
    def __init__(self, server, session):
        self.server, self.session, self.events = server, session, []

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def notices(self):
        return [event.message for event in self.of(Notice)]

    @property
    def end(self) -> RunEnd:
        return self.events[-1]

    def texts(self, number):
        return [block["text"] for block in self.session.messages[number]["content"] if block["type"] == "text"]


@pytest.fixture
def play(messages_server, tmp_path):
    def run(script, hooks, prompts=("go",)) -> Played:
        server = messages_server(script)
        agent = AgentSetup(
            provider=connect({"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}),
            model="claude-opus-5-5",
            system=system_blocks(),
            tools=(change,),
            policy=PermissionPolicy(mode="bypassPermissions", roots=(tmp_path,), cwd=tmp_path),
            hooks=hooks,
        )
        played = Played(server, Session.create(tmp_path, tmp_path / "sessions"))

        async def runs():
            for prompt in prompts:
                await run_agent(agent, prompt, played.session, played.events.append)

        asyncio.run(runs())
        assert server.rejected == []
        return played

    return run


CALL = [use("change", name="x"), say("Done.")]


def test_a_failure_is_a_notice_once(play, tmp_path):
    hooks = hooks_of(tmp_path, {"PostToolUse": [group(command("echo broken >&2; exit 1"))]})
    played = play([use("change", name="a"), *CALL], hooks)
    (notice,) = played.of(Notice)
    assert notice.level == "warning"
    assert "exited with 1: broken" in notice.message
    assert len(notice.message) < 300


def test_what_is_broken_in_the_settings_is_told_with_the_first_run(play, tmp_path):
    hooks = hooks_of(tmp_path, {"Stop": [group({"type": "command"})]})
    played = play([say("one"), say("two")], hooks, ("first", "second"))
    assert len(played.notices) == 1
    assert "`command` is missing" in played.notices[0]


def test_a_status_message_is_shown_while_a_hook_runs(play, tmp_path):
    events = {
        "PreToolUse": [group(command("true", statusMessage="Checking the change"))],
        "Stop": [group(command("true", statusMessage="Running the tests"))],
    }
    played = play(CALL, hooks_of(tmp_path, events))
    assert [event.message for event in played.of(ToolProgress)] == ["Checking the change"]
    assert played.notices == ["Running the tests"]


def test_settings_hooks_and_callables_are_told_together(play, tmp_path):
    answer = {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "from a command"}}
    settings = hooks_of(tmp_path, {"PostToolUse": [group(command(saying(answer)))]})

    async def call(*_):
        return {"decision": "block", "reason": "from a callable"}

    played = play(CALL, together(settings, as_hooks({"PostToolUse": [call]})))
    objection, context = played.texts(2)
    assert "from a callable" in objection
    assert "from a command" in context


class Release:
    """A Stop hook that lets the waiting hook in the background go on, once, and waits for its end."""

    def __init__(self, pipe, settings):
        self.pipe, self.settings, self.stops = pipe, settings, []

    async def __call__(self, hook_input, *_):
        self.stops.append(hook_input["stop_hook_active"])
        if len(self.stops) == 1:
            await asyncio.to_thread(self.pipe.write_text, "go", "utf-8")
            while not self.settings.waiting:
                await asyncio.sleep(0.001)


@pytest.fixture
def in_background(tmp_path):
    """`in_background(text, …)`: hooks with a command that runs on until Claude is done, and what lets it end."""
    os.mkfifo(tmp_path / "pipe")

    def make(text, **fields):
        settings = hooks_of(tmp_path, {"PostToolUse": [group(command(f"cat pipe >&2; {text}", **fields))]})
        release = Release(tmp_path / "pipe", settings)
        return together(settings, as_hooks({"Stop": [release]})), release

    return make


def test_what_a_hook_in_the_background_says_goes_with_the_next_message(play, in_background):
    answer = {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "indexed"}}
    hooks, _ = in_background(saying(answer), **{"async": True})
    played = play([*CALL, say("two")], hooks, ("first", "second"))
    assert played.texts(2) == []
    assert "indexed" in played.texts(4)[1]


def test_a_hook_in_the_background_wakes_a_run_that_is_about_to_end(play, in_background):
    hooks, release = in_background("echo 'the build broke' >&2; exit 2", asyncRewake=True)
    played = play([*CALL, say("Mended.")], hooks)
    assert played.end.text == "Mended."
    assert "the build broke" in played.texts(4)[0]
    assert release.stops == [False, True]


def test_a_denial_reaches_claude_as_the_result(play, tmp_path):
    hooks = hooks_of(tmp_path, {"PreToolUse": [group(command("echo 'not here' >&2; exit 2"), matcher="change")]})
    played = play(CALL, hooks)
    assert ": not here" in played.of(ToolEnd)[0].content
