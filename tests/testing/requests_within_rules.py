"""The nearest neighbours of what is refused: requests that the API takes."""

from __future__ import annotations

from request_parts import (
    ASK,
    CLOSED,
    FOUND,
    HELLO,
    READ,
    RESULT,
    SEARCH,
    TWO_CALLS,
    assistant,
    cached,
    conversation,
    gif,
    image,
    jpeg,
    lossless_webp,
    lossy_webp,
    pages,
    pdf,
    png,
    result,
    strict,
    system_message,
    text,
    tool,
    user,
    webp,
    with_tools,
)

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
    "100 pages, in a tool_result": {
        "model": "claude-haiku-4-5",
        **conversation(HELLO, ASK, user(result(content=[text(), pdf(pages(100))]))),
    },
    "same role twice": conversation(HELLO, HELLO),
    "call and result": conversation(HELLO, ASK, RESULT),
    "result, then text": conversation(HELLO, ASK, user(result(), text())),
    "result, then text in a message of its own": conversation(HELLO, ASK, RESULT, HELLO),
    "results in two messages": conversation(HELLO, TWO_CALLS, RESULT, user(result("toolu_2"))),
    "results in another order": conversation(HELLO, TWO_CALLS, user(result("toolu_2"), result("toolu_1"))),
    "result without content": conversation(HELLO, ASK, user(result())),
    "result with an image": conversation(HELLO, ASK, user(result(content=[text(), image()]))),
    "error with content": conversation(HELLO, ASK, user(result(is_error=True, content="no"))),
    "search with its result": conversation(HELLO, assistant(SEARCH, FOUND, text()), HELLO),
    "search that the API is to run": conversation(HELLO, assistant(SEARCH, *ASK["content"]), user(result())),
    "search whose result came after a pause": conversation(HELLO, assistant(SEARCH), assistant(FOUND, text()), HELLO),
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
