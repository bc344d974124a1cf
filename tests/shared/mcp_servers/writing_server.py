"""A server that writes where it is told: what it may is the sandbox's to say."""

from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("writing", version="1.0")


@server.tool()
def write(path: str) -> str:
    """Write a file, and say how that went."""
    try:
        Path(path).write_text("written\n", "utf-8")
    except OSError as error:
        return f"refused: {error.strerror}"
    return "written"


if __name__ == "__main__":
    server.run()
