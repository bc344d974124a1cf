"""Random requests after the OpenAPI description, the same ones in every run, and what their answers are held against."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, settings
from jupyter_process import TOKEN, JupyterServer


def few(examples: int) -> Any:
    """So many examples, as they come."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def answer_as_described(server: JupyterServer, case: Any) -> Any:
    """The answer to `case`, which is one that the description has."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    headers = {"Authorization": f"token {TOKEN}", "Accept": "application/json"}
    response = case.call(base_url=f"{server.url}/cellwright/api", headers=headers)
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    case.validate_response(response, checks=checks)
    return response
