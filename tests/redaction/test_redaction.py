"""Every kind of secret at every exit: what leaves a conversation, whichever way, holds none of them.

The prompt, what a tool gives back, and Claude's answer hold a secret of every kind, and values of the environment.
"""

from __future__ import annotations

import asyncio
import http.server
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from secret_examples import examples
from traitlets.config import Config

from cellwright.agent.recording.recorder import Recorder
from cellwright.agent.thread import AgentThread, CallerJobs
from cellwright.agent.tool import ToolContext, tool
from cellwright.codebase.embedding_settings import EmbeddingSettings
from cellwright.commands.command import CommandCall, CommandPage
from cellwright.commands.registry import answer_of, command_of
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import Call, Event, Notice, TextDelta, ToolEnd, ToolStart, UserPrompt
from cellwright.features.conversation import Conversation
from cellwright.kernel.namespace.variables_tool import variables_tool
from cellwright.kernel.output.code_displays import kept_displays
from cellwright.kernel.output.saved_ops import saved_transcripts
from cellwright.telemetry.log_file import log_path, log_to_file
from cellwright.telemetry.run_state import RunState
from cellwright.telemetry.spans import RunSpans
from cellwright.telemetry.tool_log import ToolLog
from cellwright.terminal.main import Redacting
from cellwright.testing import MessagesServer, say, use
from cellwright.tools.code.navigation.project_code import ProjectCode
from cellwright.tools.code.navigation.search_code import semantic_search_tool
from cellwright.tools.process.runner import child_environment
from eventual import SECONDS

OF_THE_ENVIRONMENT = {
    "SHOP_LOGIN_PASSWORD": "Zz9-of-the-environment",
    "SHORT_PASSWORD": "Kq7!ab",
    "SHOP_DATABASE_URL": "postgres://ada:Qy8-in-its-address@db.example/shop",
}
VALUES = ("Zz9-of-the-environment", "Kq7!ab", "Qy8-in-its-address")
TEXT = "\n\n".join([*(example.text for example in examples()), f"found {', '.join(VALUES)} there"])


def left_in(text: str) -> list[str]:
    """The secrets that a text still holds, as it is or in JSON."""
    secrets = [*(example.secret for example in examples()), *VALUES]
    return [secret for secret in secrets if secret in text or json.dumps(secret)[1:-1] in text]


class Exits:
    """A conversation in which all of it was said, and what leaves it."""

    def __init__(
        self,
        conversation: Conversation,
        server: MessagesServer,
        recording: Path,
        events: list[Event],
        spans: InMemorySpanExporter,
    ) -> None:
        self.spans = spans
        self.conversation = conversation
        self.server = server
        self.recording = recording
        self.events = events
        self.environ = dict(conversation.in_force.environ)

    def do(self, command: str) -> CommandPage:
        found, text = command_of(command)
        call = CommandCall(self.conversation, RunOptions(), text)
        task = self.conversation.thread.submit(answer_of(found, call))
        self.conversation.jobs.work_until_done(task)
        return task.result()


@pytest.fixture(scope="module")
def spans() -> InMemorySpanExporter:
    memory = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    return memory


@pytest.fixture
def exits(
    own_place: Path, tmp_path: Path, messages_server: Callable[..., MessagesServer], spans: InMemorySpanExporter
) -> Iterator[Exits]:
    spans.clear()

    @tool(name="Python", category="kernel")
    async def python(code: str) -> str:
        """Run code."""
        return TEXT

    server = messages_server([use("Python", code=TEXT), say(TEXT), say("A title.")])
    account = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    environ = {**os.environ, **OF_THE_ENVIRONMENT, **account}
    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ))
    conversation.observers.add(RunSpans())
    recorder = Recorder(tmp_path / "talk.jsonl", tmp_path, environ)
    turn = recorder.listen(TEXT)
    events: list[Event] = []

    def keep(event: Event) -> None:
        events.append(event)
        turn.on_event(event)

    request = RunRequest(prompt=TEXT, options=RunOptions(allow=("Python",), tools=(python,)))
    task = conversation.start(request, RunSurface(emit=keep))
    conversation.jobs.work_until_done(task)
    assert task.result().ok
    notices = recorder.save(turn)
    assert "secrets replaced: " in notices[0]
    assert "Look through it" in notices[0]
    yield Exits(conversation, server, recorder.path, events, spans)
    conversation.close()


def result_to_claude(exits: Exits) -> str:
    last = exits.server.requests[-1].body["messages"]
    blocks = [block for message in last if isinstance(message["content"], list) for block in message["content"]]
    (result,) = (block for block in blocks if block["type"] == "tool_result")
    return json.dumps(result)


def notices(exits: Exits) -> str:
    return "\n".join(event.message for event in exits.events if isinstance(event, Notice))


def child(exits: Exits) -> str:
    given = {f"NOTE_{n}": example.text for n, example in enumerate(examples())}
    environ = child_environment({**exits.environ, **given})
    done = subprocess.run(["env"], env=environ, capture_output=True, text=True, check=True)
    return done.stdout


def variable_listing(exits: Exits) -> str:
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    shell.user_ns |= {f"v{n}": example.text for n, example in enumerate(examples())} | {"every": TEXT}
    thread, jobs = AgentThread(), CallerJobs()
    look = variables_tool(shell, jobs)
    try:
        task = thread.submit(
            look.call({"names": [f"v{n}" for n in range(9)]}, ToolContext("toolu_1", lambda **_: None))
        )
        jobs.work_until_done(task)
        seen = str(task.result().content)
    finally:
        thread.stop()
    return exits.conversation.redaction.clean(seen).text


def recording(exits: Exits) -> str:
    return exits.recording.read_text("utf-8")


def exports(exits: Exits) -> str:
    pages = [exits.do(f"/export {form} {form}.out") for form in ("markdown", "notebook", "json", "cells")]
    assert all("replaced: " in page.sections[0].text for page in pages)
    folder = exits.conversation.cwd
    return "\n".join(file.read_text("utf-8") for file in sorted(folder.glob("*.out")))


def sessions_export(exits: Exits) -> str:
    session = exits.conversation.sessions.current.id
    shown = []
    for form in ("markdown", "notebook", "json"):
        command = [sys.executable, "-m", "cellwright.terminal.main", "sessions", "export", session, "--format", form]
        environ = {**exits.environ, "CELLWRIGHT_HOME": os.environ["CELLWRIGHT_HOME"]}
        done = subprocess.run(command, env=environ, cwd=exits.conversation.cwd, capture_output=True, text=True)
        assert "secrets replaced: " in done.stderr, done.stderr
        assert "left out" not in done.stderr
        shown.append(done.stdout)
    assert all(len(each) > 1_000 for each in shown)
    return "\n".join(shown)


def log(exits: Exits) -> str:
    stop = log_to_file(lambda text: exits.conversation.redaction.clean(text).text)
    try:
        for example in examples():
            logging.getLogger("cellwright.test").warning("it says %s", example.text)
        logging.getLogger("cellwright.test").warning("it says %s", TEXT)
    finally:
        stop()
    return log_path().read_text("utf-8")


def tool_log(exits: Exits) -> str:
    kept = ToolLog(exits.conversation.cwd / "tools.jsonl", lambda: b"key")
    for event in exits.events:
        kept.add(event)
    return kept.path.read_text("utf-8") if kept.path is not None else ""


def saved_notebook(exits: Exits) -> str:
    def clean(text: str) -> str:
        return exits.conversation.redaction.clean(text).text

    state = RunState()
    state.take(UserPrompt("", "m"))
    state.take(TextDelta(TEXT))
    # whole, where it is cut in the middle, and each example by itself
    for number, text in enumerate([TEXT, *TEXT.split("\n\n")]):
        call = Call({"id": f"{number}", "name": "Bash", "input": {"command": text}}, text)
        state.take(ToolStart((call,)))
        state.take(ToolEnd(call.id, call.name, "success", text, 1.0))
    transcripts = saved_transcripts(state, 1, exits.conversation.redaction.clean_each)
    return json.dumps([transcripts, kept_displays([{"text/plain": TEXT, "text/html": f"<p>{TEXT}</p>"}], clean)])


def bug_report(exits: Exits) -> str:
    page = exits.do(f"/bug with-messages found {VALUES[0]} and {examples()[0].text}")
    return f"{page.sections[0].title} {page.sections[0].text} {page.sections[0].code}"


def title_request(exits: Exits) -> str:
    exits.do("/rename")
    return json.dumps(exits.server.requests[-1].body["messages"])


def telemetry(exits: Exits) -> str:
    assert exits.spans.force_flush()
    return "\n".join(span.to_json() for span in exits.spans.get_finished_spans())


def stderr(exits: Exits) -> str:
    record = logging.LogRecord("x", logging.INFO, "", 0, "it says %s", (TEXT,), None)
    return Redacting(exits.environ).format(record)


class _Embedder(http.server.BaseHTTPRequestHandler):
    """Embeds every text as the same vector, and keeps what was sent."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append(body.decode())  # type: ignore[attr-defined]
        rows = [{"index": n, "embedding": [1.0, 0.0, 0.0]} for n in range(len(json.loads(body)["input"]))]
        answer = json.dumps({"data": rows}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None: ...


def embedding(exits: Exits) -> str:
    root = exits.conversation.cwd / "code"
    root.mkdir()
    for n, example in enumerate([*(example.text for example in examples()), " ".join(VALUES)]):
        (root / f"notes{n}.md").write_text(f"# Notes {n}\n\n{example}\n")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Embedder) as server:
        server.asked = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        settings = EmbeddingSettings(provider="openai", model="m", url=url, dimension=3)
        code = ProjectCode(root, (), {**exits.environ, "OPENAI_API_KEY": "sk-of-the-service"}, settings)
        assert code.embedding is not None

        async def ask() -> None:
            await code.refresh(SECONDS)
            code.embedding.agree()
            await code.refresh(SECONDS)
            await code.embedding.ended(SECONDS)

        asyncio.run(ask())
        for example in examples():
            asyncio.run(semantic_search_tool(code).call({"query": example.text}, ToolContext("t", lambda **_: None)))
        server.shutdown()
        asked: list[str] = server.asked  # type: ignore[attr-defined]
    assert any("Notes" in each for each in asked)
    assert len(asked) > len(examples())
    return "\n".join(asked)


EXITS: Mapping[str, Callable[[Exits], str]] = {
    each.__name__: each
    for each in (
        *(result_to_claude, notices, child, variable_listing, recording, exports, sessions_export, log, tool_log),
        *(saved_notebook, bug_report, title_request, telemetry, stderr, embedding),
    )
}


THOROUGH = {"embedding"}  # it makes an index of code for each kind


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough if name in THOROUGH else ()) for name in EXITS]
)
def test_no_secret_of_any_kind_leaves(name: str, exits: Exits) -> None:
    text = EXITS[name](exits)
    assert text
    assert left_in(text) == []
