"""An MCP server: the tides of two harbours, as a tool, a thing to read and a prompt. Needs `pip install mcp`."""

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

HIGH_WATER = {"Brest": ["04:12", "16:41"], "Dover": ["11:03", "23:27"]}

server = MCPServer("tides", instructions="High water of Brest and Dover, local time.")


@server.tool()
def high_water(harbour: str) -> list[str]:
    """The times of high water in a harbour today."""
    if harbour not in HIGH_WATER:
        raise ToolError(f"There is no {harbour}. There are: {', '.join(HIGH_WATER)}.")
    return HIGH_WATER[harbour]


@server.resource("tides://harbours", name="harbours", description="The harbours that there are.")
def harbours() -> str:
    return "\n".join(HIGH_WATER)


@server.prompt()
def plan_trip(harbour: str) -> str:
    """Plan a trip around high water."""
    return f"When should I leave {harbour} today? Ask high_water, and leave an hour of room."


if __name__ == "__main__":
    server.run()
