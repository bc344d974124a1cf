"""The cost of many MCP tools before the first word: time and tokens, with ToolSearch and without.

`python -m benchmarks.mcp_tools` prints the table of `docs/mcp.md`: against the local Messages API server and a local server
over stdio, in one process, whose `mcp` package is loaded before. "Cold" is a conversation's first prompt, which starts the
server and waits for it; "warm" is the first prompt of the next session, for which it is connected.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.events import CHARS_PER_TOKEN, Event, TextDelta
from cellwright.features.conversation import Conversation
from cellwright.testing import MessagesServer, say

COUNTS = (0, 10, 100)
ROUNDS = 5
SERVER = """\
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("many")
for number in range(int(sys.argv[1])):
    def work(path: str, limit: int = 10, deep: bool = False) -> str:
        return path
    server.add_tool(work, name=f"work_{number}", description=f"Do the work {number} on a file of the project, \
to a limit that may be given, and say in a sentence or two what has come of it and what is left.")
server.run()
"""


class Figures(Struct, frozen=True):
    """One row: milliseconds before the first word, tokens of what the first request holds for the tools."""

    cold_ms: float
    warm_ms: float
    tokens: int


def main() -> None:
    """Measure and print the table."""
    import mcp  # noqa: F401  a process pays for it once, whatever the number of tools

    print("| MCP tools | ToolSearch | first prompt, ms | next session's, ms | tokens of tools and lists |")
    print("|---:|---|---:|---:|---:|")
    for count in COUNTS:
        for searches in (True, False) if count else (True,):
            found = measured(count, searches=searches)
            name = "yes" if searches else "no"
            print(
                f"| {count} | {name if count else '-'} | {found.cold_ms:,.0f} | {found.warm_ms:,.0f} | {found.tokens:,} |"
            )


def measured(count: int, *, searches: bool) -> Figures:
    """The medians of `ROUNDS` conversations with a server of `count` tools."""
    rows = []
    with MessagesServer() as server, tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            with _conversation(server, Path(folder) / str(number), count, searches=searches) as conversation:
                cold = _first_word_ms(conversation, server)
                conversation.sessions.start_new()
                warm = _first_word_ms(conversation, server)
                rows.append((cold, warm, _tokens(server)))
    cold, warm, tokens = (statistics.median(column) for column in zip(*rows, strict=True))
    return Figures(cold, warm, round(tokens))


@contextmanager
def _conversation(server: MessagesServer, home: Path, count: int, *, searches: bool) -> Iterator[Conversation]:
    project = home / "project"
    (project / ".git").mkdir(parents=True)
    program = home / "server.py"
    program.write_text(SERVER, "utf-8")
    servers = {"many": {"command": sys.executable, "args": [str(program), str(count)]}} if count else {}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")
    environ = {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": server.api_key,
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "ENABLE_TOOL_SEARCH": "true" if searches else "false",
        "CELLWRIGHT_MCP_WAIT": "120",
    }
    made = Conversation(Host(cwd=project, interface="a benchmark", environ=environ))
    try:
        yield made
    finally:
        made.close()


def _first_word_ms(conversation: Conversation, server: MessagesServer) -> float:
    server.add(say("Good."))
    words: list[float] = []

    def on_event(event: Event) -> None:
        if isinstance(event, TextDelta):
            words.append(time.perf_counter())

    began = time.perf_counter()
    run = conversation.start(RunRequest(prompt="Go"), RunSurface(on_event))
    conversation.jobs.work_until_done(run)
    end = run.result()
    assert end.error is None, end.error
    return (words[0] - began) * 1_000


def _tokens(server: MessagesServer) -> int:
    """Tokens of what Claude reads before the prompt on account of tools: definitions that are not deferred, and lists."""
    body = server.requests[-1].body
    tools = [tool for tool in body["tools"] if not tool.get("defer_loading")]
    texts = [block["text"] for block in body["messages"][0]["content"] if block["text"].startswith("<mcp_servers")]
    return round((len(json.dumps(tools)) + len("".join(texts))) / CHARS_PER_TOKEN)


if __name__ == "__main__":
    main()
