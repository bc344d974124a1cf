"""A front end without a screen: runs cells in a real kernel and does what JupyterLab does with the widget's comm."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

Messages = list[tuple[float, dict[str, Any]]]
"""Messages of a kernel, each with the time it arrived (`time.monotonic()`)."""


class FrontEnd:
    """One kernel of this interpreter; each cell's iopub messages with the time they arrived."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.manager = KernelManager()
        spec = self.manager.kernel_spec
        assert spec is not None
        spec.argv[:] = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--log-level=ERROR"]
        self.manager.start_kernel(env={**os.environ, **environ})
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self.subshell = self._subshell()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    @property
    def pid(self) -> int:
        """The kernel's process."""
        return int(self.manager.provisioner.pid)  # type: ignore[union-attr]

    def _subshell(self) -> str | None:
        """The subshell that JupyterLab makes for a comm target; None where the kernel has none."""
        session, control = self.client.session, self.client.control_channel
        request = session.msg("create_subshell_request", {})
        control.send(request)
        reply = control.get_msg(timeout=10)
        subshell = reply["content"].get("subshell_id")
        return str(subshell) if subshell else None

    def run(self, code: str, timeout: float = 60) -> tuple[float, Messages]:
        """Run a cell to its end; the time it was sent, and its messages (`time.monotonic()`)."""
        message = self.client.session.msg("execute_request", _request(code), metadata={"cellId": "bench"})
        sent = time.monotonic()
        self.client.shell_channel.send(message)
        received: Messages = []
        while True:
            news = self.client.iopub_channel.get_msg(timeout=timeout)
            if news["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            received.append((time.monotonic(), news))
            self._answer(news)
            content = news["content"]
            if news["msg_type"] == "error":
                raise RuntimeError(f"{content['ename']}: {content['evalue']}")
            if news["msg_type"] == "status" and content["execution_state"] == "idle":
                return sent, received

    def value(self, code: str) -> Any:
        """What `print(json.dumps(…))` in the cell printed."""
        _, messages = self.run(code)
        text = "".join(m["content"]["text"] for _, m in messages if m["msg_type"] == "stream")
        return json.loads(text)

    def _answer(self, message: dict[str, Any]) -> None:
        """Say that the widget's view is there, when a cell shows one."""
        view = message["content"].get("data", {}).get(WIDGET_VIEW) if message["msg_type"] == "display_data" else None
        if view is None:
            return
        content = {
            "comm_id": view["model_id"],
            "data": {"method": "custom", "content": {"type": "ready", "have": 0, "protocol": 1}},
        }
        reply = self.client.session.msg("comm_msg", content)
        if self.subshell:
            reply["header"]["subshell_id"] = self.subshell
        self.client.shell_channel.send(reply)


def _request(code: str) -> dict[str, Any]:
    return {
        "code": code,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": True,
        "stop_on_error": True,
    }


def wire_bytes(messages: Messages) -> int:
    """Bytes of message content (with buffers, without envelopes) of everything the kernel published."""
    return sum(
        len(json.dumps(message["content"], separators=(",", ":"), ensure_ascii=False).encode())
        + sum(len(buffer) for buffer in message.get("buffers", ()))
        for _, message in messages
        if message["msg_type"] in ("comm_open", "comm_msg", "display_data", "update_display_data", "stream")
    )
