"""A conversation in a project of a user's, with a server that answers from a script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import Event, RunEnd, ToolEnd
from cellwright.features.conversation import Conversation
from cellwright.testing import MessagesServer, say


class ProjectTalk:
    """`home` is the user's, `project` a repository in it. What Claude wants is answered with `answer`."""

    def __init__(self, server: MessagesServer, root: Path) -> None:
        self.server, self.home = server, root / "home"
        self.project = self.home / "project"
        (self.project / ".git").mkdir(parents=True)
        self.events: list[Event] = []
        self.asked: list[ToolUse] = []
        self.answer: Allow | Deny = Deny("not now")
        self.environ = {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
            "HOME": str(self.home),
            "PATH": "/usr/bin:/bin",
        }

    def write(self, name: str, text: str) -> Path:
        """Write a file; `name` is its path in the user's home."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def begin(self, *, trust: bool = True) -> Conversation:
        """Begin a conversation, as in a new process; what the project brings is trusted."""
        self.conversation = Conversation(Host(cwd=self.project, interface="a test", environ=self.environ))
        while trust and (question := self.conversation.in_force.question()) is not None:
            self.conversation.in_force.answer(question, yes=True)
        return self.conversation

    def start(self, prompt: str, *turns: Any, resume: str | None = None, **options: Any) -> Run:
        """Begin a run with these `RunOptions`, for which the model says `turns`."""
        self.server.add(*turns or (say("Good."),))
        self.events.clear()
        request = RunRequest(prompt=prompt, options=RunOptions(**options), resume=resume)
        return self.conversation.start(request, RunSurface(self.events.append, self._can_use_tool))

    def run(self, prompt: str, *turns: Any, **options: Any) -> RunEnd:
        run = self.start(prompt, *turns, **options)
        self.conversation.jobs.work_until_done(run)
        return run.result()

    def say(self, prompt: str, *turns: Any, **options: Any) -> RunEnd:
        """Run it; it must end well."""
        end = self.run(prompt, *turns, **options)
        assert end.error is None, end.error
        return end

    def end(self) -> None:
        """End the conversation. The API has refused nothing."""
        self.conversation.close()
        assert self.server.rejected == []

    @property
    def results(self) -> list[ToolEnd]:
        return [event for event in self.events if isinstance(event, ToolEnd)]

    async def _can_use_tool(self, use: ToolUse) -> Allow | Deny:
        self.asked.append(use)
        return self.answer
