"""The `claude` program: where it is, and who is signed in there."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode, needs_extra

SDK = "claude_agent_sdk"


class SignIn(Struct, frozen=True):
    """The program's own word on who asks: `method` is its name for the kind ("claude.ai", "api_key", "none")."""

    signed_in: bool
    method: str = ""
    plan: str = ""

    @property
    def words(self) -> str:
        """The account that asks, in words; never a part of a credential."""
        if not self.signed_in:
            return "not signed in"
        if self.method == "api_key":
            return "an API key (requests are billed)"
        return f"signed in by {self.method}" + (f", plan {self.plan}" if self.plan else "")


def has_sdk() -> bool:
    """Return whether the package that drives the program is installed."""
    return importlib.util.find_spec(SDK) is not None


def find_program(environ: Mapping[str, str]) -> Path:
    """The program: the one that came with the package, else the `claude` on the path.

    Raises `CellwrightError` CONFIG_INVALID where the package or the program is missing.
    """
    found = importlib.util.find_spec(SDK)
    if found is None or found.origin is None:
        raise CellwrightError(ErrorCode.CONFIG_INVALID, needs_extra("The provider claude-code", "claude-code"))
    bundled = Path(found.origin).parent / "_bundled" / ("claude.exe" if sys.platform == "win32" else "claude")
    if bundled.is_file():
        return bundled
    if on_path := shutil.which("claude", path=environ.get("PATH")):
        return Path(on_path)
    message = "The provider claude-code needs the program `claude`: install Claude Code, or claude-agent-sdk anew."
    raise CellwrightError(ErrorCode.CONFIG_INVALID, message)


def sign_in(program: Path, environ: Mapping[str, str]) -> SignIn | None:
    """Ask `program` who is signed in (`claude auth status`); None where it does not say. It asks nobody else."""
    try:
        asked = subprocess.run(
            [str(program), "auth", "status"],
            env=dict(environ),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=20.0,
            check=False,
        )
        said = json.loads(asked.stdout)
        return SignIn(
            bool(said["loggedIn"]), str(said.get("authMethod") or ""), str(said.get("subscriptionType") or "")
        )
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return None
