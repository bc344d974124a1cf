"""The OpenAPI description: valid, complete, and true of the server."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openapi_cases import answer_as_described, few
from openapi_spec_validator import validate

from cellwright.server.api_error import RouteError
from cellwright.server.routes.base_handler import checked_body, description
from cellwright.server.routes.routes import routes

EXAMPLES = 12
STARTS_RUNS = ("run", "run_in_kernel")
"""They get bad examples here; test_runs.py has good ones."""


def _shape(pattern: str) -> str:
    return re.sub(r"\(\[\^/\]\+\)|\{\w+\}", "*", pattern.replace("\\", "").removeprefix("/cellwright/api"))


def test_it_is_valid():
    validate(description())


def test_it_describes_each_route_and_no_other(server):
    served = {(_shape(pattern), handler) for pattern, handler, _ in routes(None, None, None, None, proxied=False)}
    methods = {
        (path, method)
        for path, handler in served
        for method in ("get", "post", "patch", "delete", "put")
        if method in vars(handler)
    }
    described = {
        (_shape(path), method)
        for path, item in description()["paths"].items()
        for method in item
        if method != "parameters"
    }
    assert methods <= described
    for path, method in described - methods:  # the administrator's
        assert server.api(method.upper(), path.removeprefix("/")).status == 200, path


@pytest.fixture(scope="module")
def schema(server):
    import schemathesis

    return schemathesis.openapi.from_dict(server.api("GET", "openapi.json").json())


OPERATIONS = [
    operation["operationId"]
    for item in description()["paths"].values()
    for method, operation in item.items()
    if method != "parameters"
]


@pytest.mark.thorough
@pytest.mark.parametrize("operation_id", OPERATIONS)
def test_the_server_does_what_it_says(server, schema, operation_id):
    """Random requests that fit the description, and such that do not: each answer is one that the description has."""
    from schemathesis import GenerationMode

    operation = schema.find_operation_by_id(operation_id)
    modes = list(GenerationMode) if operation_id not in STARTS_RUNS else [GenerationMode.NEGATIVE]
    for mode in modes:

        @few(EXAMPLES)
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case):
            answer_as_described(server, case)

        ask()


@given(body=st.binary(max_size=200))
@settings(max_examples=50, deadline=None, derandomize=True, database=None)
def test_any_bytes_as_a_body_are_taken_or_refused(body):
    try:
        taken = checked_body(body, "RunRequest")
    except RouteError as error:
        refused = error.status
    else:
        refused = None if "prompt" in taken else 500
    assert refused in (None, 400)


def test_a_number_without_an_end_is_refused():
    with pytest.raises(RouteError, match="too large"):
        checked_body(b'{"prompt": "x", "options": {"budget_usd": 1e999}}', "RunRequest")


def test_half_a_character_is_taken_as_a_mark_in_its_place():
    taken = checked_body(b'{"prompt": "\\ud83d! \\ud83d\\ude00 \\u00e9"}', "RunRequest")
    assert taken == {"prompt": "\N{REPLACEMENT CHARACTER}! \N{GRINNING FACE} é"}
