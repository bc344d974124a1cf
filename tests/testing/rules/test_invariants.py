"""Each invariant of the Messages API: what is refused, with which path, and its nearest neighbour that is taken."""

from __future__ import annotations

from request_parts import (
    ASK,
    HELLO,
    READ,
    RESULT,
    assistant,
    conversation,
    result,
    system_message,
    text,
    user,
    with_tools,
)
from requests_within_rules import TAKEN
from rules_of_messages import REFUSED as REFUSED_MESSAGES
from rules_of_options import REFUSED as REFUSED_OPTIONS

from cellwright.testing import say
from row_tables import for_each_row

REFUSED = {**REFUSED_MESSAGES, **REFUSED_OPTIONS}


@for_each_row(("changes", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_request_that_breaks_a_rule_is_refused_by_path(client, changes, message):
    api = client([say("never said")])
    assert message in api.error(api.body(**changes))
    assert api.server.remaining_turns == 1
    assert [request.error for request in api.server.rejected] == [api.server.requests[0].error]


@for_each_row("changes", TAKEN.values(), ids=TAKEN.keys())
def test_a_request_within_the_rules_is_answered(client, changes):
    api = client([say("Yes.")])
    response = api.post(api.body(**changes))
    assert response.status_code == 200, response.text
    assert response.json()["content"] == [{"type": "text", "text": "Yes."}]


@for_each_row(
    ("beta", "changes"),
    [
        ("context-management-2025-06-27", {"context_management": {"edits": []}}),
        ("mcp-client-2025-11-20", {"mcp_servers": []}),
        ("computer-use-2025-01-24", with_tools({"type": "computer_20250124", "name": "computer"}, READ)),
        ("mid-conversation-system-clear-at-2026-08-21", conversation(HELLO, {**system_message(), "clear_at": "never"})),
        ("thinking-display-updates-2026-08-18", {"thinking": {"type": "adaptive", "display": "updates"}}),
        ("compact-2026-09-04", conversation(assistant({"type": "compaction", "content": "so far"}), HELLO)),
        (
            "mid-conversation-tool-changes-2026-07-01",
            conversation(HELLO, system_message([{"type": "tool_removal", "tool": {"name": "Read"}}])),
        ),
        (
            "mid-conversation-output-config-2026-07-01",
            conversation(HELLO, {**system_message(), "output_config": {"effort": "low"}}),
        ),
        ("task-budgets-2026-03-13", {"output_config": {"task_budget": {"type": "tokens", "total": 1}}}),
    ],
)
def test_a_beta_adds_its_fields(client, beta, changes):
    api = client([say("Yes.")])
    assert "Extra inputs" in (message := api.error(api.body(**changes))) or "Input" in message
    assert api.post(api.body(**changes), **{"anthropic-beta": f"other-2026-01-01,{beta}"}).status_code == 200


def test_a_conversation_that_grows_is_checked_at_its_new_end(client):
    """What an earlier request was found right in is not looked at again; what was added or changed is."""
    api = client([say("a"), say("b")])
    first = api.body(messages=[HELLO])
    assert api.post(first).status_code == 200
    grown = [HELLO, assistant(text("a")), user(text("more", extra=1))]
    assert api.error(api.body(messages=grown)).startswith("messages.2.content.0.text.extra: Extra")
    changed = [user(text("Hello", extra=1)), assistant(text("a")), HELLO]
    assert api.error(api.body(messages=changed)).startswith("messages.0.content.0.text.extra: Extra")
    assert api.post(api.body(messages=[HELLO, assistant(text("a")), HELLO])).status_code == 200


HISTORY = [
    HELLO,
    *(
        message
        for n in range(4)
        for message in (
            assistant(text("So:"), {"type": "tool_use", "id": f"h{n}", "name": "Read", "input": {}}),
            user(result(f"h{n}", content="x")),
        )
    ),
    assistant(text("Done.")),
]
LATER = {
    "id of long ago": (
        HELLO,
        assistant({"type": "tool_use", "id": "h0", "name": "Read", "input": {}}),
        user(result("h0")),
    ),
    "result of long ago": (user(result("h0")),),
    "result of the last call": (user(result("h3")),),
    "call not answered": (HELLO, ASK, HELLO),
    "result too late": (HELLO, ASK, HELLO, RESULT),
    "system first": (system_message(), HELLO),
    "all is well": (HELLO, ASK, RESULT, assistant(text()), HELLO),
}


@for_each_row("later", LATER.values(), ids=LATER.keys())
@for_each_row("known", range(len(HISTORY) + 1))
def test_what_is_known_changes_no_verdict(client, known, later):
    """A server that has seen the beginning of a conversation says of the whole what a fresh one says."""
    script = [say("x")] * 3
    fresh, knowing = client(script), client(script)
    beginning = HISTORY[:known]
    knowing.post(knowing.body(messages=beginning if known % 2 else [*beginning, HELLO]))
    whole = [*HISTORY, *later]
    answers = [api.post(api.body(messages=whole)).json().get("error") for api in (fresh, knowing)]
    assert answers[0] == answers[1]
    assert (answers[0] is None) == (later == LATER["all is well"])
