"""Parts of requests, as short as a table needs them."""

from __future__ import annotations

import base64
import io
import struct
import zlib

import pypdf

HELLO = {"role": "user", "content": "Hello"}
ASK = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}]}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
TWO_CALLS = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": f"toolu_{n}", "name": "Read", "input": {}} for n in (1, 2)],
}
READ = {"name": "Read", "description": "Read a file", "input_schema": {"type": "object", "properties": {}}}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def text(value="Hi", **extra):
    return {"type": "text", "text": value, **extra}


def result(identifier="toolu_1", **fields):
    return {"type": "tool_result", "tool_use_id": identifier, **fields}


def tool(**changes):
    return {**READ, **changes}


def schema(**changes):
    return {"type": "object", "properties": {}, **changes}


def system_message(content="Now plan only"):
    return {"role": "system", "content": content}


def cached(ttl=None):
    return {"cache_control": {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}}


def png(width=1, height=1):
    """The head of a PNG: signature and IHDR are all that a size check reads."""
    head = struct.pack(">II", width, height) + b"\x08\x00\x00\x00\x00"
    chunk = b"IHDR" + head
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(head)) + chunk + struct.pack(">I", zlib.crc32(chunk))


def jpeg(width=1, height=1):
    return b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x0b\x08" + struct.pack(">HH", height, width) + b"\x01\x01\x11\x00"


def gif(width=1, height=1):
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\x00\x00\x00"


def webp(width=1, height=1):
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00" + size


def image(data=None, media_type="image/png", **source):
    encoded = base64.b64encode(png() if data is None else data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": encoded, **source}}


def lossy_webp(width=1, height=1):
    return b"RIFF\x16\x00\x00\x00WEBPVP8 \x0a\x00\x00\x00\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", width, height)


def lossless_webp(width=1, height=1):
    bits = (width - 1) | (height - 1) << 14
    return b"RIFF\x16\x00\x00\x00WEBPVP8L\x0a\x00\x00\x00\x2f" + struct.pack("<I", bits)


def pages(count, password=""):
    writer = pypdf.PdfWriter()
    for _ in range(count):
        writer.add_blank_page(72, 72)
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def pdf(data=b"%PDF-1.7"):
    source = {"type": "base64", "media_type": "application/pdf", "data": base64.b64encode(data).decode()}
    return {"type": "document", "source": source}


def conversation(*messages):
    return {"messages": list(messages)}


def with_tools(*tools, **rest):
    return {"tools": list(tools), **rest}


def strict(parameters, required=(), **extra):
    return tool(strict=True, input_schema=schema(properties=parameters, required=list(required), **extra))


CLOSED = {"additionalProperties": False}
UNANSWERED = "`tool_use` ids were found without `tool_result` blocks immediately after: "
