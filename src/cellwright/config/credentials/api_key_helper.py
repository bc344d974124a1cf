"""`apiKeyHelper`: a command of the user's whose output is the API key, run again when the key has grown old."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.credential_names import key_in

SECONDS = 10.0
"""The time the command may take."""

DEFAULT_LIFETIME_MS = 300_000
LIFETIME_NAME = "CLAUDE_CODE_API_KEY_HELPER_TTL_MS"

_keys: dict[str, tuple[float, str]] = {}
_running = threading.Lock()

if hasattr(os, "register_at_fork"):
    # in a forked process the thread that held it is not there
    os.register_at_fork(after_in_child=_running._at_fork_reinit)  # type: ignore[attr-defined]


def with_helpers_key(environ: Mapping[str, str], command: str | None) -> Mapping[str, str]:
    """`environ` with the key that `command` gives, where it holds none. Raises CellwrightError API_KEY_MISSING."""
    if command is None or key_in(environ):
        return environ
    with _running:  # two threads that need it at once: the command asks for a password once
        made, key = _keys.get(command, (0.0, ""))
        if not key or time.monotonic() - made > _lifetime_seconds(environ):
            key = _run_helper(command, environ)
            _keys[command] = (time.monotonic(), key)
    return {**environ, "ANTHROPIC_API_KEY": key}


def _lifetime_seconds(environ: Mapping[str, str]) -> float:
    text = environ.get(LIFETIME_NAME, "")
    return (int(text) if text.isascii() and text.isdigit() else DEFAULT_LIFETIME_MS) / 1000


def _run_helper(command: str, environ: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            command,
            shell=True,  # as Claude Code runs it: users write pipes there
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        what = f"took more than {SECONDS:g} s" if isinstance(error, subprocess.TimeoutExpired) else str(error)
        raise _failed(command, what) from error
    key = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode != 0 or not key:
        # its output may be half of a key
        raise _failed(command, f"ended with exit code {done.returncode} and {'an' if key else 'no'} output")
    return key


def _failed(command: str, what: str) -> CellwrightError:
    message = f"`apiKeyHelper` ({command}) gave no key: it {what}. Run it in a shell, or set ANTHROPIC_API_KEY."
    return CellwrightError(ErrorCode.API_KEY_MISSING, message)
