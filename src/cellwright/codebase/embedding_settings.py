"""The models that make vectors of texts, behind one function type, and the settings that name one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

ProviderKind = Literal["static", "onnx", "voyage", "openai"]
PROVIDER_KINDS: tuple[ProviderKind, ...] = ("static", "onnx", "voyage", "openai")

Role = Literal["document", "query"]

Embed = Callable[[Sequence[str], Role], "Matrix"]
"""A row of length 1 for each text. Raises EmbeddingProblem."""

KEY_NAMES: Mapping[ProviderKind, tuple[str, ...]] = {
    "voyage": ("CELLWRIGHT_EMBEDDING_API_KEY", "VOYAGE_API_KEY"),
    "openai": ("CELLWRIGHT_EMBEDDING_API_KEY", "OPENAI_API_KEY"),
}
_URLS: Mapping[ProviderKind, str] = {
    "voyage": "https://api.voyageai.com/v1",
    "openai": "https://api.openai.com/v1",
}
HUB = "https://huggingface.co"


class EmbeddingProblem(Exception):
    """The model cannot be used; the text says why and what to do, for users."""


class EmbeddingSettings(Struct, frozen=True, kw_only=True):
    """The model that texts are embedded by. `model` is a folder, a repository of the hub, or a service's name for it.

    `dimension`: of the vectors, for models that have several; 0 is the model's own. `query_model` and `query_url` embed
    the questions, in the same space. `qdrant_url`: the vectors are kept there instead of beside the symbols.
    """

    provider: ProviderKind
    model: str
    url: str = ""
    dimension: int = 0
    query_model: str = ""
    query_url: str = ""
    qdrant_url: str = ""

    @property
    def is_service(self) -> bool:
        """True where texts are sent somewhere."""
        return self.provider in KEY_NAMES

    @property
    def base_url(self) -> str:
        """The address of the service, or of the hub that the model is downloaded from."""
        return (self.url or _URLS.get(self.provider, HUB)).rstrip("/")

    @property
    def identity(self) -> str:
        """The space that the vectors are in: vectors of another one cannot be compared with them."""
        return f"{self.provider}:{self.model}:{self.dimension}"

    @property
    def agreement(self) -> str:
        """The words that the user must have agreed to before; empty where nothing leaves the machine or comes to it."""
        parts = []
        if self.is_service:
            hosts = dict.fromkeys((urlsplit(self.base_url).netloc, urlsplit(self.query_url).netloc or ""))
            named = " and ".join(host for host in hosts if host)
            parts.append(f"the text of this project's functions and documents, and each search, go to {named}")
        elif not Path(self.model).expanduser().is_dir():
            parts.append(f"the model {self.model} is downloaded from {urlsplit(self.base_url).netloc}")
        if self.qdrant_url.startswith(("http:", "https:")):
            parts.append(f"vectors go to {urlsplit(self.qdrant_url).netloc}")
        return "; ".join(parts)


def of_length_one(rows: Matrix, dimension: int = 0) -> Matrix:
    """The rows, cut to their first `dimension` numbers (0: all), each of length 1."""
    import numpy as np

    rows = np.asarray(rows, np.float32)
    if dimension:
        if dimension > rows.shape[1]:
            raise EmbeddingProblem(f"The model's vectors have {rows.shape[1]} numbers, not {dimension}.")
        rows = rows[:, :dimension]
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12), np.float32)
