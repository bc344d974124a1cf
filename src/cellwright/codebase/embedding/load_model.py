"""The model that the settings name: in a folder here, downloaded, or of a service.

numpy and what a model needs besides are imported with the first use: most projects are searched without any.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cellwright.codebase.embedding.provider import Embed, EmbeddingProblem, EmbeddingSettings
from cellwright.sessions.state_dir import make_private_folder
from cellwright.text import lazy_pattern

MAX_BYTES = 2_000_000_000
REQUIRED = {"static": ("model.safetensors", "tokenizer.json"), "onnx": ("tokenizer.json", "onnx/model.onnx")}
OPTIONAL = {
    "static": ("config.json",),
    "onnx": ("1_Pooling/config.json", "config_sentence_transformers.json", "onnx/model.onnx_data"),
}
DONE = "downloaded"
_REPOSITORY = lazy_pattern(r"[\w.-]+/[\w.-]+")


def model_folder(settings: EmbeddingSettings, models: Path) -> Path:
    """The folder of a local model, downloaded into `models` where it is none here. Raises EmbeddingProblem."""
    folder = Path(settings.model).expanduser()
    if folder.is_dir():
        return folder
    if not _REPOSITORY.fullmatch(settings.model):
        raise EmbeddingProblem(f"Folder {settings.model} was not found, and is not a repository (owner/name).")
    folder = models / settings.model.replace("/", "--")
    if not (folder / DONE).exists():
        make_private_folder(folder)
        for name in REQUIRED[settings.provider]:
            if not _fetch(settings, name, folder):
                raise EmbeddingProblem(f"{settings.base_url} has no {name} of the model {settings.model}.")
        for name in OPTIONAL[settings.provider]:
            _fetch(settings, name, folder)
        (folder / DONE).write_text(settings.base_url, "utf-8")
    return folder


def _fetch(settings: EmbeddingSettings, name: str, folder: Path) -> bool:
    import httpx2  # only the process that downloads a model needs it

    target = folder / name
    if target.exists():
        return True
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    url = f"{settings.base_url}/{settings.model}/resolve/main/{name}"
    try:
        with httpx2.stream("GET", url, follow_redirects=True, timeout=60) as response:
            if response.status_code == 404:
                return False
            response.raise_for_status()
            size = 0
            with part.open("wb") as file:
                for chunk in response.iter_bytes():
                    size += len(chunk)
                    if size > MAX_BYTES:
                        raise EmbeddingProblem(f"{url} has more than {MAX_BYTES:,} bytes.")
                    file.write(chunk)
        part.replace(target)
    except (httpx2.HTTPError, OSError) as error:
        raise EmbeddingProblem(f"{url} could not be downloaded: {error}") from error
    return True


def load_embed(settings: EmbeddingSettings, keys: Mapping[str, str], models: Path) -> Embed:
    """The model that `settings` name; downloads are kept in `models`. Takes time. Raises EmbeddingProblem."""
    _require("numpy", settings)
    if settings.is_service:
        from cellwright.codebase.embedding.service import service_embed

        return service_embed(settings, keys)

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
