"""Runs over HTTP: begin one, read its events, answer its questions, steer and stop it."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from tornado.web import authenticated

from cellwright.server.api_error import RouteError
from cellwright.server.relay import KernelRelay
from cellwright.server.routes.base_handler import CellwrightRoute, may_execute, may_read
from cellwright.server.runs.run import HEADERS, ClientRun, EventsGone, send_events, stream_kind
from cellwright.server.runs.runs import ClientRunRequest, folder_below


class _RunRoute(CellwrightRoute):
    def cut(self) -> None:
        """End the connection as it is: its client takes nothing."""
        self.disconnected.set()
        self.detach().close()

    async def send_run(self, run: ClientRun, after: int) -> None:
        """The run's events after number `after`, as the client's `Accept` says; what it is, where JSON is wanted."""
        self.set_header("Cellwright-Run", run.id)
        self.set_header("Location", f"{self.base_url}cellwright/api/runs/{run.id}")
        self.set_header("Access-Control-Expose-Headers", "Cellwright-Run, Location")
        kind = stream_kind(self.request.headers.get("Accept", ""))
        if kind is None:
            self.answer(about_run(run), 202)
            return
        for name, value in HEADERS.items():
            self.set_header(name, value)
        self.set_header("Content-Type", f"{kind}; charset=utf-8")
        try:
            with run.read():
                await send_events(self, run, after, kind, self.runs.limits.heartbeat_seconds)
        finally:
            if self.disconnected.is_set():
                self.runs.reader_left(run)
        if not self.disconnected.is_set():
            self.finish(set_content_type=f"{kind}; charset=utf-8")


class KernelRunRoute(_RunRoute):
    """`POST kernels/{id}/run`"""

    @authenticated
    @may_execute
    async def post(self, kernel_id: str) -> None:
        run = await self.runs.start(_request(self.body("RunRequest"), kernel_id=kernel_id), self.owner)
        await self.send_run(run, 0)


class OwnKernelRunRoute(_RunRoute):
    """`POST run`: in a kernel that is started for it."""

    @authenticated
    @may_execute
    async def post(self) -> None:
        body = self.body("OwnKernelRunRequest")
        folder_below(self.settings["server_root_dir"], body.get("folder", ""))
        run = await self.runs.start(_request(body), self.owner)
        await self.send_run(run, 0)


class RunRoute(CellwrightRoute):
    """`GET runs/{run}`"""

    @authenticated
    @may_read
    async def get(self, run_id: str) -> None:
        self.answer(about_run(self.runs.find(run_id, self.owner)))


class RunEventsRoute(_RunRoute):
    """`GET runs/{run}/events`: from the beginning, or after the event that the client had last."""

    @authenticated
    @may_read
    async def get(self, run_id: str) -> None:
        run = self.runs.find(run_id, self.owner)
        after = self._after()
        if after > run.last_id:
            raise RouteError(400, "INVALID_PARAMETERS", f"The run has {run.last_id} events so far, not {after}.")
        if run.finished and after == run.last_id:
            self.set_status(204)  # which tells an EventSource not to come back
            self.finish()
            return
        try:
            run.after(after, 1)
        except EventsGone as disconnected:
            message = f"Events up to {disconnected.oldest - 1} made room for newer ones (max_event_bytes)."
            raise RouteError(410, "EVENTS_GONE", message, {"oldest": disconnected.oldest}) from disconnected
        await self.send_run(run, after)

    def _after(self) -> int:
        said = self.request.headers.get("Last-Event-ID")
        if said is None:
            return self.number("after", 0, 0, 10**12)
        if not (said.isascii() and said.isdigit() and len(said) <= 12):
            raise RouteError(400, "INVALID_PARAMETERS", "Last-Event-ID is the number of an event.")
        return int(said)


class AnswerRoute(CellwrightRoute):
    """`POST runs/{run}/answers/{question}`"""

    @authenticated
    @may_execute
    async def post(self, run_id: str, question: str) -> None:
        run = self.runs.find(run_id, self.owner)
        body = self.body("Answer")
        if question not in run.questions:
            raise RouteError(404, "NOT_FOUND", f"Run {run_id} has asked no question {question}.")
        if run.questions[question] is not None:
            raise RouteError(
                409, "CONFLICT", "The question is answered already.", {"decision": run.questions[question]}
            )
        if run.finished:
            raise _closed()
        relay = await self.runs.relays.of(run.place.kernel_id, run.wait)
        answer = {"scope": "once", "reason": "", "input": None, **body}
        await _within(relay.answer(question, answer), f"The kernel did not take the answer yet.{_why(relay)}")
        # the first answer counts, and it may have been given elsewhere
        decided = await _within(run.decision(question), "The kernel did not report the decision.")
        if not decided:
            raise _closed()
        self.answer(decided)


class SteerRoute(CellwrightRoute):
    """`POST runs/{run}/steer`"""

    @authenticated
    @may_execute
    async def post(self, run_id: str) -> None:
        run = self.runs.find(run_id, self.owner)
        body = self.body("Steer")
        if run.state == "waiting" and not run.finished:  # the kernel would give the words to the run that goes on
            raise RouteError(409, "CONFLICT", "The run waits for its turn; it cannot be given words yet.")
        steer_id = uuid.uuid4().hex
        state = None
        if not run.finished:
            relay = await self.runs.relays.of(run.place.kernel_id, run.wait)
            message = {"type": "steer", "run": run.kernel_run, "id": steer_id, "how": "steer", **body}
            await relay.send(message)
            words = f"The kernel did not say whether the run took the words.{_why(relay)}"
            state = await _within(run.steer_state(steer_id), words)
        if state is None:
            raise RouteError(409, "CONFLICT", "The run is over; it did not get the words.")
        self.answer(state, 202)


class StopRoute(CellwrightRoute):
    """`POST runs/{run}/stop`"""

    @authenticated
    @may_execute
    async def post(self, run_id: str) -> None:
        run = self.runs.find(run_id, self.owner)
        self.body("Nothing")
        await self.runs.stop(run)
        self.answer(about_run(run), 202)


def about_run(run: ClientRun) -> dict[str, Any]:
    """A run as the interface describes it."""
    return {
        "run": run.id,
        "kernel": run.place.kernel_id,
        "state": run.state,
        "over": run.finished,
        "last_event": run.last_id,
        "questions": [
            question for question, decision in run.questions.items() if decision is None and not run.finished
        ],
        "metadata": dict(run.metadata),
    }


def _request(body: dict[str, Any], kernel_id: str = "") -> ClientRunRequest:
    return ClientRunRequest(**{**body, "kernel_id": kernel_id, "attachments": tuple(body.get("attachments", ()))})


def _closed() -> RouteError:
    """A question that nobody answered: its run ended with its kernel."""
    return RouteError(409, "CONFLICT", "The run is over; its question is not open any more, and nothing was decided.")


def _why(relay: KernelRelay) -> str:
    """Explain why a kernel may leave somebody waiting."""
    if relay.has_subshells:
        return ""
    return (
        " It hears nothing while a cell runs, as its ipykernel has no subshells (7.1 or newer has), and does it then."
    )


async def _within(waiting: Any, message: str) -> Any:
    try:
        return await asyncio.wait_for(waiting, 20.0)
    except TimeoutError as error:
        raise RouteError(504, "EXECUTION_TIMEOUT", message) from error
