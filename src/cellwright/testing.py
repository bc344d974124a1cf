"""Test what you build on Cellwright (or on the Messages API) without a key and without a network."""

from __future__ import annotations

from cellwright.local_api.gate import Gate
from cellwright.local_api.messages_server import MessagesServer
from cellwright.local_api.recorded import RecordedRequest
from cellwright.local_api.script import Turn, fault, hold, say, slow, think, turn, use, use_json

__all__ = [
    "Gate",
    "MessagesServer",
    "RecordedRequest",
    "Turn",
    "fault",
    "hold",
    "say",
    "slow",
    "think",
    "turn",
    "use",
    "use_json",
]
