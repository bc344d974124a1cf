"""Each invariant of the Messages API: what is refused, with which path, and its nearest neighbour that is taken."""

from __future__ import annotations

import base64
import json
import struct
import zlib

import pytest

from cellwright.testing import say

HELLO = {"role": "user", "content": "Hello"}
ASK = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}]}
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

REFUSED = {
    # shape: unknown, missing and mistyped fields
    "unknown field": ({"foo": 1}, "foo: Extra inputs are not permitted"),
    "unknown field of a message": (
        conversation({**HELLO, "id": "x"}),
        "messages.0.id: Extra inputs are not permitted",
    ),
    "unknown field of a text block": (
        conversation(user(text(), text(extra=1))),
        "messages.0.content.1.text.extra: Extra inputs are not permitted",
    ),
    "unknown field of a tool_use": (
        conversation(
            HELLO,
            assistant(text(), {"type": "tool_use", "id": "a", "name": "Read", "input": {}, "text": ""}),
            user(result("a")),
        ),
        "messages.1.content.1.tool_use.text: Extra inputs are not permitted",
    ),
    "unknown field inside a tool_result": (
        conversation(HELLO, ASK, user(result(content=[text(extra=1)]))),
        "messages.2.content.0.tool_result.content.0.text.extra: Extra inputs are not permitted",
    ),
    "unknown field of a tool": (with_tools(tool(foo=1)), "tools.0.custom.foo: Extra inputs are not permitted"),
    "unknown field of a typed tool": (
        with_tools({"type": "bash_20250124", "name": "bash", "description": "x"}),
        "tools.0.bash_20250124.description: Extra inputs are not permitted",
    ),
    "unknown field of the system prompt": (
        {"system": [text(foo=1)]},
        "system.0.foo: Extra inputs are not permitted",
    ),
    "unknown field of cache_control": (
        conversation(user(text(cache_control={"type": "ephemeral", "scope": "global"}))),
        "messages.0.content.0.text.cache_control.ephemeral.scope: Extra inputs are not permitted",
    ),
    "beta field without its beta": (
        {"context_management": {"edits": []}},
        "context_management: Extra inputs are not permitted",
    ),
    "no messages": ({"messages": None}, "messages: Field required"),
    "no max_tokens": ({"max_tokens": None}, "max_tokens: Field required"),
    "no model": ({"model": None}, "model: Field required"),
    "messages no list": ({"messages": "hi"}, "messages: Input should be a valid list"),
    "max_tokens no integer": ({"max_tokens": "9"}, "max_tokens: Input should be a valid integer"),
    "max_tokens negative": ({"max_tokens": -1}, "max_tokens: Input should be greater than or equal to 0"),
    "stream no boolean": ({"stream": "yes"}, "stream: Input should be a valid boolean"),
    "text no string": (conversation(user(text(5))), "messages.0.content.0.text.text: Input should be a valid string"),
    "content no list": (
        conversation({"role": "user", "content": 5}),
        "messages.0.content: Input should be a valid list",
    ),
    "message no object": (conversation("Hello"), "messages.0: Input should be a valid dictionary"),
    "unknown block type": (
        conversation(user({"type": "sound"})),
        "messages.0.content.0: Input tag 'sound' found using 'type' does not match any of the expected tags",
    ),
    "block without type": (conversation(user({"text": "x"})), "messages.0.content.0.type: Field required"),
    "tool_use without input": (
        conversation(HELLO, assistant({"type": "tool_use", "id": "a", "name": "Read"})),
        "messages.1.content.0.tool_use.input: Field required",
    ),
    "tool input no object": (
        conversation(HELLO, assistant({"type": "tool_use", "id": "a", "name": "Read", "input": []})),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    "unknown ttl": (
        {"system": [text(**cached("2h"))]},
        "system.0.cache_control.ephemeral.ttl: Input should be '5m' or '1h'",
    ),
    "unknown thinking display": (
        {"thinking": {"type": "adaptive", "display": "all"}},
        "thinking.adaptive.display: Input should be 'summarized' or 'omitted'",
    ),
    "unknown effort": ({"output_config": {"effort": "huge"}}, "output_config.effort: Input should be"),
    # sampling
    "temperature": ({"temperature": 0}, "temperature: `temperature` is deprecated for this model."),
    "top_p": ({"top_p": 0.5}, "top_p: `top_p` is deprecated for this model."),
    "top_k": ({"top_k": 5}, "top_k: `top_k` is deprecated for this model."),
    # roles
    "unknown role": (
        conversation({"role": "tool", "content": "x"}),
        "messages.0.role: Input should be 'user', 'assistant' or 'system'",
    ),
    "no message": ({"messages": []}, "messages: at least one message is required"),
    "assistant first": (conversation(assistant(text()), HELLO), "messages.0.role: first message must use"),
    "system first": (conversation(system_message(), HELLO), "messages.0.role: first message must use"),
    "prefill": (
        conversation(HELLO, assistant(text("It is"))),
        "messages.1: This model does not support assistant message prefill.",
    ),
    "prefill that ends in a space": (
        {"model": "claude-haiku-4-5", **conversation(HELLO, assistant(text("It is ")))},
        "messages.1.content: final assistant content cannot end with trailing whitespace",
    ),
    "tool_use by the user": (
        conversation(user(ASK["content"][0])),
        "messages.0.content.0: `tool_use` blocks can only be in `assistant` messages",
    ),
    "tool_result by the assistant": (
        conversation(HELLO, assistant(result())),
        "messages.1.content.0: `tool_result` blocks can only be in `user` messages",
    ),
    "document by the assistant": (
        conversation(HELLO, assistant(text(), pdf()), HELLO),
        "messages.1.content.1: `document` blocks can only be in `user` messages",
    ),
    "citations by the user": (
        conversation(user(text(citations=[{"type": "char_location"}]))),
        "messages.0.content.0.text.citations: citations are not permitted",
    ),
    # empty content
    "empty text": (
        conversation(user(text("")), ASK, RESULT),
        "messages.0.content.0.text: text content blocks must be non-empty",
    ),
    "whitespace text": (
        conversation(user(text(" \n"))),
        "messages.0.content.0.text: text content blocks must contain non-whitespace text",
    ),
    "whitespace string": (
        conversation({"role": "user", "content": "  "}),
        "messages.0.content.0.text: text content blocks must contain non-whitespace text",
    ),
    "empty text in a tool_result": (
        conversation(HELLO, ASK, user(result(content=[text("")]))),
        "messages.2.content.0.tool_result.content.0.text: text content blocks must be non-empty",
    ),
    "empty text in the system prompt": (
        {"system": [text("")]},
        "system.0.text: text content blocks must be non-empty",
    ),
    "empty content": (
        conversation(user()),
        "messages.0.content: all messages must have non-empty content except for the optional final assistant",
    ),
    "empty string": (
        conversation({"role": "user", "content": ""}),
        "messages.0.content: all messages must have non-empty content",
    ),
    "empty assistant message in the middle": (
        conversation(HELLO, assistant(), HELLO),
        "messages.1.content: all messages must have non-empty content",
    ),
    "error without content": (
        conversation(HELLO, ASK, user(result(is_error=True))),
        "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true",
    ),
    # tool calls and their results
    "call not answered": (conversation(HELLO, ASK, HELLO), f"messages.1: {UNANSWERED}toolu_1"),
    "one of two not answered": (conversation(HELLO, TWO_CALLS, RESULT), f"messages.1: {UNANSWERED}toolu_2."),
    "result after text": (
        conversation(HELLO, ASK, user(text(), result())),
        f"messages.1: {UNANSWERED}toolu_1",
    ),
    "result a message too late": (
        conversation(HELLO, ASK, HELLO, RESULT),
        f"messages.1: {UNANSWERED}toolu_1",
    ),
    "result without call": (
        conversation(user(result("toolu_9"))),
        "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_9",
    ),
    "result of an earlier call": (
        conversation(HELLO, ASK, RESULT, assistant(text()), RESULT),
        "messages.4.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1",
    ),
    "answered twice": (
        conversation(HELLO, ASK, user(result(), result())),
        "messages.2.content.1: each tool_use must have a single result",
    ),
    "id used twice": (
        conversation(HELLO, ASK, RESULT, ASK, RESULT),
        "messages.3.content.0.tool_use.id: `tool_use` ids must be unique",
    ),
    "id with a dot": (
        conversation(HELLO, assistant({"type": "tool_use", "id": "a.b", "name": "Read", "input": {}}), HELLO),
        "messages.1.content.0.tool_use.id: String should match pattern",
    ),
    # tools
    "tool name with a dot": (with_tools(tool(name="mcp.read")), "tools.0.custom.name: String should match pattern"),
    "tool name too long": (with_tools(tool(name="x" * 65)), "tools.0.custom.name: String should match pattern"),
    "two tools of one name": (with_tools(READ, READ), "tools: Tool names must be unique."),
    "schema without type": (
        with_tools(tool(input_schema={"properties": {}})),
        "tools.0.custom.input_schema.type: Field required",
    ),
    "schema of an array": (
        with_tools(tool(input_schema={"type": "array"})),
        "tools.0.custom.input_schema.type: Input should be 'object'",
    ),
    "schema with oneOf on top": (
        with_tools(tool(input_schema=schema(oneOf=[]))),
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
    ),
    "schema of another draft": (
        with_tools(READ, tool(name="B", input_schema=schema(properties={"a": {"type": "strin"}}))),
        "tools.1.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
    ),
    "property key with a space": (
        with_tools(tool(input_schema=schema(properties={"a b": {}}))),
        "tools.0.custom.input_schema.properties: Property keys should match pattern",
    ),
    "example that breaks the schema": (
        with_tools(
            tool(input_schema=schema(properties={"n": {"type": "integer"}}), input_examples=[{"n": 1}, {"n": "x"}])
        ),
        "tools.0.custom.input_examples.1: Input example does not match",
    ),
    "all tools deferred": (with_tools(tool(defer_loading=True)), "tools: At least one tool must have defer_loading"),
    "strict with open objects": (
        with_tools(strict({})),
        "tools.0.custom.input_schema: For 'object' type, 'additionalProperties' must be explicitly set to false",
    ),
    "strict with an open object inside": (
        with_tools(strict({"a": {"type": "object"}}, **CLOSED)),
        "tools.0.custom.input_schema.properties.a: For 'object' type, 'additionalProperties'",
    ),
    "strict with a minimum": (
        with_tools(strict({"a": {"type": "integer", "minimum": 1}}, **CLOSED)),
        "tools.0.custom.input_schema.properties.a: For 'integer' type, property 'minimum' is not supported",
    ),
    "strict and recursive": (
        with_tools(
            strict(
                {"tree": {"$ref": "#/$defs/tree"}},
                **CLOSED,
                **{"$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}},
            )
        ),
        "tools.0.custom.input_schema: Recursive schemas are not supported",
    ),
    "too many strict tools": (
        with_tools(*({**strict({}, **CLOSED), "name": f"t{n}"} for n in range(21))),
        "tools: Too many strict tools: 21 > 20",
    ),
    "too many optional parameters": (
        with_tools(strict({f"p{n}": {"type": "string"} for n in range(25)}, **CLOSED)),
        "tools: Too many optional parameters in strict tools: 25 > 24",
    ),
    "typed tool under another name": (
        with_tools({"type": "bash_20250124", "name": "Bash"}),
        "tools.0.bash_20250124.name: Input should be 'bash'",
    ),
    "beta tool without its beta": (
        with_tools({"type": "computer_20250124", "name": "computer"}),
        "tools.0: Input tag 'computer_20250124'",
    ),
    "tool_choice without tools": (
        {"tool_choice": {"type": "auto"}},
        "tool_choice: tool_choice may only be specified while providing tools",
    ),
    "tool_choice of no tool": (
        {"model": "claude-opus-5", **with_tools(READ, tool_choice={"type": "tool", "name": "Write"})},
        "tool_choice.tool.name: Tool 'Write' not found in provided tools",
    ),
    "forced tool": (
        with_tools(READ, tool_choice={"type": "tool", "name": "Read"}),
        'tool_choice: type "tool" and "any" are not supported for this model.',
    ),
    "any tool": (
        {"model": "claude-sonnet-5-5", **with_tools(READ, tool_choice={"type": "any"})},
        'tool_choice: type "tool" and "any" are not supported for this model.',
    ),
    "forced tool with manual thinking": (
        {
            "model": "claude-opus-4-6",
            "max_tokens": 2000,
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            **with_tools(READ, tool_choice={"type": "any"}),
        },
        "tool_choice: Thinking may not be enabled when tool_choice forces tool use.",
    ),
    # thinking and effort
    "thinking disabled on opus 5.5": (
        {"thinking": {"type": "disabled"}},
        'thinking.type: "thinking.type.disabled" is not supported for this model.',
    ),
    "manual thinking on opus 5.5": (
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        'thinking.type: "thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive"',
    ),
    "adaptive thinking on haiku 4.5": (
        {"model": "claude-haiku-4-5", "thinking": {"type": "adaptive"}},
        "thinking.type: adaptive thinking is not supported on this model",
    ),
    "thinking between tools on opus 5": (
        {"model": "claude-opus-5", "thinking": {"type": "between_tools"}},
        'thinking.type: "thinking.type.between_tools" is not supported',
    ),
    "thinking budget too small": (
        {"model": "claude-opus-4-6", "thinking": {"type": "enabled", "budget_tokens": 1000}},
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    ),
    "thinking budget above max_tokens": (
        {"model": "claude-opus-4-6", "thinking": {"type": "enabled", "budget_tokens": 1024}},
        "thinking.enabled.budget_tokens: `max_tokens` must be greater",
    ),
    "effort on sonnet 4.5": (
        {"model": "claude-sonnet-4-5", "output_config": {"effort": "low"}},
        "output_config.effort: This model does not support the effort parameter.",
    ),
    "xhigh on opus 4.6": (
        {"model": "claude-opus-4-6", "output_config": {"effort": "xhigh"}},
        "output_config.effort: 'xhigh' is not supported for this model. Use one of: low, medium, high, max",
    ),
    "xhigh on opus 5 with thinking off": (
        {"model": "claude-opus-5", "thinking": {"type": "disabled"}, "output_config": {"effort": "xhigh"}},
        "output_config.effort: 'xhigh' is not supported for this model with thinking off",
    ),
    "made-up signature": (
        conversation(HELLO, assistant({"type": "thinking", "thinking": "x", "signature": "abc"}, text()), HELLO),
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    "tool loop of manual thinking without thinking": (
        {
            "model": "claude-opus-4-6",
            "max_tokens": 2000,
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            **conversation(HELLO, ASK, RESULT),
        },
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
    ),
    # caching
    "five breakpoints": (
        conversation(user(*(text(**cached()) for _ in range(5)))),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "four breakpoints and the automatic one": (
        {**cached(), **conversation(user(*(text(**cached()) for _ in range(4)), text()))},
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "1h after 5m": (
        {"system": [text(**cached("5m"))], **conversation(user(text(**cached("1h"))))},
        "messages.0.content.0.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m'",
    ),
    "automatic 1h after 5m": (
        {"system": [text(**cached("5m"))], **cached("1h")},
        "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m'",
    ),
    "automatic ttl against the block's": (
        {**cached("5m"), **conversation(user(text(**cached("1h"))))},
        "cache_control.ttl: the last cacheable block has a cache_control with a different ttl",
    ),
    "cache_control on empty text": (
        conversation(user(text("", **cached()))),
        "messages.0.content.0.text: cache_control cannot be set for empty text blocks",
    ),
    "cache_control on thinking": (
        conversation(HELLO, assistant({"type": "thinking", "thinking": "", "signature": "x", **cached()})),
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
    ),
    # images and documents
    "image of another type": (
        conversation(user(image(jpeg()))),
        "messages.0.content.0.image.source.base64: The image was specified using the image/png media type, but the "
        "image appears to be a image/jpeg image",
    ),
    "image that is none": (conversation(user(image(b"hello"))), "base64.data: Could not process image"),
    "image in broken base64": (
        conversation(user(image(data=None) | {"source": {**image()["source"], "data": "%%%"}})),
        "messages.0.content.0.image.source.base64.data: Invalid base64 data",
    ),
    "image type that is not taken": (
        conversation(user(image(media_type="image/bmp"))),
        "messages.0.content.0.image.source.base64.media_type: Input should be",
    ),
    "image over 10 MB": (
        conversation(user(image(png() + bytes(8 * 1024 * 1024)))),
        "messages.0.content.0.image.source.base64: image exceeds 10 MB maximum",
    ),
    "image over 8000 pixels": (
        conversation(user(image(png(8001, 1)))),
        "messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size: "
        "8000",
    ),
    "jpeg over 8000 pixels": (conversation(user(image(jpeg(1, 8001), "image/jpeg"))), "size: 8000 pixels"),
    "gif over 8000 pixels": (conversation(user(image(gif(8001), "image/gif"))), "size: 8000 pixels"),
    "webp over 8000 pixels": (conversation(user(image(webp(8001), "image/webp"))), "size: 8000 pixels"),
    "lossy webp over 8000 pixels": (conversation(user(image(lossy_webp(1, 8001), "image/webp"))), "size: 8000 pixels"),
    "lossless webp over 8000 pixels": (
        conversation(user(image(lossless_webp(1, 8001), "image/webp"))),
        "size: 8000 pixels",
    ),
    "large image in a tool_result": (
        conversation(HELLO, ASK, user(result(content=[text(), image(png(1, 8001))]))),
        "messages.2.content.0.tool_result.content.1.image.source.base64.data: At least one of the image dimensions",
    ),
    "one of 21 images over 2000 pixels": (
        conversation(user(*[image()] * 20, image(png(2001, 5)))),
        "messages.0.content.20.image.source.base64.data: At least one of the image dimensions exceed max allowed size "
        "for many-image requests: 2000 pixels",
    ),
    "too many images": (
        {"model": "claude-haiku-4-5", **conversation(user(*[image()] * 101))},
        "messages: too many images: 101 > 100 maximum",
    ),
    "pdf that is none": (
        conversation(user(pdf(b"hello"))),
        "messages.0.content.0.document.source.base64.data: The PDF specified was not valid.",
    ),
    # limits
    "max_tokens above the model's": (
        {"max_tokens": 128_001},
        "max_tokens: 128001 > 128000, which is the maximum allowed number of output tokens for claude-opus-5-5",
    ),
    "prompt too long": (
        {"model": "claude-haiku-4-5", **conversation(user(text("word " * 200_000)))},
        "prompt is too long: 25",
    ),
    "blank stop sequence": (
        {"stop_sequences": ["x", " "]},
        "stop_sequences.1: each stop sequence must contain non-whitespace",
    ),
    "warming up with a stream": ({"max_tokens": 0, "stream": True}, "max_tokens: 0 cannot be combined with stream"),
    "open output schema": (
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        "output_config.format.schema: For 'object' type, 'additionalProperties'",
    ),
    "citations with structured output": (
        {
            "output_config": {"format": {"type": "json_schema", "schema": {"type": "object", **CLOSED}}},
            **conversation(user({**pdf(), "citations": {"enabled": True}}, text())),
        },
        "messages.0.content.0.document.citations: incompatible with output_config.format",
    ),
    # system messages in the conversation
    "system message on sonnet 5": (
        {"model": "claude-sonnet-5", **conversation(HELLO, system_message())},
        "messages.1.role: role 'system' is not supported on this model",
    ),
    "system message after the assistant": (
        conversation(HELLO, assistant(text()), system_message()),
        "messages.2: role 'system' must follow a 'user' message",
    ),
    "system message before the user": (
        conversation(HELLO, system_message(), HELLO),
        "messages.1: role 'system' must precede an 'assistant' message or end the array",
    ),
    "two system messages": (
        conversation(HELLO, system_message(), system_message()),
        "messages.1: role 'system' must precede an 'assistant' message or end the array",
    ),
    "system message between call and result": (
        conversation(HELLO, ASK, system_message(), RESULT),
        f"messages.1: {UNANSWERED}toolu_1",
    ),
    "image in a system message": (
        conversation(HELLO, system_message([image()])),
        "messages.1.content.0: Input tag 'image'",
    ),
}

TAKEN = {
    "string content": {},
    "blocks": conversation(user(text(), image(), image(jpeg(), "image/jpeg"), image(gif(), "image/gif"))),
    "webp": conversation(
        user(
            *(
                image(data, "image/webp")
                for data in (webp(8000, 8000), lossy_webp(8000, 8000), lossless_webp(8000, 8000))
            )
        )
    ),
    "jpeg and gif of 8000 pixels": conversation(
        user(image(jpeg(8000, 8000), "image/jpeg"), image(gif(8000, 8000), "image/gif"))
    ),
    "image by url": conversation(
        user({"type": "image", "source": {"type": "url", "url": "https://example.org/x.png"}})
    ),
    "pdf": conversation(user(pdf())),
    "same role twice": conversation(HELLO, HELLO),
    "call and result": conversation(HELLO, ASK, RESULT),
    "result, then text": conversation(HELLO, ASK, user(result(), text())),
    "result, then text in a message of its own": conversation(HELLO, ASK, RESULT, HELLO),
    "results in two messages": conversation(HELLO, TWO_CALLS, RESULT, user(result("toolu_2"))),
    "results in another order": conversation(HELLO, TWO_CALLS, user(result("toolu_2"), result("toolu_1"))),
    "result without content": conversation(HELLO, ASK, user(result())),
    "result with an image": conversation(HELLO, ASK, user(result(content=[text(), image()]))),
    "error with content": conversation(HELLO, ASK, user(result(is_error=True, content="no"))),
    "empty final assistant message": {"model": "claude-haiku-4-5", **conversation(HELLO, assistant())},
    "prefill where it is allowed": {"model": "claude-haiku-4-5", **conversation(HELLO, assistant(text("It is")))},
    "system string": {"system": "Be brief"},
    "system blocks": {"system": [text("Be brief", **cached("1h"))]},
    "system message last": conversation(HELLO, system_message()),
    "system message before the assistant": conversation(HELLO, ASK, RESULT, system_message(), assistant(text()), HELLO),
    "tools": with_tools(
        READ, tool(name="B", type="custom", eager_input_streaming=True, strict=None) | {"strict": False}
    ),
    "typed tools": with_tools(
        {"type": "bash_20250124", "name": "bash"}, {"type": "web_search_20260318", "name": "web_search", "max_uses": 3}
    ),
    "one of two tools deferred": with_tools(READ, tool(name="B", defer_loading=True)),
    "strict tool": with_tools(strict({"a": {"type": "string"}}, ["a"], **CLOSED)),
    "tool choice": with_tools(READ, tool_choice={"type": "auto", "disable_parallel_tool_use": True}),
    "forced tool on haiku 5.5": {
        "model": "claude-haiku-5-5",
        **with_tools(READ, tool_choice={"type": "tool", "name": "Read"}),
    },
    "adaptive thinking": {
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "max"},
    },
    "thinking between tools": {"model": "claude-sonnet-5-5", "thinking": {"type": "between_tools"}},
    "thinking off": {"model": "claude-opus-5", "thinking": {"type": "disabled"}, "output_config": {"effort": "high"}},
    "manual thinking": {
        "model": "claude-sonnet-4-5",
        "max_tokens": 2000,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    },
    "four breakpoints": conversation(user(*(text(**cached()) for _ in range(4)))),
    "explicit and automatic on one block": {
        **cached("5m"),
        **conversation(user(*(text(**cached()) for _ in range(4)))),
    },
    "1h in system, 5m automatic": {"system": [text(**cached("1h"))], **cached()},
    "20 large images": conversation(user(*[image(png(3000, 3000))] * 20)),
    "21 images of 2000 pixels": conversation(user(*[image(png(2000, 2000))] * 21)),
    "all max_tokens": {"max_tokens": 128_000},
    "dated model": {"model": "claude-opus-4-5-20251101", "output_config": {"effort": "high"}},
    "structured output": {
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object", **CLOSED}}},
    },
    "other options": {
        "metadata": {"user_id": "u"},
        "stop_sequences": ["END"],
        "service_tier": "auto",
        "inference_geo": "us",
        "diagnostics": {"previous_message_id": None},
        "speed": "standard",
    },
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_request_that_breaks_a_rule_is_refused_by_path(client, changes, message):
    api = client([say("never said")])
    assert message in api.error(api.body(**changes))
    assert api.server.remaining_turns == 1
    assert [request.error for request in api.server.rejected] == [api.server.requests[0].error]


@pytest.mark.parametrize("changes", TAKEN.values(), ids=TAKEN.keys())
def test_a_request_within_the_rules_is_answered(client, changes):
    api = client([say("Yes.")])
    response = api.post(api.body(**changes))
    assert response.status_code == 200, response.text
    assert response.json()["content"] == [{"type": "text", "text": "Yes."}]


@pytest.mark.parametrize(
    ("beta", "changes"),
    [
        ("context-management-2025-06-27", {"context_management": {"edits": []}}),
        ("mcp-client-2025-11-20", {"mcp_servers": []}),
        ("computer-use-2025-01-24", with_tools({"type": "computer_20250124", "name": "computer"}, READ)),
        ("mid-conversation-system-clear-at-2026-08-21", conversation(HELLO, {**system_message(), "clear_at": "never"})),
        ("thinking-display-updates-2026-08-18", {"thinking": {"type": "adaptive", "display": "updates"}}),
        ("compact-2026-09-04", conversation(assistant({"type": "compaction", "content": "so far"}), HELLO)),
        (
            "mid-conversation-tool-changes-2026-07-01",
            conversation(HELLO, system_message([{"type": "tool_removal", "tool": {"name": "Read"}}])),
        ),
        (
            "mid-conversation-output-config-2026-07-01",
            conversation(HELLO, {**system_message(), "output_config": {"effort": "low"}}),
        ),
        ("task-budgets-2026-03-13", {"output_config": {"task_budget": {"type": "tokens", "total": 1}}}),
    ],
)
def test_a_beta_adds_its_fields(client, beta, changes):
    api = client([say("Yes.")])
    assert "Extra inputs" in (message := api.error(api.body(**changes))) or "Input" in message
    assert api.post(api.body(**changes), **{"anthropic-beta": f"other-2026-01-01,{beta}"}).status_code == 200


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"model":', "The request body is not valid JSON: Expecting value"),
        (b"[]", "The request body is not valid JSON"),
        (b'{"max_tokens": NaN}', "The request body is not valid JSON: NaN is no JSON"),
        (b'{"model": "\\ud83d"}', "no low surrogate in string"),
        (b"\xff", "The request body is not valid JSON"),
    ],
)
def test_a_body_that_is_no_json_is_refused(client, raw, message):
    assert message in client().error(raw)


def test_a_paired_surrogate_is_json(client):
    api = client([say("Yes.")])
    assert api.post(json.dumps(api.body(system="😀")).encode()).status_code == 200


def test_a_conversation_that_grows_is_checked_at_its_new_end(client):
    """What an earlier request was found right in is not looked at again; what was added or changed is."""
    api = client([say("a"), say("b")])
    first = api.body(messages=[HELLO])
    assert api.post(first).status_code == 200
    grown = [HELLO, assistant(text("a")), user(text("more", extra=1))]
    assert api.error(api.body(messages=grown)).startswith("messages.2.content.0.text.extra: Extra")
    changed = [user(text("Hello", extra=1)), assistant(text("a")), HELLO]
    assert api.error(api.body(messages=changed)).startswith("messages.0.content.0.text.extra: Extra")
    assert api.post(api.body(messages=[HELLO, assistant(text("a")), HELLO])).status_code == 200


HISTORY = [
    HELLO,
    *(
        message
        for n in range(4)
        for message in (
            assistant(text("So:"), {"type": "tool_use", "id": f"h{n}", "name": "Read", "input": {}}),
            user(result(f"h{n}", content="x")),
        )
    ),
    assistant(text("Done.")),
]
LATER = {
    "id of long ago": (
        HELLO,
        assistant({"type": "tool_use", "id": "h0", "name": "Read", "input": {}}),
        user(result("h0")),
    ),
    "result of long ago": (user(result("h0")),),
    "result of the last call": (user(result("h3")),),
    "call not answered": (HELLO, ASK, HELLO),
    "result too late": (HELLO, ASK, HELLO, RESULT),
    "system first": (system_message(), HELLO),
    "all is well": (HELLO, ASK, RESULT, assistant(text()), HELLO),
}


@pytest.mark.parametrize("later", LATER.values(), ids=LATER.keys())
@pytest.mark.parametrize("known", range(len(HISTORY) + 1))
def test_what_is_known_changes_no_verdict(client, known, later):
    """A server that has seen the beginning of a conversation says of the whole what a fresh one says."""
    script = [say("x")] * 3
    fresh, knowing = client(script), client(script)
    beginning = HISTORY[:known]
    knowing.post(knowing.body(messages=beginning if known % 2 else [*beginning, HELLO]))
    whole = [*HISTORY, *later]
    answers = [api.post(api.body(messages=whole)).json().get("error") for api in (fresh, knowing)]
    assert answers[0] == answers[1]
    assert (answers[0] is None) == (later == LATER["all is well"])
