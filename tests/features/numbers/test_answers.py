"""The sources of a conversation."""

import json

from cellwright.features.numbers.answers import SeenNumbers

PROMPT = {"role": "user", "content": [{"type": "text", "text": "Look at the 1500 largest"}]}
CALL = {
    "role": "assistant",
    "content": [
        {"type": "text", "text": "There are 6,412 rows."},
        {"type": "tool_use", "id": "t1", "name": "Python", "input": {"code": "df.head(2750)"}},
        {"type": "tool_use", "id": "t2", "name": "Read", "input": {"file_path": "/data/a.csv"}},
    ],
}
RESULTS = {
    "role": "user",
    "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "mean 41.37"}]},
        {"type": "tool_result", "tool_use_id": "t2", "content": "1\ta,b\n2\t311,0.5"},
    ],
}
SUMMARY = {
    "role": "user",
    "content": [{"type": "text", "text": "<conversation-summary>There were 6,412.</conversation-summary>"}],
}


def encoded(*messages: dict) -> list[bytes]:
    return [json.dumps(message).encode() for message in messages]


def test_results_code_and_prompts_are_sources_and_answers_are_not() -> None:
    sources = SeenNumbers().of(encoded(PROMPT, CALL, RESULTS))
    assert [(each.kind, each.name, each.id) for each in sources] == [
        ("prompt", "your prompt", ""),
        ("code", "the code of Python, call 1", "t1"),
        ("output", "Python, call 1", "t1"),
        ("file", "a.csv, read in call 2", "t2"),
    ]
    assert all(6412 not in each.values for each in sources)


def test_a_summary_is_no_source_and_context_is_one() -> None:
    context = {"role": "user", "content": [
        {"type": "text", "text": '<variable name="df">mean 12.75</variable>'},
        {"type": "text", "text": "<environment>Python 3.13, 2 cores</environment>"},
        {"type": "text", "text": "And now?"},
    ]}  # fmt: skip
    sources = SeenNumbers().of(encoded(SUMMARY, context))
    assert [(each.kind, each.name) for each in sources] == [("context", "variable df")]


def test_messages_that_were_taken_back_are_no_source_any_more() -> None:
    seen = SeenNumbers()
    assert len(seen.of(encoded(PROMPT, CALL, RESULTS))) == 4
    assert [each.name for each in seen.of(encoded(PROMPT))] == ["your prompt"]
