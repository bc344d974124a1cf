"""Requests of pages and cells reach the kernel, whatever its version of ipykernel does with them."""

from __future__ import annotations

import pytest
from notebook_kernel import NotebookKernel

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]

REPLIES_AS_A_REQUEST_ARRIVES = """
import select, threading, time
kernel = get_ipython().kernel
stands_still, has_replied = threading.Event(), threading.Event()

def reply():
    stands_still.set()
    select.select([kernel.shell_stream.socket.FD], [], [])
    time.sleep(0.1)  # zmq looks for news once in a millisecond at most
    kernel.shell_channel_thread.manager._send_on_shell_channel([b"a client that is gone", b"late"])
    has_replied.set()

kernel.shell_channel_thread.io_loop.add_callback(reply)
stands_still.wait()
print("ready", flush=True)
has_replied.wait()
"""


def test_a_request_that_arrives_while_a_reply_is_sent_is_read(kernel: NotebookKernel) -> None:
    """ipykernel 7.0 to 7.3 read neither this nor any later request of the client: the kernel was dead for its notebook."""
    if not kernel.has_subshells:
        pytest.skip("one thread reads requests and sends replies")
    first = kernel.begin(REPLIES_AS_A_REQUEST_ARRIVES)
    kernel.wait_for(lambda message: "ready" in str(message["content"].get("text")), first)
    second = kernel.begin("answer = 6 * 7")
    assert kernel.finish(first).status == "ok", first.error
    assert kernel.finish(second).status == "ok", second.error
    assert kernel.value("answer") == "42"
