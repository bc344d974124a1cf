"""The prompt as it is sent: its texts, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from cellwright.conversation.feature import checked
from cellwright.errors import CellwrightError

PICTURE: dict[str, Any] = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


@pytest.mark.parametrize(
    ("prompt", "sent"),
    [
        ("Hi", "Hi"),
        ([{"type": "text", "text": " \n"}, PICTURE], [PICTURE]),
        ([{"type": "text", "text": "What is this?"}, PICTURE], [{"type": "text", "text": "What is this?"}, PICTURE]),
    ],
)
def test_empty_texts_are_left_out(prompt: Any, sent: Any) -> None:
    assert checked(prompt) == sent


@pytest.mark.parametrize("prompt", ["", " \n\t", [{"type": "text", "text": " "}], []])
def test_a_prompt_of_nothing_is_refused(prompt: Any) -> None:
    with pytest.raises(CellwrightError) as raised:
        checked(prompt)
    assert raised.value.code == "INVALID_PARAMETERS"
