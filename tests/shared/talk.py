"""A conversation in a project of its own against a local Messages API: what it asked, what it showed, what commands say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.commands.command import CommandCall, CommandPage
from cellwright.commands.registry import answer_of, command_of
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import Event, Notice, RunEnd, ToolEnd
from cellwright.features.conversation import Conversation
from cellwright.testing import MessagesServer, say


class Talk:
    """`asked` are the questions of permission, all answered with `answer`."""

    def __init__(self, server: MessagesServer, root: Path, **environ: str) -> None:
        self.server = server
        self.home, self.project = root / "home", root / "home" / "project"
        (self.project / ".git").mkdir(parents=True)
        self.environ = {
            "HOME": str(self.home),
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
            **environ,
        }
        self.events: list[Event] = []
        self.asked: list[ToolUse] = []
        self.answer: Allow | Deny = Allow()
        self._made: Conversation | None = None

    @property
    def conversation(self) -> Conversation:
        """The conversation; made when it is first used, by the files as they are then."""
        if self._made is None:
            self._made = Conversation(Host(cwd=self.project, interface="a test", environ=self.environ))
        return self._made

    def write(self, name: str, text: str) -> Path:
        """Write a file below the home, which the project is in."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def settings(self, **values: Any) -> None:
        """Write the user's settings."""
        self.write(".claude/settings.json", json.dumps(values))

    def trust(self) -> None:
        """Answer every question about the folder with yes."""
        while (question := self.conversation.in_force.question()) is not None:
            self.conversation.in_force.answer(question, yes=True)

    def say(self, prompt: str, *turns: Any, headless: bool = False, **options: Any) -> RunEnd:
        """Have a prompt answered by `turns`."""
        self.server.add(*turns or (say("Good."),))
        self.events.clear()
        surface = RunSurface(self.events.append, can_use_tool=None if headless else self._answer)
        run = self.conversation.start(RunRequest(prompt=prompt, options=RunOptions(**options)), surface)
        self.conversation.jobs.work_until_done(run)
        return run.result()

    async def _answer(self, use: ToolUse) -> Allow | Deny:
        self.asked.append(use)
        return self.answer

    def page(self, prompt: str, **options: Any) -> CommandPage:
        """The page of a slash command. Raises what the command raises."""
        command, text = command_of(prompt)
        call = CommandCall(self.conversation, RunOptions(**options), text)
        return self.conversation.thread.submit(answer_of(command, call)).future.result(60)

    def body(self, at: int = -1) -> Any:
        """A request's body; the newest one's."""
        return self.server.requests[at].body

    @property
    def system(self) -> str:
        """The system prompt of the newest request."""
        return "\n".join(block["text"] for block in self.body()["system"])

    @property
    def results(self) -> list[tuple[str, str]]:
        """The status and the text of each call of the last run."""
        return [(event.status, str(event.content)) for event in self.events if isinstance(event, ToolEnd)]

    @property
    def notices(self) -> list[str]:
        """The notices of the last run."""
        return [event.message for event in self.events if isinstance(event, Notice)]

    def close(self) -> None:
        """End the conversation."""
        if self._made is not None:
            self._made.close()
