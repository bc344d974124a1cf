"""The server that tests talk to: its own thread, its address, and what it saw."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Self

from cellwright.testing.script import DEFAULT_DELTA_CHARS, Part, RecordedRequest, RequestLog, Script, ScriptSource, Turn

if TYPE_CHECKING:
    from cellwright.testing.endpoints import Endpoints


DEFAULT_API_KEY = "sk-ant-local-0000"
WAIT_SECONDS = 60.0


class MessagesServer:
    """A strict Messages API on 127.0.0.1 whose model says what `script` says.

    `script` is a list of turns (or bare parts), or a function from the request's body to a turn. Use it as a context
    manager; `url` and `api_key` are what a client needs. `validate=False` skips every check (for benchmarks).
    """

    def __init__(
        self,
        script: ScriptSource = (),
        *,
        api_key: str = DEFAULT_API_KEY,
        validate: bool = True,
        delta_chars: int = DEFAULT_DELTA_CHARS,
        seconds_between_deltas: float = 0.0,
    ) -> None:
        self.api_key = api_key
        self.validate = validate
        self.delta_chars = delta_chars
        self.seconds_between_deltas = seconds_between_deltas
        self._log = RequestLog()
        self._script = Script(script)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._port = 0

    @property
    def url(self) -> str:
        """The base URL, as `ANTHROPIC_BASE_URL` and the SDK's `base_url` take it."""
        if not self._port:
            raise RuntimeError("the server has no address before it is started: use `with MessagesServer(...)`")
        return f"http://127.0.0.1:{self._port}"

    @property
    def requests(self) -> list[RecordedRequest]:
        """Every request for a message so far, in order of arrival, refused ones included."""
        return self._log.select(_is_message_request)

    @property
    def all_requests(self) -> list[RecordedRequest]:
        """Every HTTP request so far, token counts and model lists included."""
        return self._log.select(lambda request: True)

    @property
    def rejected(self) -> list[RecordedRequest]:
        """The requests for a message that broke a rule of the API (or the script): `error` says which."""
        return self._log.select(lambda request: _is_message_request(request) and bool(request.error))

    @property
    def exhausted(self) -> bool:
        """True when a request came for which no turn was left."""
        return self._script.exhausted

    @property
    def remaining_turns(self) -> int:
        """The number of turns of the script that nobody asked for."""
        return self._script.remaining

    def add(self, *items: Turn | Part) -> None:
        """Append turns to the script."""
        self._script.add(*items)

    def clear(self) -> None:
        """Drop the turns of the script that nobody asked for."""
        self._script.clear()

    def wait_for_requests(self, n: int, timeout: float = WAIT_SECONDS) -> list[RecordedRequest]:
        """Block until `n` requests for a message have arrived; TimeoutError after `timeout` seconds."""
        return self._log.wait_for(_is_message_request, n, timeout, "requests")

    def wait_for_finished(self, n: int = 1, timeout: float = WAIT_SECONDS) -> list[RecordedRequest]:
        """Block until `n` requests for a message have been answered completely."""
        return self._log.wait_for(lambda r: _is_message_request(r) and r.finished, n, timeout, "finished requests")

    def wait_for_answered(self, action: str, n: int = 1, timeout: float = WAIT_SECONDS) -> list[RecordedRequest]:
        """Block until `n` requests of this `RecordedRequest.action` have been answered completely."""
        return self._log.wait_for(lambda r: r.action == action and r.finished, n, timeout, f"answered {action}")

    def wait_for_disconnect(self, n: int = 1, timeout: float = WAIT_SECONDS) -> list[RecordedRequest]:
        """Block until `n` requests were left by their client before the answer was complete."""
        return self._log.wait_for(lambda request: request.disconnected, n, timeout, "disconnects")

    def start(self) -> Self:
        """Start listening; returns when connections are accepted."""
        # the API's rules are imported when a server runs, so that `import cellwright.testing` stays light
        from cellwright.testing.endpoints import Endpoints

        endpoints = Endpoints(
            script=self._script,
            log=self._log,
            api_key=self.api_key,
            validate=self.validate,
            delta_chars=self.delta_chars,
            seconds_between_deltas=self.seconds_between_deltas,
        )
        started: Future[int] = Future()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, args=(self._loop, endpoints, started), name="cellwright-messages-server", daemon=True
        )
        self._thread.start()
        self._port = started.result()
        return self

    def stop(self) -> None:
        """Break every connection and end the thread."""
        if self._loop is None or self._thread is None:
            return

        async def disconnect_all() -> None:
            tasks = list(self._connections)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(disconnect_all(), self._loop).result(WAIT_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)
        self._loop = self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, loop: asyncio.AbstractEventLoop, endpoints: Endpoints, started: Future[int]) -> None:
        asyncio.set_event_loop(loop)

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = loop.create_task(endpoints.serve(reader, writer))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        try:
            server = loop.run_until_complete(asyncio.start_server(connected, "127.0.0.1", 0))
        except OSError as error:
            started.set_exception(error)
            return
        started.set_result(server.sockets[0].getsockname()[1])
        try:
            loop.run_forever()
        finally:
            server.close()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


def _is_message_request(request: RecordedRequest) -> bool:
    return request.action == "messages"
