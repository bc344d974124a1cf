"""The records of signing in to servers, kept for later sessions: in the system's keyring, else in a file of ours.

Each server has a small file in our state (0600) that says that there is something, and where. Tokens and a client's secret
are in the keyring where there is one that works, which is tried; otherwise in that file. An answer is for one address,
one client and one configured place to sign in at: another address under the same name gets nothing of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder, write_atomic
from cellwright.this_process.files import system_locks
from cellwright.this_process.late_imports import importing
from cellwright.tools.mcp.server_entry import ServerEntry

logger = logging.getLogger(__name__)

SERVICE = "cellwright-mcp"
"""The name that entries have in the keyring."""

LOCK_SECONDS = 60.0
"""The time that another process may take to refresh."""


class SignedIn(Struct, frozen=True, kw_only=True):
    """The record of one server: `tokens` and `client` as the package has them, the time (of the clock) the token ends.

    `metadata` and `resource` are what the authorization server and the server said of themselves: no secrets.
    """

    tokens: Mapping[str, Any] | None = None
    client: Mapping[str, Any] | None = None
    expires_at: float | None = None
    metadata: Mapping[str, Any] | None = None
    resource: Mapping[str, Any] | None = None


class Keyring(Struct, frozen=True):
    """The functions of the `keyring` package that are used here; each may raise whatever its backend raises."""

    get: Callable[[str, str], str | None]
    set: Callable[[str, str, str], None]
    delete: Callable[[str, str], None]


def system_keyring() -> Keyring | None:
    """The system's keyring; None where the package is not installed or finds none."""
    try:
        with importing:
            import keyring  # it looks for its backends, which takes a while
            from keyring.backends.fail import Keyring as NoBackend
    except ImportError:
        return None
    if isinstance(keyring.get_keyring(), NoBackend):
        return None
    return Keyring(keyring.get_password, keyring.set_password, keyring.delete_password)


class TokenStore(Struct, frozen=True):
    """The records of all servers. `folder` holds their files; `find_keyring` is asked when one is needed."""

    folder: Path
    find_keyring: Callable[[], Keyring | None] = field(default=system_keyring)

    def load(self, entry: ServerEntry) -> SignedIn | None:
        """The record of the server; None where nobody has signed in. A damaged record is none. May take its time."""
        content = self._content(entry)
        if content is None:
            return None
        secret: Any = content.get("secret")
        if content.get("where") == "keyring":
            found = self._in_time(lambda keyring: keyring.get(SERVICE, _key(entry)))
            try:
                secret = json.loads(found) if found else None
            except ValueError:
                secret = None
        secret = secret if isinstance(secret, dict) else {}
        expires_at = content.get("expires_at")
        return SignedIn(
            tokens=_object(secret.get("tokens")),
            client=_object(secret.get("client")),
            expires_at=expires_at if isinstance(expires_at, int | float) else None,
            metadata=_object(content.get("metadata")),
            resource=_object(content.get("resource")),
        )

    def is_known(self, entry: ServerEntry) -> bool:
        """Return whether there is a record, without reading what is in the keyring."""
        return self._content(entry) is not None

    def save(self, entry: ServerEntry, record: SignedIn) -> Literal["keyring", "file"]:
        """Keep `record`; where it is. Raises CellwrightError FILE_ACCESS_ERROR."""
        secret = {"tokens": record.tokens, "client": record.client}
        encoded = json.dumps(secret)

        def put(keyring: Keyring) -> str | None:
            keyring.set(SERVICE, _key(entry), encoded)
            return keyring.get(SERVICE, _key(entry))  # some take it, and have it no more

        where: Literal["keyring", "file"] = "keyring" if self._in_time(put) == encoded else "file"
        content: dict[str, Any] = {
            "version": 1,
            "server": entry.name,
            "url": entry.url,
            "where": where,
            "expires_at": record.expires_at,
            "metadata": record.metadata,
            "resource": record.resource,
        }
        if where == "file":
            content["secret"] = secret
        file = self._file(entry)
        try:
            make_private_folder(file.parent)
            write_atomic(file, json.dumps(content).encode(), PRIVATE_FILE)
        except OSError as error:
            message = f"The result of signing in to {entry.name} cannot be kept in {file}: {error}."
            raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from None
        return where

    def keeps(self, entry: ServerEntry) -> bool:
        """Return whether anything of a sign-in to the server is stored, without asking the keyring."""
        return self._content(entry) is not None

    def forget(self, entry: ServerEntry, *, client: bool = True) -> bool:
        """Delete the tokens, and with `client` all that is known; False where there was nothing. Raises CellwrightError."""
        record = self.load(entry)
        if record is None:
            return False
        if not client:
            self.save(entry, replace(record, tokens=None, expires_at=None))
            return record.tokens is not None
        self._in_time(lambda keyring: keyring.delete(SERVICE, _key(entry)))
        try:
            self._file(entry).unlink(missing_ok=True)
        except OSError as error:
            message = f"{self._file(entry)} cannot be deleted: {error}."
            raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from None
        return True

    @contextlib.asynccontextmanager
    async def locked(self, entry: ServerEntry) -> AsyncIterator[None]:
        """Keep other processes from refreshing this server's token meanwhile; after a while that is not waited for."""
        locks = system_locks()
        file = self._file(entry).with_suffix(".lock")
        make_private_folder(file.parent)
        handle = os.open(file, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        try:
            limit = time.monotonic() + LOCK_SECONDS
            while time.monotonic() < limit:
                try:
                    if locks.try_lock(handle):
                        break
                except OSError:  # the file system has no locks
                    break
                await asyncio.sleep(0.05)
            yield
        finally:
            locks.close(handle)

    def _file(self, entry: ServerEntry) -> Path:
        return self.folder / f"{_key(entry)}.json"

    def _content(self, entry: ServerEntry) -> dict[str, Any] | None:
        try:
            content = json.loads(self._file(entry).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        fits = isinstance(content, dict) and content.get("url") == entry.url
        return content if fits else None

    def _in_time(self, use: Callable[[Keyring], str | None]) -> str | None:
        """The result of `use`, on a thread that is left behind where the keyring hangs; None where it cannot be used."""
        results: list[str | None] = []

        def work() -> None:
            try:
                keyring = self.find_keyring()
                results.append(None if keyring is None else use(keyring))
            except Exception as error:  # noqa: BLE001  backends raise what they like; the message may quote what was to be kept
                logger.info("the keyring cannot be used: %s", type(error).__name__)

        thread = threading.Thread(target=work, name="cellwright-keyring", daemon=True)
        thread.start()
        # a keyring that is locked asks its user; one that hangs is done without
        thread.join(20.0)
        return results[0] if results else None


def token_store() -> TokenStore:
    """The records of this user."""
    return TokenStore(state_folder() / "mcp-sign-ins")


def _key(entry: ServerEntry) -> str:
    # the secret of a client is sent to where the entry says that one signs in: another place gets none that was kept
    oauth = entry.oauth
    client, *place = ("",) if oauth is None else (oauth.client_id, *filter(None, (oauth.metadata_url,)))
    encoded = json.dumps([entry.name, entry.url, client, *place]).encode("utf-8", "surrogatepass")
    return hashlib.sha256(encoded).hexdigest()[:32]


def _object(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, dict) else None
