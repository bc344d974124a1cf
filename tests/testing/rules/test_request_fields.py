"""Bodies as JSON: what is none is refused, and what JSON allows is taken."""

from __future__ import annotations

import json

import pytest

from cellwright.testing import say


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"model":', "The request body is not valid JSON: Expecting value"),
        (b"[]", "The request body is not valid JSON"),
        (b'{"max_tokens": NaN}', "The request body is not valid JSON: NaN is not valid JSON"),
        (b'{"model": "\\ud83d"}', "no low surrogate in string"),
        (b"\xff", "The request body is not valid JSON"),
    ],
)
def test_a_body_that_is_no_json_is_refused(client, raw, message):
    assert message in client().error(raw)


def test_a_paired_surrogate_is_json(client):
    api = client([say("Yes.")])
    assert api.post(json.dumps(api.body(system="😀")).encode()).status_code == 200
