"""Embeddings of a service: Voyage's API, or any that speaks OpenAI's `/embeddings`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cellwright.codebase.embedding.provider import (
    KEY_NAMES,
    Embed,
    EmbeddingProblem,
    EmbeddingSettings,
    Role,
    of_length_one,
)

if TYPE_CHECKING:
    import httpx2

    from cellwright.codebase.embedding.provider import Matrix

TIMEOUT_SECONDS = 60.0
TRIES = 4
LONGEST_WAIT_SECONDS = 30.0
_HERE = ("localhost", "127.0.0.1", "::1")


def service_embed(settings: EmbeddingSettings, keys: Mapping[str, str]) -> Embed:
    """The service that `settings` name. Raises EmbeddingProblem where there is no key for it."""
    import numpy as np

    names = KEY_NAMES[settings.provider]
    key = next((keys[name] for name in names if keys.get(name)), "")
    if not key and urlsplit(settings.base_url).hostname not in _HERE:
        raise EmbeddingProblem(f"There is no key for {settings.base_url}: set {names[-1]}.")

    def embed(texts: Sequence[str], role: Role) -> Matrix:
        asks = role == "query"
        url = (settings.query_url or settings.base_url).rstrip("/") if asks else settings.base_url
        body: dict[str, Any] = {
            "model": settings.query_model or settings.model if asks else settings.model,
            # an empty text is refused
            "input": [text or " " for text in texts],
        }
        if settings.provider == "voyage":
            body["input_type"] = role
        if settings.dimension:
            body["output_dimension" if settings.provider == "voyage" else "dimensions"] = settings.dimension
        answer = _asked(f"{url}/embeddings", key, body)
        try:
            data = sorted(answer["data"], key=lambda each: each["index"])
            rows = np.array([each["embedding"] for each in data], np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise EmbeddingProblem(f"{url} answered something else than embeddings.") from error
        if rows.ndim != 2 or len(rows) != len(texts):
            raise EmbeddingProblem(f"{url} answered {len(rows)} vectors for {len(texts)} texts.")
        return of_length_one(rows, settings.dimension)

    return embed


def _asked(url: str, key: str, body: Mapping[str, Any]) -> Any:
    import httpx2

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    attempt = 0
    while True:
        attempt += 1
        try:
            response = httpx2.post(url, json=body, headers=headers, timeout=TIMEOUT_SECONDS)
        except httpx2.HTTPError as error:
            if attempt == TRIES:
                raise EmbeddingProblem(f"{url} cannot be reached: {error}") from error
            time.sleep(2.0**attempt / 4)
            continue
        if response.status_code == 200:
            return response.json()
        if attempt == TRIES or response.status_code not in (408, 429, 500, 502, 503, 504, 529):
            raise EmbeddingProblem(f"{url} answered {response.status_code}: {response.text[:300]}")
        time.sleep(_wait_seconds(response, attempt))


def _wait_seconds(response: httpx2.Response, attempt: int) -> float:
    try:
        return min(float(response.headers["retry-after"]), LONGEST_WAIT_SECONDS)
    except (KeyError, ValueError):
        return 2.0**attempt / 4
