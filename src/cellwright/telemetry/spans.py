"""Runs as spans and metrics of OpenTelemetry, if one of them is configured in this process; else nothing, at no cost.

The names are those of the semantic conventions for generative AI
(https://opentelemetry.io/docs/specs/semconv/gen-ai/):

    invoke_agent Cellwright        a run
    ├── chat claude-opus-5-5       a request to the model
    └── execute_tool Bash          a call

The metrics are `gen_ai.client.token.usage` and `gen_ai.client.operation.duration` of the same conventions, and
`cellwright.cost` in US dollars. They hold names, numbers and codes, never what was said, read or run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from cellwright.events import Event, Retrying, RunEnd, ToolEnd, ToolStart, TurnEnd, UserPrompt
from cellwright.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Span, Tracer

    from cellwright.sessions.session import Session
    from cellwright.telemetry.run_state import ObservedRun

AGENT = "Cellwright"


class _OpenSpan(Struct):
    """The spans of one run that have not ended. `since` is when the next request can have begun, in seconds.

    `of_requests` are the attributes that all requests of the run have.
    """

    tracer: Tracer
    run: Span
    since: float
    of_requests: Mapping[str, str]
    calls: dict[str, Span] = field(default_factory=dict)


class RunSpans:
    """Follows a conversation; on the agent's thread, but for `run_ended`.

    `server_address` gives the host that requests go to; "" if it is not known.
    """

    def __init__(self, server_address: Callable[[], str] = str) -> None:
        self._open: dict[str, _OpenSpan] = {}
        self._server_address = server_address
        self._metrics: dict[str, _RunMetrics] = {}

    def run_added(self, run: ObservedRun) -> None:
        """Its span begins when it does."""

    def on_event(self, run: ObservedRun, event: Event) -> None:
        """Begin or end the spans that the event is about."""
        if isinstance(event, UserPrompt):
            if {
                "opentelemetry.trace",
                "opentelemetry.metrics",
            } & sys.modules.keys():  # who configures one has imported it
                self._begin_all(run, event)
            return
        if (run_metrics := self._metrics.get(run.id)) is not None:
            run_metrics.note(event)
        if isinstance(event, RunEnd):
            self._metrics.pop(run.id, None)
        if (open_spans := self._open.get(run.id)) is not None:
            _note(open_spans, event)
            if isinstance(event, RunEnd):
                self._end(run.id, event.at)

    def run_ended(self, run: ObservedRun) -> None:
        """End what is open of a run that ended without saying so."""
        self._metrics.pop(run.id, None)
        self._end(run.id, None)

    def session_changed(self, session: Session) -> None:
        """Each run's span names its session."""

    def _begin_all(self, run: ObservedRun, event: UserPrompt) -> None:
        of_requests = {"gen_ai.provider.name": "anthropic", "gen_ai.request.model": event.model}
        if address := self._server_address():
            of_requests["server.address"] = address
        self._begin(run, event, of_requests)
        if (metrics := sys.modules.get("opentelemetry.metrics")) is not None:
            meter = metrics.get_meter("cellwright", VERSION)
            self._metrics[run.id] = _RunMetrics(meter, event.at, event.at, of_requests)

    def _begin(self, run: ObservedRun, event: UserPrompt, of_requests: Mapping[str, str]) -> None:
        trace = sys.modules.get("opentelemetry.trace")
        if trace is None:
            return
        tracer = trace.get_tracer("cellwright", VERSION)
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": AGENT,
            "gen_ai.conversation.id": event.session_id,
            **of_requests,
        }
        span = tracer.start_span(f"invoke_agent {AGENT}", attributes=attributes, start_time=_ns(event.at))
        if span.is_recording():
            self._open[run.id] = _OpenSpan(tracer, span, event.at, of_requests)

    def _end(self, run_id: str, at: float | None) -> None:
        open_spans = self._open.pop(run_id, None)
        if open_spans is not None:
            for span in (*open_spans.calls.values(), open_spans.run):
                span.end(None if at is None else _ns(at))


def _note(spans: _OpenSpan, event: Event) -> None:
    match event:
        case TurnEnd():
            if not event.replayed:  # no request was sent
                _request(spans, event)
            spans.since = event.at
        case Retrying():
            spans.since = event.at + event.wait_seconds
        case ToolStart():
            for call in event.calls:
                attributes = {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": call.name,
                    "gen_ai.tool.call.id": call.id,
                    "gen_ai.tool.type": "function",
                }
                spans.calls[call.id] = _child(spans, f"execute_tool {call.name}", attributes, event.at)
        case ToolEnd():
            spans.since = event.at
            if (span := spans.calls.pop(event.tool_use_id, None)) is not None:
                span.set_attribute("cellwright.tool.status", event.status)
                _fail(span, event.error)
                span.end(_ns(event.at))
        case RunEnd():
            spans.run.set_attributes(
                {
                    **_usage(event.usage),
                    "gen_ai.response.finish_reasons": [event.stop_reason],
                    "cellwright.requests": event.requests,
                    "cellwright.tools": event.tools_succeeded + event.tools_failed,
                    **({} if event.cost_usd is None else {"cellwright.cost_usd": event.cost_usd}),
                }
            )
            _fail(spans.run, event.error)


def _request(spans: _OpenSpan, event: TurnEnd) -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        **spans.of_requests,
        "gen_ai.response.model": event.model,
        "gen_ai.response.id": event.message_id,
        "gen_ai.response.finish_reasons": [event.stop_reason or ""],
        **_usage(event.usage),
    }
    _child(spans, f"chat {event.model}", attributes, spans.since, client=True).end(_ns(event.at))


class _RunMetrics(Struct):
    """The measurements of one run. `begun` and `since` (when the next request can have begun) are in seconds."""

    meter: Meter
    begun: float
    since: float
    of_requests: Mapping[str, str]

    def note(self, event: Event) -> None:
        """Record what the event says of tokens, cost and time."""
        match event:
            case TurnEnd():
                if not event.replayed:
                    of_chat = {"gen_ai.operation.name": "chat", "gen_ai.response.model": event.model}
                    self._duration(of_chat, event.at - self.since)
                    self._tokens({**self.of_requests, **of_chat}, event.usage)
                    if event.cost_usd is not None:
                        attributes = {**self.of_requests, **of_chat}
                        cost = self.meter.create_counter(
                            "cellwright.cost", "{USD}", "What the API charged for requests"
                        )
                        cost.add(event.cost_usd, attributes)
                self.since = event.at
            case Retrying():
                self.since = event.at + event.wait_seconds
            case ToolEnd():
                self.since = event.at
                status = {} if event.error is None else {"error.type": str(event.error.get("code", "error"))}
                of_tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": event.name, **status}
                self._duration(of_tool, event.duration_ms / 1000)
            case RunEnd():
                status = {} if event.error is None else {"error.type": str(event.error.get("code", "error"))}
                self._duration({"gen_ai.operation.name": "invoke_agent", **status}, event.at - self.begun)

    def _duration(self, attributes: Mapping[str, str], seconds: float) -> None:
        name = "gen_ai.client.operation.duration"
        histogram = self.meter.create_histogram(name, "s", "Duration of requests, calls and runs")
        histogram.record(max(seconds, 0.0), {**self.of_requests, **attributes})

    def _tokens(self, attributes: Mapping[str, str], usage: Mapping[str, Any]) -> None:
        histogram = self.meter.create_histogram("gen_ai.client.token.usage", "{token}", "Tokens of requests")
        counted = _usage(usage)
        for kind in ("input", "output"):
            histogram.record(counted[f"gen_ai.usage.{kind}_tokens"], {**attributes, "gen_ai.token.type": kind})


def _child(spans: _OpenSpan, name: str, attributes: Mapping[str, Any], at: float, *, client: bool = False) -> Span:
    trace = sys.modules["opentelemetry.trace"]
    kind = trace.SpanKind.CLIENT if client else trace.SpanKind.INTERNAL
    parent = trace.set_span_in_context(spans.run)
    return spans.tracer.start_span(name, parent, kind, attributes=attributes, start_time=_ns(at))


def _usage(usage: Mapping[str, Any]) -> dict[str, int]:
    names = {
        "gen_ai.usage.input_tokens": ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
        "gen_ai.usage.cache_read.input_tokens": ("cache_read_input_tokens",),
        "gen_ai.usage.cache_creation.input_tokens": ("cache_creation_input_tokens",),
        "gen_ai.usage.output_tokens": ("output_tokens",),
    }
    return {name: sum(usage.get(kind) or 0 for kind in kinds) for name, kinds in names.items()}


def _fail(span: Span, error: Mapping[str, Any] | None) -> None:
    if error is not None:
        trace = sys.modules["opentelemetry.trace"]
        span.set_attribute("error.type", str(error.get("code", "error")))
        # without a message: it may name what was read or run
        span.set_status(trace.Status(trace.StatusCode.ERROR))


def _ns(at: float) -> int:
    return round(at * 1e9)
