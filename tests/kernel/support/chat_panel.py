"""A panel that takes part in a kernel's conversation, as `labextension/src/transport` does; it checks what it is sent."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from notebook_kernel import Message, NotebookKernel

from cellwright.conversation.message_chunks import JoinedMessages, pieces
from cellwright.kernel.pages.comm import PROTOCOL
from cellwright.kernel.pages.comm_targets import CHAT_TARGET

Json = dict[str, Any]


class ChatPanel:
    """One panel. What it holds of the conversation is in `runs` and `ops`, in the order in which it came."""

    def __init__(self, kernel: NotebookKernel, *, client: str = "JupyterLab 4.6.6", view: str = "ops") -> None:
        self.kernel = kernel
        self.client = client
        self.view = view
        self.page = uuid.uuid4().hex
        self.log = ""
        self.welcome: Json = {}
        self.state: Json = {}
        self.runs: dict[str, Json] = {}
        self.ops: dict[str, list[Json]] = {}
        self.gone: list[str] = []
        self.acks: list[str] = []
        self.got: list[Json] = []
        self.bytes = 0
        self.closed = False
        self._replies: dict[str, Json] = {}
        self._numbers = itertools.count(1)
        self._parts = JoinedMessages()
        self._comm_id = ""
        self._secret = uuid.uuid4().hex
        self._subshell = kernel.control("create_subshell_request")["subshell_id"] if kernel.has_subshells else None
        kernel.listeners.append(self._listen)

    def open(self, protocol: int = PROTOCOL) -> None:
        """Connect, with what it holds already."""
        self._comm_id = uuid.uuid4().hex
        self._parts = JoinedMessages()
        have = {run: len(ops) for run, ops in self.ops.items()}
        data = {
            "protocol": protocol,
            "client": self.client,
            "page": self.page,
            "view": self.view,
            "log": self.log,
            "have": have,
            "secret": self._secret,
        }
        self._post("comm_open", {"comm_id": self._comm_id, "target_name": CHAT_TARGET, "data": data})

    def connect(self) -> ChatPanel:
        """Connect, and wait for the welcome, the state, and what there is of runs."""
        self.welcome, self.state = {}, {}
        self.open()
        self.wait(lambda: self.welcome and self.state)
        self.ask("ping", {})
        return self

    def leave(self) -> None:
        """The connection breaks: nothing is heard any more, and the kernel is not told."""
        self._comm_id = ""

    def close(self) -> None:
        if self._comm_id:
            self.send({"type": "bye"})
        self.kernel.listeners.remove(self._listen)

    def wait(self, found: Callable[[], Any]) -> None:
        if not found():
            self.kernel.wait_for(lambda _: found())

    def wait_for_op(self, run: str, kind: str, **fields: Any) -> Json:
        """The newest operation of this kind in the run, when there is one."""

        def there() -> list[Json]:
            return [op for op in self.ops.get(run, []) if op["op"] == kind and fields.items() <= op.items()]

        self.wait(there)
        return there()[-1]

    def wait_for_end(self, run: str) -> Json:
        """The operation that ends the run; what is told of the run then says so as well."""
        end = self.wait_for_op(run, "end")
        self.wait(lambda: self.runs[run]["state"] in ("done", "failed", "interrupted"))
        return end

    def prompt(self, text: str, **more: Any) -> str:
        """Send a prompt; the id of its run."""
        params = {"text": text, "attachments": [], "context": "none", "cell": None, "options": {}, **more}
        return str(self.ask("prompt", params)["result"]["run"])

    def ask(self, method: str, params: Mapping[str, Any]) -> Json:
        """Send a request; its reply."""
        request = f"p{next(self._numbers)}"
        self.send({"type": "request", "id": request, "method": method, "params": dict(params)})
        self.wait(lambda: request in self._replies)
        return self._replies[request]

    def answer(self, question: str, behavior: str, **more: Any) -> None:
        answer = {"scope": "once", "reason": "", "input": None, **more}
        self.send({"type": "answer", "question": question, "behavior": behavior, **answer})

    def send(self, message: Json) -> None:
        for piece in pieces(message):
            self._post("comm_msg", {"comm_id": self._comm_id, "data": {**piece.message, "secret": self._secret}})

    def send_as_another_script(self, message: Json) -> None:
        """Send on the panel's comm what any script of its page can send there."""
        self._post("comm_msg", {"comm_id": self._comm_id, "data": message})

    def text(self, run: str) -> str:
        return "".join(op["text"] for op in self.ops.get(run, []) if op["op"] == "text")

    def newest(self, place: str) -> str:
        """The newest run that was asked for there, when there is one."""

        def there() -> list[str]:
            return [run["id"] for run in self.runs.values() if run["place"] == place]

        self.wait(there)
        return there()[-1]

    def _post(self, kind: str, content: Json) -> None:
        self.kernel.post(kind, content, self._subshell)

    def _listen(self, message: Message) -> None:
        content = message["content"]
        if not self._comm_id or content.get("comm_id") != self._comm_id:
            return
        if message["msg_type"] == "comm_close":
            self.closed = True
        if message["msg_type"] != "comm_msg":
            return
        self.bytes += len(json.dumps(content["data"], ensure_ascii=False))
        told = self._parts.add(content["data"])
        if told is not None:
            self.got.append(told)
            self._take(told)

    def _take(self, told: Json) -> None:  # noqa: C901  one arm for each message
        match told["type"]:
            case "welcome":
                if told["log"] != self.log:
                    self.runs, self.ops = {}, {}
                self.welcome, self.log = told, told["log"]
            case "state":
                self.state = told
            case "run":
                self.runs[told["run"]["id"]] = told["run"]
                self.ops.setdefault(told["run"]["id"], [])
            case "ops" | "lines":
                ops = self.ops[told["run"]]
                assert told["first"] == len(ops), f"{told['first']} came where {len(ops)} was next"
                ops += told[told["type"]]
            case "gone":
                for run in told["runs"]:
                    self.runs.pop(run, None)
                    self.ops.pop(run, None)
                    self.gone.append(run)
            case "ack":
                self.acks.append(told["question"])
            case "reply":
                self._replies[told["id"]] = told
            case "request":
                self.send({"type": "reply", "id": told["id"], "result": None})
