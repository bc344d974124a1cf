"""Messages between kernel and page that are too large for one."""

from __future__ import annotations

from typing import Any

from cellwright.conversation.message_chunks import MAX_CHARS, PIECE_CHARS, JoinedMessages, pieces
from row_tables import for_each_row


def test_a_small_message_goes_as_it_is() -> None:
    [piece] = pieces({"type": "hello"})
    assert piece.message == {"type": "hello"}
    assert piece.pause == 0
    assert JoinedMessages().add({"type": "hello"}) == {"type": "hello"}


def test_a_large_message_goes_in_pieces_at_a_pace() -> None:
    message = {"type": "reply", "text": "ä" * PIECE_CHARS}
    sent = list(pieces(message))
    assert all(len(piece.message["text"]) <= PIECE_CHARS for piece in sent)
    assert [piece.pause > 0 for piece in sent] == [False, False, False, *[True] * (len(sent) - 4), False]
    joined = JoinedMessages()
    assert [joined.add(dict(piece.message)) for piece in sent] == [*[None] * (len(sent) - 1), message]


def test_pieces_of_two_messages_may_come_in_turns() -> None:
    one, two = ({"type": "reply", "id": name, "text": "x" * PIECE_CHARS} for name in ("k1", "k2"))
    joined = JoinedMessages()
    whole = [joined.add(dict(piece.message)) for both in zip(pieces(one), pieces(two), strict=True) for piece in both]
    assert [message for message in whole if message is not None] == [one, two]


@for_each_row(
    "piece",
    [
        None,
        "text",
        {"type": "part"},
        {"type": "part", "of": 1, "text": 5, "last": True},
        {"type": "part", "of": 1, "text": "{", "last": True},
        {"type": "part", "of": 1, "text": "[]", "last": True},
    ],
)
def test_what_makes_no_sense_is_passed_over(piece: Any) -> None:
    assert JoinedMessages().add(piece) is None


def test_a_message_without_end_is_given_up() -> None:
    joined, text = JoinedMessages(), "x" * (MAX_CHARS // 4)
    for _ in range(5):
        assert joined.add({"type": "part", "of": 1, "text": text, "last": False}) is None
    assert joined.add({"type": "part", "of": 1, "text": "", "last": True}) is None
