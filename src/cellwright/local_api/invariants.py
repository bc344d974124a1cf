"""Everything the API demands of a request, checked in the order in which the API complains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.local_api.api_error import ApiRejection
from cellwright.local_api.conversation import check_conversation
from cellwright.local_api.models import ServedModel


def check_request(body: Mapping[str, Any], model: ServedModel) -> None:
    """Raise `ApiRejection` with the field's path when the request is not one the API would take."""
    for name in ("messages", "max_tokens"):
        if name not in body:
            raise ApiRejection(f"{name}: Field required")
    check_conversation(body["messages"])
