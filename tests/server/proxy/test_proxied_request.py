"""Clients that hold on to what others need: one that reads nothing, one that sends half of a body."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from proxy_calls import ADA, BOB, message, send
from proxy_server import WAIT_SECONDS, ProxyServer

from cellwright.testing import Gate, hold, say, turn

KEY = "sk-ant-local-0000"


@contextmanager
def begun(proxy: ProxyServer, body: Any, sent: int | None = None) -> Iterator[None]:
    """A request of Ada's, whose answer nobody reads; of its body so many bytes are sent."""
    content = json.dumps(body).encode()
    head = f"POST /cellwright/api/anthropic/v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADA}\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(WAIT_SECONDS)
        connection.connect(("127.0.0.1", proxy.port))
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content[:sent])
        yield


def test_a_kernel_that_reads_nothing_has_left(messages_server, tmp_path):
    gate = Gate()
    api = messages_server([turn(say("word " * 4_000_000), hold(gate), say("never sent"), delta_chars=500_000)])
    with (
        ProxyServer(tmp_path / "proxy", api.url, KEY, stall_seconds=0.5, concurrent_requests=1) as proxy,
        begun(proxy, message()),
    ):
        (line,) = proxy.log_of(1)
        assert not line["complete"]
        assert line["cost_usd"] > 0
        api.wait_for_disconnect(timeout=WAIT_SECONDS)
    gate.open()


def test_a_body_on_its_way_is_one_of_the_requests_that_a_user_may_have_open(messages_server, tmp_path):
    api = messages_server(lambda _body: say("one"))
    with ProxyServer(tmp_path / "proxy", api.url, KEY, concurrent_requests=1) as proxy:
        with begun(proxy, message(), sent=10):
            refused = until_status(proxy, 429)  # the other one may not have been heard yet
            assert refused.headers["retry-after"]
            assert send(proxy.url, token=BOB).status_code == 200
        assert until_status(proxy, 200).status_code == 200


def until_status(proxy: ProxyServer, status: int) -> Any:
    """Ada asks until she is answered so."""
    waiting = threading.Event()
    for _ in range(int(WAIT_SECONDS * 20)):
        if (answer := send(proxy.url)).status_code == status:
            return answer
        waiting.wait(0.05)
    raise TimeoutError(f"{answer.status_code}: {answer.text}")
