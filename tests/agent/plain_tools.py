"""Tools that do nothing: one that reads, one that changes, one that fails."""

from cellwright.agent.tool import tool
from cellwright.errors import ToolError


@tool(read_only=True)
async def look(name: str) -> str:
    """Look at something."""
    return f"{name} looks fine"


@tool
async def change(name: str) -> str:
    """Change something."""
    return f"changed {name}"


@tool
async def fail(name: str) -> str:
    """Fail at something."""
    raise ToolError(f"{name} cannot be done; try another")
