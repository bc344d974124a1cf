"""The errors of claude-agent-sdk, by its names. No program is started: errors of its start are never raised."""

from __future__ import annotations

from typing import Any


class ClaudeSDKError(Exception):
    """The base of all; also what an option raises that is not there."""


class CLIConnectionError(ClaudeSDKError):
    """Raised for options that cannot be meant so, and by a client that is not connected."""


class CLINotFoundError(CLIConnectionError):
    """Never raised here: no program is looked for."""

    def __init__(self, message: str = "Claude Code not found", cli_path: str | None = None) -> None:
        super().__init__(f"{message}: {cli_path}" if cli_path else message)


class ProcessError(ClaudeSDKError):
    """The base of `ResultError`; `exit_code` is None, because no process has one."""

    def __init__(self, message: str, exit_code: int | None = None, stderr: str | None = None) -> None:
        self.exit_code, self.stderr = exit_code, stderr
        code = "" if exit_code is None else f" (exit code: {exit_code})"
        super().__init__(f"{message}{code}" + (f"\nError output: {stderr}" if stderr else ""))


class ResultError(ProcessError):
    """Raised by `query` after the message of a run that failed: the fields of that message."""

    def __init__(self, message: str, data: dict[str, Any] | None = None, exit_code: int | None = None) -> None:
        self.data = data if isinstance(data, dict) else {}
        self.subtype: str | None = self.data.get("subtype")
        self.errors: list[str] = list(self.data.get("errors") or ())
        self.result: str | None = self.data.get("result")
        self.api_error_status: int | None = self.data.get("api_error_status")
        self.terminal_reason: str | None = self.data.get("terminal_reason")
        self.session_id: str | None = self.data.get("session_id")
        super().__init__(message, exit_code)


class CLIJSONDecodeError(ClaudeSDKError):
    """Never raised here: nothing is read from a program."""

    def __init__(self, line: str, original_error: Exception) -> None:
        self.line, self.original_error = line, original_error
        super().__init__(f"This is not JSON: {line[:100]}")
