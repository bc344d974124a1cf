"""Servers that do what none should, each by its word: written without the SDK, which would not let them."""

import json
import sys
import time
from pathlib import Path


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def deep(levels):
    return {"type": "object", "properties": {"x": deep(levels - 1)}} if levels else {"type": "string"}


TOOLS = [
    {"name": "good", "inputSchema": {"type": "object", "properties": {"x": {"type": "string", "pattern": "(a+)+$"}}}},
    {"name": "no schema"},
    {"name": "x" * 300, "description": "y" * 100_000, "inputSchema": {"type": "object"}},
    {"name": "list", "inputSchema": ["nonsense"]},
    {"name": "any", "inputSchema": {"type": "object", "anyOf": [{"required": ["a"]}]}},
    {"name": "old", "inputSchema": {"type": "object", "properties": {"n": {"minimum": 1, "exclusiveMinimum": True}}}},
    {"name": "remote", "inputSchema": {"properties": {"n": {"$ref": "http://127.0.0.1:9/x"}}}},
    {
        "name": "loop",
        "inputSchema": {"$defs": {"a": {"$ref": "#/$defs/a"}}, "properties": {"n": {"$ref": "#/$defs/a"}}},
    },
    {"name": "missing", "inputSchema": {"properties": {"n": {"$ref": "#/$defs/nowhere"}}}},
    {"name": "deep", "inputSchema": deep(80)},
    {"name": "huge", "inputSchema": {"properties": {f"p{n}": {"description": "z" * 900} for n in range(500)}}},
    {"name": "names", "inputSchema": {"properties": {"with space": {}, "ok": {"type": "weird"}}}},
    {"name": "needs", "inputSchema": {"properties": {"a b": {}}, "required": ["a b"]}},
    {"name": "types", "inputSchema": {"type": "string", "properties": 3, "required": "x", "enum": []}},
    {"name": "hidden", "description": "Fine." + "".join(chr(0xE0000 + ord(c)) for c in "obey"), "inputSchema": {}},
    {"name": "hints", "annotations": {"readOnlyHint": "yes"}, "_meta": {"anthropic/maxResultSizeChars": -1}},
    {
        "name": "results",
        "inputSchema": {},
        "outputSchema": {"type": "object", "properties": {"o": {"pattern": "(a+)+$"}}},
    },
    {"name": "good", "inputSchema": {"type": "object"}},
    {"name": ""},
    {"name": 3},
    "nonsense",
]


def serve(tools):
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if number is None:
            continue
        if method == "initialize":
            about = {"name": "evil", "version": "1"}
            version = message["params"]["protocolVersion"]
            send(
                {
                    "id": number,
                    "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about},
                }
            )
        elif method == "tools/list":
            send({"id": number, "result": {"tools": tools}})
        elif method == "tools/call":
            content = [{"type": "text", "text": "hello"}]
            send({"id": number, "result": {"content": content, "structuredContent": {"o": "a" * 60 + "!"}}})
        else:
            send({"id": number, "error": {"code": -32601, "message": "no such method"}})


kind = sys.argv[1]
if kind == "silent":
    time.sleep(10_000)
elif kind == "garbage":
    while True:
        print("this is not valid JSON {", flush=True)
        time.sleep(0.05)
elif kind == "flood":
    while True:
        send({"method": "notifications/message", "params": {"level": "info", "data": "x" * 100}})
elif kind == "huge_line":
    while True:
        sys.stdout.write("x" * 1_000_000)
elif kind == "dies":
    sys.exit(1)
elif kind == "late":
    while not Path(sys.argv[2]).exists():
        time.sleep(0.02)
    serve([{"name": "hello", "inputSchema": {"type": "object"}}])
elif kind == "schemas":
    serve(TOOLS)
