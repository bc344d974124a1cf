"""Calls of the API's own tools and their results go back to it in pairs, or not at all."""

from __future__ import annotations

from typing import Any

from cellwright.sessions.api_messages import complete_pairs, cut_content, open_server_calls, valid_history
from row_tables import for_each_row


def text(words: str = "a") -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(id: str = "s1") -> dict[str, Any]:
    return {"type": "server_tool_use", "id": id, "name": "web_search", "input": {}}


def found(id: str = "s1") -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": id, "content": []}


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}


@for_each_row(
    ("blocks", "kept"),
    [
        ([text()], [text()]),
        ([call(), found(), text()], [call(), found(), text()]),
        ([call(), text()], [text()]),
        ([found(), text()], [text()]),
        ([found(), call(), text()], [text()]),
        ([call(), found(), found()], [call(), found()]),
        ([call(), call(), found()], [call(), found()]),
        ([call("s1"), call("s2"), found("s2"), found("s1")], [call("s1"), call("s2"), found("s2"), found("s1")]),
        ([call("s1"), call("s2"), found("s2")], [call("s2"), found("s2")]),
        # thinking is bound to all that was before it
        ([THOUGHT, call(), THOUGHT, text()], [THOUGHT, text()]),
        ([THOUGHT, call(), found(), THOUGHT, text()], [THOUGHT, call(), found(), THOUGHT, text()]),
    ],
)
def test_of_an_answer_whole_pairs_are_kept(blocks, kept):
    assert complete_pairs(blocks) == kept
    assert [block for block in cut_content(blocks) if block != THOUGHT] == [each for each in kept if each != THOUGHT]
    assert valid_history([{"role": "user", "content": "go"}, {"role": "assistant", "content": blocks}])[1:] == [
        {"role": "assistant", "content": kept}
    ]


def test_a_pause_is_between_a_call_and_its_result():
    assert complete_pairs([text(), call()], continues=True) == [text(), call()]
    assert complete_pairs([found(), text()], {"s1"}) == [found(), text()]
    assert complete_pairs([found("s2"), text()], {"s1"}) == [text()]
    assert open_server_calls([text(), call(), call("s2"), found("s2")]) == {"s1"}
