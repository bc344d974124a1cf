"""Cellwright's extension in a kernel that the server wants to talk to: loaded, or said why not and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.server.api_error import ApiError
from cellwright.server.relay.connection import KernelConnection

LOAD = "%load_ext cellwright"
EXECUTABLE = "__import__('sys').executable"


async def load_extension(
    connection: KernelConnection, subshell: str | None, seconds: float | None, kernel_id: str
) -> None:
    """Load it on that subshell; each answer may take `seconds`. Raises ApiError, with the command that installs it."""

    async def execute(code: str, expressions: Mapping[str, str]) -> Mapping[str, Any]:
        content = {
            "code": code,
            "silent": True,
            "store_history": False,
            "user_expressions": dict(expressions),
            "allow_stdin": False,
            "stop_on_error": False,
        }
        reply = await connection.request("shell", "execute_request", content, subshell, seconds)
        return reply["content"]  # type: ignore[no-any-return]

    loaded = await execute(LOAD, {})
    if loaded["status"] == "ok":
        return
    told = await execute("", {"executable": EXECUTABLE})
    data = told.get("user_expressions", {}).get("executable", {}).get("data", {})
    executable = str(data.get("text/plain", "'python'")).strip("'\"")
    install = f"{executable} -m pip install cellwright"
    if loaded.get("ename") == "ModuleNotFoundError":
        message = f"The environment of kernel {kernel_id} has no Cellwright. Install it there: {install}"
        raise ApiError(409, "EXTENSION_MISSING", message, {"install": install})
    message = f"Cellwright could not be loaded in kernel {kernel_id}: {loaded.get('evalue', '')}"
    raise ApiError(409, "EXECUTION_ERROR", message)
