"""The tokens by which kernels use the proxy: one for each start of a kernel, good while that process lives."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_client.manager import KernelManager

PREFIX = "cellwright-kernel-"


class KernelTokens:
    """Which token is which kernel's. Only digests are kept: who reads them has no token."""

    def __init__(self) -> None:
        self._kernels: dict[bytes, weakref.ref[KernelManager]] = {}
        self._digests: dict[str, bytes] = {}

    def issue(self, kernel: KernelManager) -> str:
        """A new token for a kernel that is about to start; the one of its earlier process ends."""
        kernel_id = str(kernel.kernel_id)
        self.revoke(kernel_id)
        token = PREFIX + secrets.token_urlsafe(32)
        digest = _digest(token)
        self._kernels[digest] = weakref.ref(kernel)
        self._digests[kernel_id] = digest
        return token

    def revoke(self, kernel_id: str) -> None:
        if (digest := self._digests.pop(kernel_id, None)) is not None:
            self._kernels.pop(digest, None)

    async def kernel_of(self, token: str) -> str | None:
        """The id of the living kernel that has `token`; None for every other token."""
        presented = _digest(token)
        found: weakref.ref[KernelManager] | None = None
        for digest, kernel in self._kernels.items():  # all of them, so that the time tells nothing
            if hmac.compare_digest(digest, presented):
                found = kernel
        manager = found() if found is not None else None
        if manager is None:
            return None
        kernel_id = str(manager.kernel_id)
        # the process itself is asked: what died a moment ago has no token any more
        if await _is_alive(manager):
            return kernel_id
        if self._digests.get(kernel_id) == presented:  # it may have been started anew meanwhile
            self.revoke(kernel_id)
        return None


async def _is_alive(kernel: KernelManager) -> bool:
    if not kernel.has_kernel or kernel.provisioner is None:
        return False
    return await kernel.provisioner.poll() is None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
