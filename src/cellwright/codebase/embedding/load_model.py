"""The model that the settings name: in a folder here, downloaded, or of a service.

numpy and what a model needs besides are imported with the first use: most projects are searched without any.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cellwright.codebase.embedding.provider import Embed, EmbeddingProblem, EmbeddingSettings


def load_embed(settings: EmbeddingSettings, keys: Mapping[str, str], models: Path) -> Embed:
    """The model that `settings` name; downloads are kept in `models`. Takes time. Raises EmbeddingProblem."""
    _require("numpy", settings)
    if settings.is_service:
        from cellwright.codebase.embedding.service import service_embed

        return service_embed(settings, keys)
    from cellwright.codebase.embedding.model_files import model_folder

    if settings.provider == "static":
        from cellwright.codebase.embedding.static_model import static_embed

        return static_embed(model_folder(settings, models), settings.dimension)
    _require("onnxruntime", settings)
    _require("tokenizers", settings)
    from cellwright.codebase.embedding.onnx_model import onnx_embed

    return onnx_embed(model_folder(settings, models), settings.dimension)


def _require(module: str, settings: EmbeddingSettings) -> None:
    import importlib.util

    if importlib.util.find_spec(module) is None:
        message = f"{settings.provider} embeddings need {module}: pip install 'cellwright[embedding]'"
        raise EmbeddingProblem(message)
