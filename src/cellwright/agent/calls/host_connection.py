"""The connection of a command's process to a host, as the policy and the user see it: like a page that WebFetch fetches.

So the same rules speak of both, and a yes "for this session" or "always" is a rule `WebFetch(domain:…)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.agent.tool import Tool, ToolAccess, ToolContext
from cellwright.events import Preview
from cellwright.text import visible_line

_HTTPS = 443


def reach_input(host: str, port: int) -> dict[str, Any]:
    """The input of a call that would connect to `host` at `port`."""
    return {"url": f"https://{host}/" if port == _HTTPS else f"https://{host}:{port}/"}


async def _preview(tool_input: Mapping[str, Any]) -> Preview:
    place = str(tool_input["url"]).removeprefix("https://").removesuffix("/")
    return Preview(
        f"Let the running command connect to {visible_line(place)}",
        "It can send there all it can read. Allowing it for the session also covers pages Claude fetches from there.",
    )


async def _never(_tool_input: dict[str, Any], _ctx: ToolContext) -> str:
    raise AssertionError("a connection is judged and asked about; nobody calls it as a tool")


REACH = Tool(
    name="WebFetch",
    description="",
    input_schema={"type": "object"},
    call=_never,
    access=ToolAccess("fetch", "url"),
    preview=_preview,
)
