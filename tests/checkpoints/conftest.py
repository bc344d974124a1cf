"""A conversation in a folder of its own whose model does what a script says, and a user who undoes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow, CanUseTool, Deny, ToolUse
from cellwright.commands.command import CommandCall
from cellwright.commands.registry import answer_of, command_of
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import Event, RunEnd, TurnChanged
from cellwright.features.conversation import Conversation
from cellwright.sessions.session import Session
from cellwright.testing import MessagesServer, say, turn


class Work:
    """One conversation, its folder, and the commands a user may type."""

    def __init__(self, server: MessagesServer, cwd: Path) -> None:
        self.server = server
        self.cwd = cwd
        self.environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        self.conversation = Conversation(Host(cwd=cwd, interface="a test", environ=self.environ))
        self.events: list[Event] = []
        self.asked: list[ToolUse] = []

    def say(self, prompt: str = "Go.", *, session: Session | None = None, mode: str = "bypassPermissions") -> RunEnd:
        self.events.clear()
        options = RunOptions(mode=mode)
        task = self.conversation.start(
            RunRequest(prompt=prompt, options=options, session=session), RunSurface(self.events.append)
        )
        self.conversation.jobs.work_until_done(task)
        return task.result()

    def type(self, line: str, answer: str | None = "yes") -> str:
        """A slash command, as a page of text. `answer`: yes, no, one of the further answers, or None: nobody is there."""
        command, text = command_of(line)
        ask_user = None if answer is None else self._answers(answer)
        call = CommandCall(self.conversation, RunOptions(), text, self.events.append, ask_user)
        task = self.conversation.thread.submit(answer_of(command, call))
        self.conversation.jobs.work_until_done(task)
        return task.result().plain()

    def _answers(self, answer: str) -> CanUseTool:
        async def ask_user(use: ToolUse) -> Allow | Deny:
            self.asked.append(use)
            if answer == "no":
                return Deny("", "input")
            return Allow({"choice": answer} if answer != "yes" else None, by="input")

        return ask_user

    def again(self) -> None:
        """As after a restart of the kernel: another process would read the same from the disk."""
        self.conversation.close()
        self.conversation = Conversation(Host(cwd=self.cwd, interface="a test", environ=self.environ))
        self.conversation.sessions.resume_newest()

    @property
    def changed(self) -> TurnChanged:
        return next(event for event in self.events if isinstance(event, TurnChanged))

    def sent(self) -> str:
        """The last request's last user message, as text."""
        return "\n".join(block.get("text", "") for block in self.server.requests[-1].body["messages"][-1]["content"])

    def put(self, name: str, text: str) -> Path:
        path = self.cwd / name
        path.write_text(text)
        return path

    def read(self, name: str) -> str | None:
        path = self.cwd / name
        return path.read_text() if path.exists() else None


@pytest.fixture
def work(messages_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Work]]:
    """Makes the conversation of a script: one list of calls for each prompt; each prompt ends with a word.

    Calls of one message are in a tuple.
    """
    made: list[Work] = []
    monkeypatch.setenv("IS_SANDBOX", "1")
    cwd = tmp_path / "project"
    cwd.mkdir()

    def make(*prompts: list[Any]) -> Work:
        script: list[Any] = []
        for calls in prompts:
            turns = (turn(*call) if isinstance(call, tuple) else turn(call) for call in calls)
            script += [*turns, turn(say("Done."))]
        work = Work(messages_server(script), cwd)
        work.environ["IS_SANDBOX"] = "1"
        made.append(work)
        return work

    yield make
    for each in made:
        each.conversation.close()
        assert not each.server.rejected
    asyncio.set_event_loop(None)
