"""The sandbox of this machine, looked for once, on a thread of its own: trying what works takes some milliseconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from cellwright.permissions.sandboxing import SandboxAbilities

FindSandbox = Callable[[], SandboxAbilities | None]


def find_abilities() -> SandboxAbilities | None:
    """What the sandbox of this machine can enforce; None where there is none."""
    try:
        from cellwright.sandbox.means import find_sandbox  # needed with the first run
    except ModuleNotFoundError:  # until that room is built: whoever merges it takes this out
        return SandboxAbilities(name="not looked for", hides=False, protects=False, hosts=False)
    sandbox = find_sandbox()
    return None if sandbox is None else sandbox.abilities  # type: ignore[no-any-return]


class SandboxLookup:
    """The search for the sandbox: begun early, so that whoever needs its result hardly waits. From any thread."""

    def __init__(self, find: FindSandbox = find_abilities) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._found: Future[SandboxAbilities | None] | None = None
        self._why: str | None = None

    def begin(self) -> Future[SandboxAbilities | None]:
        """Start to look, where nobody has yet."""
        with self._lock:
            if self._found is None:
                self._found = Future()
                threading.Thread(target=self._look, args=(self._found,), name="cellwright-sandbox", daemon=True).start()
            return self._found

    def abilities(self) -> SandboxAbilities | None:
        """What the sandbox can enforce; waits for the result. None where there is none."""
        return self.begin().result()

    def why_unconfined(self, environ: Mapping[str, str]) -> str:
        """The reasons why there is none, found out once."""
        if self._why is None:
            from cellwright.sandbox.diagnosis import why_unconfined  # most machines have one

            self._why = why_unconfined(environ)
        return self._why

    def _look(self, found: Future[SandboxAbilities | None]) -> None:
        try:
            found.set_result(self._find())
        except BaseException as error:  # noqa: BLE001  who waits for the result raises it
            found.set_exception(error)
