"""The access of kernels to the proxy: tokens, and an environment that leads to the proxy instead of holding the key.

Each start of a kernel has its own token, good while that process lives. The environment of a kernel that the server
starts is made over just before each start.

jupyter_client has no public place for it that holds for every kind of kernel: a provisioner of our own would not be
asked if a kernelspec names another, and the session manager passes the server's whole environment on with each start.
The kernel manager's own `pre_start` has the last word before the process begins; it is called at restarts, too, also
at automatic ones.

`proxy_url` is for kernels on the same machine as the server that started them.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import os
import secrets
import ssl
import weakref
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_client.manager import KernelManager
from jupyter_client.multikernelmanager import MultiKernelManager

from cellwright.model.credentials import leads_to_a_model
from cellwright.sessions.state_dir import PRIVATE_FILE

if TYPE_CHECKING:
    pass

PREFIX = "cellwright-kernel-"


class KernelTokens:
    """The kernels by their tokens. Only digests are kept: who reads them has no token."""

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
        if manager.has_kernel and manager.provisioner is not None and await manager.provisioner.poll() is None:
            return kernel_id
        if self._digests.get(kernel_id) == presented:  # it may have been started anew meanwhile
            self.revoke(kernel_id)
        return None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


Environment = Callable[[KernelManager, Mapping[str, str]], dict[str, str]]
"""Makes a kernel's environment from the one that it would have."""


def guard_kernels(kernels: MultiKernelManager, environment: Environment) -> None:
    """From now on every kernel of `kernels` starts with what `environment` makes of its environment."""
    make = kernels.kernel_manager_factory

    def make_guarded(*args: Any, **kwargs: Any) -> KernelManager:
        kernel: KernelManager = make(*args, **kwargs)
        pre_start = kernel._async_pre_start_kernel
        kernel._async_pre_start_kernel = functools.partial(_pre_start, kernel, pre_start, environment)  # type: ignore[method-assign]
        return kernel

    kernels.kernel_manager_factory = make_guarded


async def _pre_start(
    kernel: KernelManager, pre_start: Callable[..., Any], environment: Environment, **kwargs: Any
) -> tuple[list[str], dict[str, Any]]:
    command, started_with = await pre_start(**kwargs)
    given = started_with.get("env")
    started_with["env"] = environment(kernel, os.environ if given is None else given)
    return command, started_with


_HUBS = ("JUPYTERHUB_", "JPY_")
"""A user's server before a proxy of the Hub has the user's own token as its key: what else needs the token keeps it."""


def without_credentials(environ: Mapping[str, str], holds_key: Callable[[str], bool]) -> dict[str, str]:
    """`environ` without what leads to a model by itself, and without the key under whatever other name."""
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(_HUBS) or not (leads_to_a_model(name) or holds_key(value) or holds_key(name))
    }


def with_token(
    environ: Mapping[str, str], *, token: str, proxy_url: str, holds_key: Callable[[str], bool]
) -> dict[str, str]:
    """The environment of a kernel that reaches the model by the proxy at `proxy_url` alone."""
    return {
        **without_credentials(environ, holds_key),
        "ANTHROPIC_BASE_URL": proxy_url,
        "ANTHROPIC_API_KEY": token,
    }


def forget_credentials(environ: MutableMapping[str, str], holds_key: Callable[[str], bool]) -> None:
    """Take the key out of the server's own environment, which terminals and everything else it starts inherit."""
    kept = without_credentials(environ, holds_key)
    for name in [name for name in environ if name not in kept]:
        del environ[name]


EVERYWHERE = ("", "*", "0.0.0.0", "::", "localhost", "127.0.0.1", "::1")


def proxy_url(server: Any, own: str = "") -> str:
    """The address of the proxy for kernels of `server` (a ServerApp); `own` is the administrator's word for it.

    It is known when the server listens: a port may be chosen by the system. Raises ValueError on a Unix socket.
    """
    if own:
        return own.rstrip("/")
    if server.sock:
        raise ValueError("a server on a Unix socket has no address for kernels: set anthropic_proxy_url")
    host = server.ip
    if host in EVERYWHERE:
        # a socket of tornado's on `::` takes no IPv4
        host = "localhost" if server.certfile else "::1" if ":" in host else "127.0.0.1"
    netloc = f"[{host}]:{server.port}" if ":" in host else f"{host}:{server.port}"
    return f"{'https' if server.certfile else 'http'}://{netloc}{server.base_url}cellwright/api/anthropic"


def trusting(environ: Mapping[str, str], certificate: str, bundle: Path) -> dict[str, str]:
    """`environ` in which the server's own `certificate` is trusted besides those that were; written into `bundle`."""
    usual = environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile or _certifi()
    known = Path(usual).read_bytes() if usual and Path(usual).is_file() else b""
    fd = os.open(bundle, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    with os.fdopen(fd, "wb") as opened:
        opened.write(known.rstrip() + b"\n" + Path(certificate).read_bytes())
    return {**environ, "SSL_CERT_FILE": str(bundle)}


def _certifi() -> str:
    try:
        import certifi  # comes with httpx
    except ImportError:
        return ""
    return certifi.where()
