"""How a kernel on the same machine reaches the server that started it."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellwright.sessions.state_dir import PRIVATE_FILE

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
