"""A server as people write them: tools, a picture, a resource, a prompt, progress, a question, changing tools.

Run as a program it speaks stdio; with `--http PORT-FILE` streamable HTTP, with `--sse PORT-FILE` server-sent events. With
`--answers` it has a tool that answers for the user.
"""

import asyncio
import base64
import json
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp_types import ElicitRequestURLParams, ToolAnnotations
from pydantic import BaseModel

server = MCPServer("plain", instructions="Add numbers with add.", version="1.0")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers. They may be negative."""
    return a + b


@server.tool()
def environment() -> str:
    """Tell the names of the variables that are there."""
    return json.dumps(sorted(os.environ))


def may(tool_name: str, input: dict[str, object], tool_use_id: str) -> str:
    """Answer for the user: commands that touch something, and nothing else."""
    if tool_name == "Bash" and "touch" in str(input["command"]) and tool_use_id:
        return json.dumps({"behavior": "allow", "updatedInput": {**input, "command": "touch made"}})
    return json.dumps({"behavior": "deny", "message": f"no {tool_name} today"})


if "--answers" in sys.argv:
    server.tool()(may)


@server.tool()
def picture() -> Image:
    """Show a picture."""
    return Image(data=base64.b64decode(PIXEL), format="png")


@server.tool()
def long_text(characters: int) -> str:
    """Say a lot."""
    return "x" * characters


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it was not to be")


@server.tool()
async def wait(started: str, ctx: Context) -> str:
    """Tell how far it is, and wait for ever."""
    await ctx.report_progress(1, 4, "a quarter")
    Path(started).write_text("started", "utf-8")
    try:
        await asyncio.Event().wait()
    finally:
        Path(started).write_text("cancelled", "utf-8")
    return "never"


class Form(BaseModel):
    """What is asked for."""

    name: str
    count: int
    fine: bool = True


@server.tool()
async def ask(ctx: Context) -> str:
    """Ask the user."""
    answer = await ctx.elicit("Who are you?", Form)
    return f"{answer.action} {getattr(answer, 'data', None)}"


@server.tool()
async def open_page(ctx: Context, url: str = "https://example.com/pay") -> str:
    """Have the user open a page."""
    answer = await ctx.elicit_url("Please pay.", url, "order-1")
    return str(answer.action)


paid: list[str] = []


@server.tool()
def order() -> str:
    """Order something, once a page was opened."""
    if not paid:
        paid.append("asked")
        page = {"mode": "url", "message": "Pay first.", "url": "https://example.com/pay", "elicitationId": "order-2"}
        raise UrlElicitationRequiredError([ElicitRequestURLParams.model_validate(page)])
    return "ordered"


@server.tool()
def end() -> str:
    """End the process."""
    os._exit(3)


@server.tool()
async def grow(ctx: Context) -> str:
    """Have one tool more from now on."""

    def grown() -> str:
        """A tool that came later."""
        return "grown"

    server.add_tool(grown, name="grown")
    await ctx.session.send_tool_list_changed()
    return "there is one more"


@server.resource("memo://one", name="one", description="A memo.")
def memo() -> str:
    return "The memo says 42."


@server.prompt()
def review(what: str) -> str:
    """Review something."""
    return f"Review {what} with care."


def main() -> None:
    if len(sys.argv) < 3:
        server.run()
        return
    kind, file = sys.argv[1:3]
    import socket

    import uvicorn

    app = server.streamable_http_app() if kind == "--http" else server.sse_app()
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", int(sys.argv[3]) if len(sys.argv) > 3 else 0))
    listening.listen()
    part = Path(f"{file}.part")
    part.write_text(str(listening.getsockname()[1]), "utf-8")
    part.rename(file)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    main()
