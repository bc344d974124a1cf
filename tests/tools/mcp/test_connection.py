"""Programs that answer as people's do: what can be understood is taken, what cannot be read ends the call, in words."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import re
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.tools.mcp.connected_server import SOON, connected, entry_of, run

from cellwright.agent.tool import ToolContext
from cellwright.errors import ToolError
from cellwright.model.images import has_right_checksums
from cellwright.tools.mcp.connection import ServerConnection
from cellwright.tools.mcp.schema import safe_schema
from cellwright.tools.mcp.tools import image_or_words, result_of
from cellwright.tools.mcp.transports import MESSAGE_SECONDS, REST_SECONDS, Chatter, StdioMessages, Unreadable
from eventual import growth
from forked.forked_python import program_in

ODD = Path(__file__).parents[2] / "shared" / "mcp_servers" / "odd_server.py"

UNDERSTOOD = {
    "content_text": "fine",
    "content_unknown": '{"type": "hologram", "x": 1}',
    "structured_list": "[1, 2]",
    "structured_alone": '{"a": 1}',
    "half_emoji": "cut \ufffd",
    "raw_control": "a\x01b\tc",
    "raw_newline": "one\ntwo",
    "latin_1": "café",
    **dict.fromkeys(
        (
            *("several_lines", "no_line_end", "batch", "two_in_a_line", "behind_words", "before_words"),
            *("byte_order_mark", "utf_16", "content_length", "not_a_number", "text_id", "float_id"),
            *("no_version", "null_error", "chatter_first", "half_then_good"),
        ),
        "fine",
    ),
}
NOT_UNDERSTOOD = {
    "content_text": "fine",
    "content_unknown": '{"type": "hologram", "x": 1}',
    "structured_list": "[1, 2]",
    "structured_alone": '{"a": 1}',
    "half": "cannot be read: it was cut off",
    "python": "cannot be read: Expecting property name enclosed in double quotes",
    "comma": "cannot be read: Expecting property name",
    "web_page": "cannot be read: it is no JSON: <!DOCTYPE html><html>Sign in</html>",
    "null_result": "sent an invalid response",
    "list_result": r"its result is no object: \[1, 2\]",
    "text_result": 'its result is no object: "done"',
    "no_result": "neither a result nor an error",
    "bare_result": "it is no JSON-RPC message",
    "other_id": "for the request 'zzz'",
    "no_id": "it names no request",
    "null_id": "it names no request: Parse error",
    "error_text": "odd: it broke",
    "error_without_code": "odd: it broke",
    "empty_error": "odd: {}",
    "long_number": "a number or its brackets have no end",
    "deep": "its brackets go too deep",
}

CONNECTED = {
    "ok": ["good"],
    "no_capabilities": [],
    "no_about": ["good"],
    "old_version": ["good"],
    "several_lines": ["good"],
    "asks_first": ["good"],
    "list_loop": ["good"],
    "list_latin_1": ["good"],
    "noise": ["good"],
    "tells_changes": ["good"],
}
FAILED = {
    "unknown_version": "Unsupported protocol version from the server: 1999-01-01",
    "number_version": r"the protocol does not know \(protocolVersion: ",
    "refuses": "no licence",
    "answers_null": r"the protocol does not know \(capabilities: ",
    "answers_python": "cannot be read: Expecting property name",
    "answers_page": "cannot be read: it is no JSON: <html>Sign in</html>",
    "other_ids": "it is for the request 'first'",
    "list_refused": "database is locked",
    "list_null": r"the protocol does not know \(tools: ",
    "list_words": r"the protocol does not know \(tools: ",
    "list_dies": "exit code 7",
    "exits": r"no configuration found \(its program ended with the exit code 1\)",
    "exits_quietly": "exit code 0",
    "traceback": "RuntimeError: cannot connect to the database .its program ended",
    "killed": "exit code -9",
    "silent": "it did not answer within 2 s",
    "closes_output": "Connection closed",
}


def server(*arguments: str, command: str = "", seconds: float = SOON) -> AbstractAsyncContextManager[ServerConnection]:
    own = {"command": command or program_in(os.environ), "args": [str(ODD), *arguments]}
    return connected(entry_of("odd", **own), seconds=seconds)


async def call(connection: ServerConnection, name: str) -> str:
    return str((await result_of(await connection.call_tool(name, {}, ToolContext("id", lambda **_: None)))).content)


async def error_of(connection: ServerConnection, name: str) -> str:
    try:
        return f"no error: {await call(connection, name)}"
    except ToolError as error:
        return error.message


def test_every_odd_answer_is_understood_or_ends_its_call_in_words_and_the_next_call_works() -> None:
    async def scene() -> None:
        async with server("answers") as connection:
            assert {*UNDERSTOOD, *NOT_UNDERSTOOD, "good"} == {each.name for each in connection.definitions}
            for name, text in UNDERSTOOD.items():
                assert (name, await call(connection, name)) == (name, text)
                assert (name, await call(connection, "good")) == (name, "fine")
            for name, words in NOT_UNDERSTOOD.items():
                began = time.monotonic()
                said = await error_of(connection, name)
                assert re.search(words, said), (name, said)
                assert (time.monotonic() - began > REST_SECONDS - 1) is (name == "half"), "nothing else is waited for"
                assert (name, await call(connection, "good")) == (name, "fine")

    run(scene())


def test_every_odd_server_is_connected_or_says_why_not() -> None:
    async def outcome(kind: str) -> tuple[str, str, list[str]]:
        async with server(kind, seconds=2 if kind == "silent" else SOON) as connection:
            tools = [name.removeprefix("mcp__odd__") for name in connection.tools]
            return connection.state, connection.problem, sorted(set(tools))

    async def scene() -> None:
        kinds = [*CONNECTED, *FAILED]
        found = {}
        for some in (kinds[at : at + 4] for at in range(0, len(kinds), 4)):
            found.update(zip(some, await asyncio.gather(*map(outcome, some)), strict=True))
        assert {kind: found[kind] for kind in CONNECTED} == {
            kind: ("connected", "", tools) for kind, tools in CONNECTED.items()
        }
        assert {kind: found[kind][0] for kind in FAILED} == dict.fromkeys(FAILED, "failed")
        unsaid = {kind: found[kind][1] for kind, words in FAILED.items() if not re.search(words, found[kind][1])}
        assert unsaid == {}

    run(scene())


def test_a_program_that_is_none_says_so(tmp_path: Path) -> None:
    async def scene() -> None:
        plain = tmp_path / "plain.txt"
        plain.write_text("no program", "utf-8")
        for command, words in ((tmp_path / "gone", "was not found|No such file"), (plain, "Permission denied")):
            async with server(command=str(command)) as connection:
                assert connection.state == "failed"
                assert re.search(words, connection.problem), connection.problem

    run(scene())


def test_a_server_that_ends_in_a_call_ends_it() -> None:
    async def scene() -> None:
        async with server("dies_in_call") as connection:
            with pytest.raises(ToolError, match="exit code 9"):
                await call(connection, "good")

    run(scene())


def test_what_arrives_in_pieces_is_read_whole_and_in_linear_time() -> None:
    line = b'{"jsonrpc": "2.0", "id": 1, "result": {"x": "\xc3\xa9' + b"y" * 100 + b'"}}\n'
    messages = StdioMessages()
    found = [each for at in range(len(line)) for each in messages.read(line[at : at + 1])]
    assert [each["result"]["x"][:2] for each in found if isinstance(each, dict)] == ["éy"]
    assert (messages.size, MESSAGE_SECONDS > REST_SECONDS) == (0, True)

    def read(lines: int) -> None:
        many = b'{"jsonrpc": "2.0", "id": 1, "result": {\n' + b'"a": [1, {"b": "}"}],\n' * lines + b'"c": 1}}\n'
        (message,) = StdioMessages().read(many)
        assert isinstance(message, dict)

    assert growth(read, 4_000, 40, times=10) < 40


def test_what_is_printed_beside_is_no_answer() -> None:
    printed = b"Loading [1/3]\n{ half\n\nDone {x}\n"
    messages = StdioMessages()
    found = [*messages.read(printed), *messages.read_rest(ended=True)]
    assert all(isinstance(each, Chatter) for each in found)
    (unreadable,) = [*messages.read(b'{"jsonrpc": "2.0", "id": 7, "res'), *messages.read_rest(ended=True)]
    assert isinstance(unreadable, Unreadable)
    assert unreadable.id == 7


S = {"type": "string"}


def properties(*required: str, **named: Any) -> dict[str, Any]:
    return {"type": "object", "properties": named, **({"required": list(required)} if required else {})}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object", "anyOf": [properties(text=S), properties(url=S)]}, properties(text=S, url=S)),
        ({"oneOf": [properties("a", "b", a=S, b=S), properties("b", "c", b=S, c=S)]}, properties("b", a=S, b=S, c=S)),
        (
            {"oneOf": [properties("k", k={"const": 1}), properties("k", k={"const": 2})]},
            properties("k", k={"anyOf": [{"const": 1}, {"const": 2}]}),
        ),
        ({"allOf": [properties("a", a=S), properties("b", b=S)]}, properties("a", "b", a=S, b=S)),
        ({**properties(a=S, b=S), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, properties(a=S, b=S)),
        ({"anyOf": [properties("a", a=S), {"type": "null"}]}, properties("a", a=S)),
        ({"anyOf": [{"oneOf": [properties(a=S), properties(b=S)]}, properties(c=S)]}, properties(a=S, b=S, c=S)),
        ({"anyOf": [True, "nonsense", properties(a=S)]}, properties(a=S)),
    ],
)
def test_a_schema_of_branches_keeps_its_properties(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert safe_schema(schema) == expected


@pytest.mark.parametrize("word", ["$defs", "definitions"])
def test_a_schema_that_refers_to_its_properties_keeps_them(word: str) -> None:
    made = safe_schema({"$ref": f"#/{word}/A", word: {"A": {"anyOf": [properties("a", a=S), {"$ref": f"#/{word}/A"}]}}})
    assert (made["type"], made["properties"]) == ("object", {"a": S})


def test_definitions_that_refer_to_each_other_cost_no_time() -> None:
    many = {f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{n + 1}"}] * 300, "properties": {f"p{n}": S}} for n in range(12)}
    began = time.process_time()
    safe_schema({"$ref": "#/$defs/D0", "$defs": many})
    assert time.process_time() - began < 5


def png() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (30, 20), "red").save(out, "PNG")
    return out.getvalue()


def with_chunk(before: bytes, kind: bytes, content: bytes) -> bytes:
    whole = png()
    at = whole.index(before) - 4
    return whole[:at] + len(content).to_bytes(4, "big") + kind + content + b"\0\0\0\0" + whole[at:]


@pytest.mark.parametrize(
    "data",
    [
        with_chunk(b"IDAT", b"tEXt", b"a\0b"),
        with_chunk(b"IEND", b"tEXt", b"a\0b"),
        with_chunk(b"IDAT", b"pHYs", bytes(9)),
        with_chunk(b"IDAT", b"gAMA", b"\0\0\x8f\x0b"),
        png()[:-4] + b"none",
        png()[:-12],
        png().replace(png()[png().index(b"IEND") - 8 : png().index(b"IEND") - 4], b"none"),
    ],
    ids=["text", "text at the end", "size", "gamma", "end", "no end", "pixels"],
)
def test_a_picture_with_a_wrong_checksum_is_a_picture(data: bytes) -> None:
    address = "data:image/png;base64," + base64.b64encode(data).decode()
    block = asyncio.run(image_or_words(address, "image/png"))
    assert block["type"] == "image"
    sent = base64.b64decode(block["source"]["data"])
    assert Image.open(io.BytesIO(sent)).convert("RGB").getpixel((29, 19)) == (255, 0, 0)
    assert has_right_checksums(sent), "who reads strictly takes it"


def test_a_picture_whose_pixels_are_cut_off_is_words() -> None:
    block = asyncio.run(image_or_words(base64.b64encode(png()[:-30]).decode(), "image/png"))
    assert "cannot be shown" in block["text"]
