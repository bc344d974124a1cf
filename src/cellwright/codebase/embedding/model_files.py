"""A model's files: in the user's folder, or downloaded from a hub once the user has agreed to it."""

from __future__ import annotations

from pathlib import Path

from cellwright.codebase.embedding.provider import EmbeddingProblem, EmbeddingSettings
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
