"""A scripted session of any length: the model reads, keeps a list, ends turns, and sums up what it finds when asked.

Every prompt states a fact; a request in which one of them is missing is noted.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

from msgspec import Struct

from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import ContextCompacted, Event
from cellwright.features.conversation import Conversation
from cellwright.testing import MessagesServer, say, think, turn, use

MODEL = "claude-haiku-4-5"
ASKED = "Everything above will be replaced by a summary"
CALLS_PER_PROMPT = 9
INSTRUCTION = "Write tide, not flood."
TODO = "Mend the gauge of Brest"
LINES_READ = 150
INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class Played(Struct):
    """What became of a session."""

    requests: int
    compactions: list[ContextCompacted]
    max_input_tokens: int
    missing: list[str]
    rejected: list[str]
    errors: list[str]
    cost_usd: float
    seconds: float
    sent: list[bytes]
    story: int
    transcript: Path


class Script:
    """The model: so many calls for each prompt, all facts in each summary."""

    def __init__(self) -> None:
        self.stated: set[str] = set()
        self.missing: list[str] = []
        self.calls = 0

    def answer(self, body: dict[str, Any]) -> Any:
        told = json.dumps(body["messages"])
        found = set(re.findall(r"FACT-\d+", told))
        for what in (self.stated - found) | {text for text in (INSTRUCTION,) if text not in told}:
            self.missing.append(f"request {self.calls}: {what}")
        if ASKED in told[-6_000:]:
            return say(f"<summary>{' '.join(sorted(found))}</summary>")
        self.calls += 1
        if self.calls > 1 and TODO not in told:
            self.missing.append(f"request {self.calls}: the list of what is to be done")
        if self.calls == 1:
            todos = [{"content": TODO, "status": "in_progress", "activeForm": "Mending"}]
            return turn(use("TodoWrite", todos=todos))
        if self.calls % (CALLS_PER_PROMPT + 1) == 0:
            return turn(say("So far, so good."))
        return turn(think("Once more."), use("Read", file_path="sand.txt", offset=1 + self.calls, limit=LINES_READ))


def play(root: Path, requests: int, settings: dict[str, Any]) -> Played:
    """Play a session of so many requests, in a conversation with these settings of the user's."""
    project = root / "project"
    (root / ".claude").mkdir(parents=True)
    (root / ".claude" / "settings.json").write_text(json.dumps(settings))
    (root / ".claude" / "CLAUDE.md").write_text(INSTRUCTION)
    project.mkdir()
    (project / "sand.txt").write_text("".join(f"{n}: mud and sand and a shell or two\n" for n in range(requests + 300)))
    script = Script()
    events: list[Event] = []
    began = time.perf_counter()
    with MessagesServer(script.answer) as server:
        environ = {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
            "HOME": str(root),
            "PATH": "/bin",
        }
        conversation = Conversation(Host(cwd=project, interface="a test", environ=environ))
        errors: list[str] = []
        while script.calls < requests and not errors:
            script.stated.add(fact := f"FACT-{len(script.stated)}")
            request = RunRequest(prompt=f"Remember {fact} and read on.", options=RunOptions(model=MODEL))
            task = conversation.start(request, RunSurface(events.append))
            conversation.jobs.work_until_done(task)
            if (error := task.result().error) is not None:
                errors.append(str(error))
        session = conversation.sessions.current
        assert session.path is not None
        inputs = [
            sum(
                line.meta["usage"].get(name) or 0
                for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            )
            for line in session.story_lines()
            if "usage" in line.meta
        ]
        played = Played(
            len(server.requests),
            [each for each in events if isinstance(each, ContextCompacted) and each.state == "done"],
            max(inputs),
            script.missing,
            [str(each.error) for each in server.rejected],
            errors,
            session.cost_usd or 0.0,
            time.perf_counter() - began,
            list(session.encoded),
            len(session.story),
            session.path,
        )
        conversation.close()
    return played
