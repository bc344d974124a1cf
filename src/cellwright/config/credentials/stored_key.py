"""The key of `cellwright auth login`, in the keyring or a file, and the key that `apiKeyHelper` prints.

A note in our state folder says where it is and for which address it was entered; to another address it is never sent.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.credentials import key_in, source_of_credential
from cellwright.model.transports.transport import DEFAULT_BASE_URL
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder, write_atomic
from cellwright.this_process.late_imports import importing

SECONDS = 10.0
"""The time the command may take."""

LIFETIME_NAME = "CLAUDE_CODE_API_KEY_HELPER_TTL_MS"

_keys: dict[str, tuple[float, str]] = {}
_running = threading.Lock()

Place = Literal["keyring", "file"]
"""The two places where a key is kept."""

SERVICE = "cellwright"
_NOTE = "api-key.json"
_ON_DISK = ("ANTHROPIC_PROFILE", "ANTHROPIC_IDENTITY_TOKEN", "ANTHROPIC_IDENTITY_TOKEN_FILE")
"""The variables that name a sign-in of the SDK's, which goes before the key; one that only lies on disk does not."""


_FOUNDRY, _FOUNDRY_KEY = "CLAUDE_CODE_USE_FOUNDRY", "ANTHROPIC_FOUNDRY_API_KEY"


if hasattr(os, "register_at_fork"):
    # in a forked process the thread that held it is not there
    os.register_at_fork(after_in_child=_running._at_fork_reinit)  # type: ignore[attr-defined]


def with_helpers_key(environ: Mapping[str, str], command: str | None) -> Mapping[str, str]:
    """`environ` with the key that `command` gives, where it holds none. Raises CellwrightError API_KEY_MISSING."""
    if command is None or key_in(environ):
        return environ
    with _running:  # two threads that need it at once: the command asks for a password once
        made, key = _keys.get(command, (0.0, ""))
        text = environ.get(LIFETIME_NAME, "")
        lifetime_ms = int(text) if text.isascii() and text.isdigit() else 300_000
        if not key or time.monotonic() - made > lifetime_ms / 1000:
            key = _run_helper(command, environ)
            _keys[command] = (time.monotonic(), key)
    return {**environ, "ANTHROPIC_API_KEY": key}


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


class Note(Struct, frozen=True, omit_defaults=True):
    """The file's content: where the key is, for which address, and the key itself where no keyring works."""

    place: Place
    base_url: str
    key: str = ""


_read: dict[tuple[str, int, int], str] = {}
_reading = threading.Lock()

if hasattr(os, "register_at_fork"):
    # in a forked process the thread that held it is not there
    os.register_at_fork(after_in_child=_reading._at_fork_reinit)  # type: ignore[attr-defined]


def note_path() -> Path:
    """The file that says where the key is kept."""
    return state_folder() / _NOTE


def read_note() -> Note | None:
    """The note of what was kept; None where nothing is. Raises `CellwrightError` CONFIG_INVALID for a damaged file."""
    path = note_path()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Note)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        message = f"{path} cannot be read ({type(error).__name__}). `cellwright auth login` writes it anew."
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message) from None


def address_of(environ: Mapping[str, str]) -> str:
    """The address that requests go to, as `environ` says; of Foundry the resource."""
    if source_of_credential(environ) == _FOUNDRY:
        return environ.get("ANTHROPIC_FOUNDRY_BASE_URL") or f"Foundry's {environ.get('ANTHROPIC_FOUNDRY_RESOURCE', '')}"
    return (environ.get("ANTHROPIC_BASE_URL", "").strip() or DEFAULT_BASE_URL).rstrip("/")


def keep(key: str, base_url: str) -> Place:
    """Keep `key` for requests to `base_url`, in place of the one before. Raises OSError."""
    place: Place = "keyring" if in_keyring(base_url, key) else "file"
    if (before := _note_before()) is not None and before.place == "keyring" and before.base_url != base_url:
        out_of_keyring(before.base_url)
    note = Note(place, base_url, "" if place == "keyring" else key)
    make_private_folder(note_path().parent)
    write_atomic(note_path(), msgspec.json.encode(note), PRIVATE_FILE)
    return place


def forget() -> Place | None:
    """Take the key away; gives where it was, None where none was kept. Raises OSError."""
    before = _note_before()
    if before is not None and before.place == "keyring":
        out_of_keyring(before.base_url)
    existed = note_path().exists()
    note_path().unlink(missing_ok=True)
    return before.place if before is not None else "file" if existed else None


def _note_before() -> Note | None:
    with contextlib.suppress(CellwrightError):
        return read_note()
    return None


def kept_source(environ: Mapping[str, str], *, own_credentials: bool = True) -> Place | None:
    """The place of the key that counts with `environ`; None where what stands there goes before it, or none is kept."""
    if not own_credentials:
        return None
    # nothing in `environ` may go before a key that was kept
    given = source_of_credential(environ)
    if given == _FOUNDRY:
        has_room = not environ.get(_FOUNDRY_KEY)
    else:
        has_room = given is None or (given == "the SDK's sign-in" and not any(environ.get(name) for name in _ON_DISK))
    if not has_room:
        return None
    note = _note_before()
    return note.place if note is not None and note.base_url == address_of(environ) else None


def with_key(environ: Mapping[str, str], helper: str | None, *, own_credentials: bool = True) -> Mapping[str, str]:
    """`environ` with a key, where it holds none: that of `apiKeyHelper`, else the one that was kept.

    It is for a provider alone: no child process and nothing that is written has it. Raises `CellwrightError`
    API_KEY_MISSING where the helper gives none, or the keyring does not give its own.
    """
    environ = with_helpers_key(environ, helper)
    if kept_source(environ, own_credentials=own_credentials) is None:
        return environ
    name = _FOUNDRY_KEY if source_of_credential(environ) == _FOUNDRY else "ANTHROPIC_API_KEY"
    return {**environ, name: _kept_key()}


def _kept_key() -> str:
    note = read_note()
    if note is None:  # taken away just now
        return ""
    if note.place == "file":
        return note.key
    status = note_path().stat()
    mark = (note.base_url, status.st_mtime_ns, status.st_size)
    with _reading:  # a keyring may ask its user to unlock it: once
        if mark not in _read:
            key = of_keyring(note.base_url)
            if not key:
                message = "The keyring does not give the key of `cellwright auth login`. Unlock it, or sign in again."
                raise CellwrightError(ErrorCode.API_KEY_MISSING, message)
            _read.clear()
            _read[mark] = key
        return _read[mark]


def _keyring() -> Any | None:
    """The package keyring, where it is installed and has a keyring that works."""
    if importlib.util.find_spec("keyring") is None:
        return None
    with importing:
        import keyring  # few keep a key
        from keyring.backends import fail, null

    with contextlib.suppress(Exception):  # of whatever backend there is
        if not isinstance(keyring.get_keyring(), fail.Keyring | null.Keyring):
            return keyring
    return None


def in_keyring(name: str, key: str) -> bool:
    """Put `key` into the system's keyring; False where none works."""
    ring = _keyring()
    if ring is None:
        return False
    try:
        ring.set_password(SERVICE, name, key)
        return bool(ring.get_password(SERVICE, name) == key)
    except Exception:  # noqa: BLE001  locked, or nobody there to unlock it: then it is a file
        return False


def of_keyring(name: str) -> str:
    """Give what the system's keyring has by this name; "" for nothing."""
    ring = _keyring()
    with contextlib.suppress(Exception):  # locked: said by who asked
        return (ring.get_password(SERVICE, name) if ring is not None else None) or ""
    return ""


def out_of_keyring(name: str) -> None:
    """Take what has this name out of the system's keyring."""
    ring = _keyring()
    with contextlib.suppress(Exception):  # gone already
        if ring is not None:
            ring.delete_password(SERVICE, name)
