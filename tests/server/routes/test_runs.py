"""Whatever body the OpenAPI description allows starts a run or is refused as it says, and what comes is as described."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator
from jupyter_process import JupyterServer, jupyter_server
from openapi_cases import answer_as_described, few

from cellwright.server.routes.base_handler import description
from cellwright.testing import MessagesServer, say

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(300)]

EXAMPLES = 15
KERNELS = 2
"""So many own kernels are started: each takes seconds."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    """One whose model has an answer to everything, and that takes as many runs as come."""
    with MessagesServer(lambda _request: say("As you like it.")) as model:
        environ = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": model.api_key}
        arguments = ("--CellwrightApp.runs_per_minute=10000", "--CellwrightApp.max_runs_per_user=16")
        with jupyter_server(tmp_path_factory.mktemp("server"), arguments, environ) as running:
            yield running


def bodies(operation_id: str) -> Any:
    """Requests of that operation that fit the description."""
    import schemathesis
    from schemathesis import GenerationMode

    schema = schemathesis.openapi.from_dict(description())
    return schema.find_operation_by_id(operation_id).as_strategy(generation_mode=GenerationMode.POSITIVE)


def begun_run(server: JupyterServer, case: Any) -> str:
    """The id of the run that the request began, or nothing where it was refused."""
    response = answer_as_described(server, case)
    return str(response.json()["run"]) if response.status_code == 202 else ""


def ends_as_described(server: JupyterServer, run: str) -> None:
    reply = server.api("GET", f"runs/{run}/events", Accept="application/x-ndjson")
    events = [json.loads(line) for line in reply.body.splitlines() if line]
    for event in events:
        valid("Event", event)
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-1], kinds.count("session_complete")) == ("run_started", "session_complete", 1)
    about = server.api("GET", f"runs/{run}").json()
    valid("Run", about)
    assert (about["over"], about["last_event"]) == (True, len(events))


def valid(schema: str, value: Any) -> None:
    reference = {"$ref": f"#/components/schemas/{schema}", "components": description()["components"]}
    Draft202012Validator(reference).validate(value)


def test_any_good_body_runs_in_a_kernel_that_is_there(server: JupyterServer) -> None:
    kernel, begun = server.kernel(), []

    @few(EXAMPLES)
    @given(case=bodies("run_in_kernel"))
    def send(case: Any) -> None:
        case.path_parameters["kernel"] = kernel
        case.body.pop("session", None)  # which is none that is there
        if run := begun_run(server, case):
            begun.append(run)
            ends_as_described(server, run)

    send()
    assert len(begun) > EXAMPLES / 2


def test_any_good_body_runs_in_a_kernel_of_its_own(server: JupyterServer) -> None:
    begun = []

    @few(KERNELS)
    @given(case=bodies("run"))
    def send(case: Any) -> None:
        for name in ("session", "folder", "kernel_name"):  # as above
            case.body.pop(name, None)
        if run := begun_run(server, case):
            begun.append(run)
            ends_as_described(server, run)

    send()
    assert begun
