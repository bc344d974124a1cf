"""The sandbox of this machine, looked for once, on a thread of its own: trying what works takes some milliseconds."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from msgspec import Struct, field

from cellwright.errors import log_fault
from cellwright.permissions.sandboxing import SandboxAbilities
from cellwright.tools.process.child_processes import child_processes

logger = logging.getLogger(__name__)


class SandboxFound(Struct, frozen=True):
    """The abilities of the sandbox (None: there is none), and each means that is missing, with the reason."""

    abilities: SandboxAbilities | None
    missing: Mapping[str, str] = field(default_factory=dict)


FindSandbox = Callable[[], SandboxFound]


def look_for_sandbox() -> SandboxFound:
    """Find out what this machine can confine commands by."""
    from cellwright.sandbox.mechanisms import find_sandbox, missing_means  # needed with the first run

    with contextlib.suppress(OSError):  # without a shell nothing can be started, as a command would say
        child_processes().watch()  # what is tried leaves files behind where this process is killed
    sandbox = find_sandbox()
    return SandboxFound(None if sandbox is None else sandbox.abilities, missing_means())


class SandboxLookup:
    """The search for the sandbox: begun before its result is needed, so that nobody waits long. From any thread."""

    def __init__(self, find: FindSandbox = look_for_sandbox) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._future: Future[SandboxFound] | None = None

    def begin(self) -> Future[SandboxFound]:
        """Start to look, where nobody has yet."""
        with self._lock:
            if self._future is None:
                self._future = Future()
                threading.Thread(
                    target=self._look, args=(self._future,), name="cellwright-sandbox", daemon=True
                ).start()
            return self._future

    def found(self) -> SandboxFound:
        """Return what there is; waits for the end of the search."""
        return self.begin().result()

    def found_by_now(self) -> SandboxFound | None:
        """Return what there is; None while nobody knows yet."""
        future = self._future
        return future.result() if future is not None and future.done() else None

    def abilities(self) -> SandboxAbilities | None:
        """Return what can be enforced; waits for the end of the search."""
        return self.found().abilities

    def _look(self, future: Future[SandboxFound]) -> None:
        try:
            found = self._find()
        except Exception as error:  # noqa: BLE001  every later run asks for it, and there is none where looking for it fails
            log_fault(logger, "looking for the sandbox failed")
            found = SandboxFound(None, {"sandbox": f"looking for it failed: {error}"})
        future.set_result(found)
