"""Test what you build on Cellwright, or on the Messages API itself, without a key and without a network.

`MessagesServer` is a real HTTP server on 127.0.0.1 that is as strict as the API: it checks every request (fields, the
pairing of tool calls and results, thinking blocks that come back unchanged, schemas, limits) and refuses a wrong one with
the API's own 400, which names the field. Its model says what your script says, so a test of a tool needs no luck:

    >>> import os
    >>> import cellwright
    >>> from cellwright.testing import MessagesServer, fault, say, turn, use

    >>> @cellwright.tool(read_only=True)
    ... def population(city: str) -> str:
    ...     'How many people live in a city.'
    ...     return {"Uppsala": "177074"}[city]

    >>> script = [
    ...     use("population", city="Uppsala"),
    ...     fault("status", status=529, retry_after_ms=1),
    ...     turn(say("About 177,000 people."), when="177074"),
    ... ]
    >>> with MessagesServer(script) as server:
    ...     os.environ["ANTHROPIC_BASE_URL"] = server.url
    ...     os.environ["ANTHROPIC_API_KEY"] = server.api_key
    ...     result = cellwright.ask("How many people live in Uppsala?", tools=[population], session=None)
    >>> result.text
    'About 177,000 people.'

Afterwards the server tells what it saw. Here the second request was answered with "overloaded" and sent again:

    >>> [request.status for request in server.requests]
    [200, 529, 200]
    >>> server.requests[1].last_user_text
    '177074'
    >>> server.remaining_turns, server.rejected
    (0, [])

**Script.** A list of turns, used one after another; a turn with `when=` (a string or a compiled regular expression) waits
for a request whose last user content, tool results included, contains or matches it. `turn(*parts)` is one answer; a bare
part is a turn of its own. Parts are `say`, `think`, `searched` (the API's own web search), `use` (and `use_json`, which
sends a tool's input in exactly your pieces), `hold`, `slow` and `fault`. A script may also be a function from the
request's body to a turn. When no turn is left, the request is refused with "script exhausted", and `server.exhausted` is
true.

**Time.** Nothing sleeps: `hold(gate)` stops the stream at a known place until the test calls `gate.open()`, and
`gate.wait_until_reached()`, `server.wait_for_requests(n)`, `wait_for_finished(n)` and `wait_for_disconnect(n)` wait for what
happens. `slow(seconds)` and `seconds_between_deltas` are there for pictures and for measuring.

**Faults.** `fault(kind)` with "status", "cut", "close", "truncated", "malformed", "error_event" or "stall" says what goes
wrong with one request; `help(cellwright.testing.fault)` has them all.

**Clients.** Whatever speaks the Messages API: give it `server.url` as base URL and `server.api_key` as key or bearer token.
The anthropic SDK's clients for Foundry (`server.url + "/anthropic"`), Vertex (`server.url + "/v1"`) and Bedrock work too.
"""

from __future__ import annotations

from cellwright.testing.messages_server import MessagesServer
from cellwright.testing.script import (
    Fault,
    Gate,
    Part,
    RecordedRequest,
    Turn,
    fault,
    hold,
    say,
    searched,
    slow,
    think,
    turn,
    use,
    use_json,
)

__all__ = [
    "Fault",
    "Gate",
    "MessagesServer",
    "Part",
    "RecordedRequest",
    "Turn",
    "fault",
    "hold",
    "say",
    "searched",
    "slow",
    "think",
    "turn",
    "use",
    "use_json",
]
