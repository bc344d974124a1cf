"""The results of a server's tools, resources and prompts as content for Claude: text, and images that the API takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cellwright.agent.tool import ToolResult
from cellwright.text import replace_surrogates

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

MAX_BLOCKS = 200
MAX_IMAGES = 10

Block = dict[str, Any]


async def result_of(result: CallToolResult) -> ToolResult:
    """A call's result as ours; what is only there as data becomes text, since Claude reads no data."""
    blocks = await blocks_of(result.content)
    structured = result.structured_content
    if structured is not None and not any(block["type"] == "text" for block in blocks):
        blocks.append(_text(json.dumps(structured, ensure_ascii=False)[:200_000]))
    if result.is_error and not blocks:
        blocks = [_text("The server says that it failed, and not why.")]
    content: str | list[Block] = blocks
    if all(block["type"] == "text" for block in blocks):
        content = "\n".join(block["text"] for block in blocks)
    return ToolResult(content, is_error=result.is_error, structured=structured)


async def blocks_of(content: Sequence[ContentBlock]) -> list[Block]:
    """Content of a server's as blocks that the API takes; of what is too much the number is told."""
    blocks: list[Block] = []
    images = 0
    for part in content[:MAX_BLOCKS]:
        block = await _block(part, may_show=images < MAX_IMAGES)
        images += block["type"] == "image"
        blocks.append(block)
    if len(content) > MAX_BLOCKS:
        blocks.append(_text(f"[{len(content) - MAX_BLOCKS} more parts are left out]"))
    return blocks


async def _block(part: ContentBlock, *, may_show: bool) -> Block:
    match part.type:
        case "text":
            return _text(part.text)
        case "image":
            return await image_or_words(part.data, part.mime_type) if may_show else _text("[one more image, left out]")
        case "audio":
            return _text(f"[audio, {part.mime_type}, {len(part.data) * 3 // 4:,} bytes: Claude cannot hear it]")
        case "resource_link":
            about = " ".join(filter(None, (part.title or part.name, part.description, part.mime_type)))
            return _text(f"[resource {part.uri}: {about}; ReadMcpResourceTool reads it]")
        case "resource":
            return await resource_block(part.resource, may_show=may_show)


async def resource_block(resource: Any, *, may_show: bool = True) -> Block:
    """The content of a resource, after its address."""
    if (text := getattr(resource, "text", None)) is not None:
        return _text(f"[resource {resource.uri}]\n{text}")
    kind = resource.mime_type or "application/octet-stream"
    if kind.startswith("image/") and may_show:
        return await image_or_words(resource.blob, kind)
    return _text(f"[resource {resource.uri}: {kind}, {len(resource.blob) * 3 // 4:,} bytes, not shown]")


async def image_or_words(data: str, kind: str) -> Block:
    """The image as a block that the API takes, made smaller where need be, or words on why it cannot be shown."""
    from cellwright.model.images.api_images import UnusableImage, bytes_of, image_from_bytes

    try:
        made = await asyncio.to_thread(image_from_bytes, bytes_of(data))
    except UnusableImage as error:
        return _text(f"[an image ({kind}) that cannot be shown: {error}]")
    return dict(made.block)


def _text(text: str) -> Block:
    return {"type": "text", "text": replace_surrogates(text)}
