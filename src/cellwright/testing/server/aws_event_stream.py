"""Events in Amazon's `vnd.amazon.eventstream` framing, as Bedrock streams them.

Format: https://smithy.io/2.0/aws/amazon-eventstream.html. Lengths and CRC-32 checksums are big-endian; a header is
its name's length, name, type 7 (string), value's length, value.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib

from cellwright.testing.server.message_stream import StreamEvent

CONTENT_TYPE = "application/vnd.amazon.eventstream"
STRING = 7
EXCEPTION_OF_TYPE = {
    "rate_limit_error": "throttlingException",
    "overloaded_error": "serviceUnavailableException",
    "timeout_error": "modelTimeoutException",
    "invalid_request_error": "validationException",
}


def encode_message(headers: dict[str, str], payload: bytes) -> bytes:
    """One message: prelude, prelude CRC, headers, payload, CRC of everything before it."""
    encoded = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", STRING, len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack("!II", 16 + len(encoded) + len(payload), len(encoded))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + encoded + payload
    return message + struct.pack("!I", zlib.crc32(message))


def aws_frame(event: StreamEvent) -> bytes:
    """A Messages API event as a `chunk`, an `error` event as the exception that Bedrock sends instead."""
    if event.name == "error":
        error = json.loads(event.data)["error"]
        headers = {
            ":exception-type": EXCEPTION_OF_TYPE.get(error["type"], "internalServerException"),
            ":content-type": "application/json",
            ":message-type": "exception",
        }
        return encode_message(headers, json.dumps({"message": error["message"]}).encode())
    headers = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    payload = {"bytes": base64.b64encode(event.data).decode("ascii")}
    return encode_message(headers, json.dumps(payload).encode())
