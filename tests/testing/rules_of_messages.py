"""What the API refuses in messages: shape, roles, empty content, calls and results. Each row: (change, error)."""

from __future__ import annotations

from request_parts import (
    ASK,
    FOUND,
    HELLO,
    RESULT,
    SEARCH,
    TWO_CALLS,
    UNANSWERED,
    assistant,
    cached,
    conversation,
    image,
    pdf,
    result,
    system_message,
    text,
    tool,
    user,
    with_tools,
)

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
    # calls of the API's own tools and their results
    "search without its result": (
        conversation(HELLO, assistant(SEARCH, text()), HELLO),
        "messages.1: `web_search` tool use with id `srvtoolu_1` was found without a corresponding "
        "`web_search_tool_result` block",
    ),
    "search and call, and more than results": (
        conversation(HELLO, assistant(SEARCH, *ASK["content"]), user(result(), text())),
        "messages.1: `web_search` tool use with id `srvtoolu_1` was found without",
    ),
    "result without its search": (
        conversation(HELLO, assistant(FOUND, text()), HELLO),
        "messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks: srvtoolu_1",
    ),
    "result before its search": (
        conversation(HELLO, assistant(FOUND, SEARCH, text()), HELLO),
        "messages.1.content.0: unexpected `tool_use_id` found",
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
