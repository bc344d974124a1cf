"""Runs as spans, in the SDK's own memory, and nothing of what was said in them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import cellwright
from cellwright.testing import fault, say, use

METERS: list[InMemoryMetricReader] = []
"""The reader of this process, which has one provider for ever."""


@pytest.fixture(scope="module")
def exporter():
    # a process has one provider for ever
    memory = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    return memory


@pytest.fixture
def meter_reader():
    """A reader of what is measured from here on; it forgets what it has read."""
    kinds = dict.fromkeys((Histogram, Counter), AggregationTemporality.DELTA)
    if not METERS:
        reader = InMemoryMetricReader(preferred_temporality=kinds)
        metrics.set_meter_provider(MeterProvider([reader]))
        METERS.append(reader)
    METERS[0].get_metrics_data()
    return METERS[0]


@pytest.fixture
def spans(exporter, messages_server, monkeypatch, asked_here):
    def play(script, **options):
        server = messages_server(script)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
        exporter.clear()
        try:
            cellwright.ask("the secret prompt", **options)
        except cellwright.RunError:
            assert options.pop("fails", True)
        return exporter.get_finished_spans()

    return play


def test_a_run_its_requests_and_its_calls(spans):
    found = spans([use("Read", file_path="/secret/path"), say("the secret answer")])
    names = [span.name for span in found]
    assert sorted(names) == [
        "chat claude-opus-5-5",
        "chat claude-opus-5-5",
        "execute_tool Read",
        "invoke_agent Cellwright",
    ]
    run = next(span for span in found if span.name.startswith("invoke_agent"))
    children = [span for span in found if span is not run]
    assert {span.parent.span_id for span in children} == {run.context.span_id}
    assert all(run.start_time <= span.start_time <= span.end_time <= run.end_time for span in children)
    assert run.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert run.attributes["gen_ai.request.model"] == "claude-opus-5-5"
    assert run.attributes["cellwright.requests"] == 2
    chats = [span for span in children if span.name.startswith("chat")]
    assert (
        sum(span.attributes["gen_ai.usage.output_tokens"] for span in chats)
        == run.attributes["gen_ai.usage.output_tokens"]
    )
    assert [span.attributes["gen_ai.response.finish_reasons"] for span in chats] == [("tool_use",), ("end_turn",)]
    assert all(span.kind is trace.SpanKind.CLIENT for span in chats)
    told = " ".join(str(dict(span.attributes)) + str(span.status.description) for span in found)
    assert "secret" not in told


def test_tokens_cost_and_durations_are_measured(spans, meter_reader):
    found = spans([use("Read", file_path="/secret/path"), say("the secret answer")])
    chats = [span for span in found if span.name.startswith("chat")]
    assert {span.attributes["gen_ai.request.model"] for span in chats} == {"claude-opus-5-5"}
    assert {span.attributes["server.address"] for span in chats} == {"127.0.0.1"}
    data = meter_reader.get_metrics_data()
    measured = {
        metric.name: [*metric.data.data_points]
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    tokens = {
        kind: sum(
            point.sum
            for point in measured["gen_ai.client.token.usage"]
            if point.attributes["gen_ai.token.type"] == kind
        )
        for kind in ("input", "output")
    }
    run = next(span for span in found if span.name.startswith("invoke_agent"))
    assert tokens == {kind: run.attributes[f"gen_ai.usage.{kind}_tokens"] for kind in tokens}
    assert sum(point.value for point in measured["cellwright.cost"]) == pytest.approx(
        run.attributes["cellwright.cost_usd"]
    )
    durations = measured["gen_ai.client.operation.duration"]
    counts = dict.fromkeys(("chat", "execute_tool", "invoke_agent"), 0)
    for point in durations:
        counts[point.attributes["gen_ai.operation.name"]] += point.count
    assert counts == {"chat": 2, "execute_tool": 1, "invoke_agent": 1}
    assert all(0 <= point.sum < 60 for point in durations)
    assert {point.attributes["server.address"] for point in durations} == {"127.0.0.1"}
    assert "secret" not in str(measured)


def test_a_call_that_fails_and_a_run_that_fails(spans):
    found = spans([use("Read", file_path="nothing-there"), fault("status", status=400)])
    call = next(span for span in found if span.name == "execute_tool Read")
    assert call.attributes["error.type"] == "FILE_NOT_FOUND"
    assert not call.status.is_ok
    run = next(span for span in found if span.name.startswith("invoke_agent"))
    assert run.attributes["error.type"] == "API_REQUEST_INVALID"
    assert run.status.description is None


def test_a_run_is_a_part_of_what_the_user_traces(spans):
    with trace.get_tracer("theirs").start_as_current_span("their work") as work:
        found = spans([say("Hello.")])
    run = next(span for span in found if span.name.startswith("invoke_agent"))
    assert run.parent.span_id == work.get_span_context().span_id


def test_without_a_tracer_nothing_is_imported(messages_server, tmp_path):
    server = messages_server([say("Hello.")])
    code = "import cellwright, sys; cellwright.ask('hi'); print('opentelemetry' in sys.modules)"
    environ = {**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "False"
