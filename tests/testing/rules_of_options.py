"""What the API refuses beside the messages: tools, thinking, caching, images, limits. Row: (change, error)."""

from __future__ import annotations

from request_parts import (
    ASK,
    CLOSED,
    HELLO,
    READ,
    RESULT,
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
    schema,
    strict,
    text,
    tool,
    user,
    webp,
    with_tools,
)

REFUSED = {
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
    "pdf with a password": (
        conversation(HELLO, ASK, user(result(content=[pdf(pages(1, "secret"))]))),
        "messages.2.content.0.tool_result.content.0.document.source.base64.data: The PDF specified is password protected",
    ),
    "too many pages": (
        {"model": "claude-haiku-4-5", **conversation(user(pdf(pages(60)), pdf(pages(41))))},
        "messages: A maximum of 100 PDF pages may be provided.",
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
    **{
        f"output schema with {word}": (
            {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
            f"output_config.format.schema{said}",
        )
        for word, schema, said in (
            ("minimum", {"type": "integer", "minimum": 1}, ": For 'integer' type, property 'minimum' is not supported"),
            ("oneOf", {"oneOf": [{"type": "null"}]}, ": For 'None' type, property 'oneOf' is not supported"),
            ("minItems", {"type": "array", "minItems": 2}, ": For 'array' type, 'minItems' values other than 0 or 1"),
            ("a format", {"type": "string", "format": "color"}, ": For 'string' type, the format 'color' is not"),
            ("an enum of lists", {"enum": [[1]]}, ": 'enum' values must be"),
            ("an external $ref", {"$ref": "https://a/b"}, ": External '$ref' is not supported"),
            ("any value", {"type": "array", "items": {}}, ".items: Schema must have a 'type'"),
            ("recursion", {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}}, ": Recursive"),
        )
    },
    "citations with structured output": (
        {
            "output_config": {"format": {"type": "json_schema", "schema": {"type": "object", **CLOSED}}},
            **conversation(user({**pdf(), "citations": {"enabled": True}}, text())),
        },
        "messages.0.content.0.document.citations: incompatible with output_config.format",
    ),
}
