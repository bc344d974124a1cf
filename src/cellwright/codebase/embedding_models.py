"""The model that the settings name: in a folder here, downloaded, or of a service.

Static models need numpy alone and make ten thousand vectors a second; what words mean in their place they do not know.

numpy and what a model needs besides are imported with the first use: most projects are searched without any.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import struct
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from cellwright.codebase.embedding_settings import (
    KEY_NAMES,
    Embed,
    EmbeddingProblem,
    EmbeddingSettings,
    Role,
    of_length_one,
)
from cellwright.sessions.state_dir import make_private_folder
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cellwright.codebase.embedding_settings import Matrix


MAX_TOKENS = 512
_WORD = lazy_pattern(r"\w+|[^\w\s]")
_TYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I64": "<i8", "I32": "<i4", "I8": "i1"}

NAMES = ("model.onnx", "onnx/model_quantized.onnx", "onnx/model.onnx", "model_quantized.onnx")

TIMEOUT_SECONDS = 60.0
TRIES = 4
_HERE = ("localhost", "127.0.0.1", "::1")

MAX_BYTES = 2_000_000_000
REQUIRED = {"static": ("model.safetensors", "tokenizer.json"), "onnx": ("tokenizer.json", "onnx/model.onnx")}
OPTIONAL = {
    "static": ("config.json",),
    "onnx": ("1_Pooling/config.json", "config_sentence_transformers.json", "onnx/model.onnx_data"),
}
DONE = "downloaded"
_REPOSITORY = lazy_pattern(r"[\w.-]+/[\w.-]+")


def static_embed(folder: Path, dimension: int) -> Embed:
    """The static model in `folder`. Raises EmbeddingProblem."""
    import numpy as np

    tensors = read_safetensors(folder / "model.safetensors")
    if "embeddings" not in tensors or tensors["embeddings"].ndim != 2:
        raise EmbeddingProblem(f"{folder} holds no static model: there is no matrix `embeddings` in it.")
    table = tensors["embeddings"]
    weights, mapping = tensors.get("weights"), tensors.get("mapping")
    ids_of = _tokenizer(folder / "tokenizer.json")

    def embed(texts: Sequence[str], role: Role) -> Matrix:
        rows = np.zeros((len(texts), table.shape[1]), np.float32)
        for row, text in zip(rows, texts, strict=True):
            ids = np.asarray(ids_of(text)[:MAX_TOKENS], np.int64)
            if not ids.size:
                continue
            found = table[mapping[ids] if mapping is not None else ids].astype(np.float32)
            row[:] = (found * weights[ids][:, None].astype(np.float32) if weights is not None else found).mean(axis=0)
        return of_length_one(rows, dimension)

    return embed


def read_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a file, as they lie in it. Raises EmbeddingProblem."""
    import numpy as np

    try:
        data = np.memmap(path, np.uint8, "r")
        (size,) = struct.unpack("<Q", data[:8].tobytes())
        header = msgspec.json.decode(data[8 : 8 + size].tobytes())
        found = {}
        for name, each in header.items():
            if name != "__metadata__":
                first, last = each["data_offsets"]
                body = data[8 + size + first : 8 + size + last]
                found[name] = body.view(np.dtype(_TYPES[each["dtype"]])).reshape(each["shape"])
    except (OSError, ValueError, KeyError, TypeError, struct.error, msgspec.MsgspecError) as error:
        raise EmbeddingProblem(f"{path} cannot be read as safetensors: {error}") from error
    return found


def _tokenizer(path: Path) -> Callable[[str], Sequence[int]]:
    """Make token ids of a text, without those for the unknown. Raises EmbeddingProblem."""
    try:
        said: Any = msgspec.json.decode(path.read_bytes())
        if said["model"]["type"] == "WordPiece":
            return WordPiece(said).ids
    except (OSError, KeyError, TypeError, msgspec.MsgspecError) as error:
        raise EmbeddingProblem(f"{path} cannot be read: {error}") from error
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise EmbeddingProblem(
            f"This model's tokenizer is of the kind {said['model']['type']}: pip install tokenizers"
        ) from None
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    unknown = said["model"].get("unk_id", -1)
    return lambda text: [each for each in tokenizer.encode(text, add_special_tokens=False).ids if each != unknown]


class WordPiece:
    """BERT's tokenizer, which a `tokenizer.json` of the kind WordPiece describes.

    Words are cut at spaces and punctuation, then into the longest pieces that the vocabulary has.
    """

    def __init__(self, said: dict[str, Any]) -> None:
        model, normalizer = said["model"], said.get("normalizer") or {}
        self._vocabulary: dict[str, int] = model["vocab"]
        self._prefix = str(model.get("continuing_subword_prefix", "##"))
        self._lowercase = bool(normalizer.get("lowercase", True))
        # as BERT has it: accents go with capitals, unless it is said otherwise
        accents = normalizer.get("strip_accents")
        self._strips_accents = self._lowercase if accents is None else bool(accents)
        self._pieces = functools.lru_cache(maxsize=100_000)(self._pieces_of)

    def ids(self, text: str) -> list[int]:
        """The ids of a text's pieces; words that the vocabulary cannot make are left out."""
        if self._lowercase:
            text = text.lower()
        if self._strips_accents and not text.isascii():
            text = "".join(each for each in unicodedata.normalize("NFD", text) if unicodedata.category(each) != "Mn")
        found: list[int] = []
        for word in _WORD.findall(text):
            # an underscore is punctuation to BERT
            for part in re.split(r"(_)", word) if "_" in word else (word,):
                found += self._pieces(part)
        return found

    def _pieces_of(self, word: str) -> tuple[int, ...]:
        if not word or len(word) > 100:
            return ()
        ids: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end] if not start else self._prefix + word[start:end]
                if (known := self._vocabulary.get(piece)) is not None:
                    ids.append(known)
                    start = end
                    break
            else:
                return ()
        return tuple(ids)


def onnx_embed(folder: Path, dimension: int) -> Embed:
    """The model in `folder`. Raises EmbeddingProblem."""
    import numpy as np
    import onnxruntime
    from tokenizers import Tokenizer

    file = next((folder / name for name in NAMES if (folder / name).is_file()), None)
    if file is None or not (folder / "tokenizer.json").is_file():
        raise EmbeddingProblem(f"{folder} needs a model.onnx and a tokenizer.json.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = max((os.cpu_count() or 2) // 2, 1)  # the rest is for what the user does
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # both libraries raise plain exceptions of their own for a broken file
        raise EmbeddingProblem(f"The model in {folder} cannot be loaded: {error}") from error
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id("[PAD]") or 0)
    wanted = {each.name for each in session.get_inputs()}
    takes_first = bool(_said(folder / "1_Pooling/config.json").get("pooling_mode_cls_token"))
    prompts = _said(folder / "config_sentence_transformers.json").get("prompts") or {}

    def embed(texts: Sequence[str], role: Role) -> Matrix:
        prefix = str(prompts.get(role, ""))
        encoded = tokenizer.encode_batch([prefix + text for text in texts])
        mask = np.array([each.attention_mask for each in encoded], np.int64)
        inputs = {
            "input_ids": np.array([each.ids for each in encoded], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        try:
            output: Any = session.run(None, {name: array for name, array in inputs.items() if name in wanted})[0]
        except Exception as error:  # as above
            raise EmbeddingProblem(f"The model in {folder} cannot be run: {error}") from error
        if output.ndim == 3:
            # a vector for each token
            weights = mask[:, :, None].astype(np.float32)
            output = output[:, 0] if takes_first else (output * weights).sum(axis=1) / weights.sum(axis=1)
        return of_length_one(output, dimension)

    return embed


def _said(path: Path) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return {}
    return found if isinstance(found, dict) else {}


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
        try:
            seconds = min(float(response.headers["retry-after"]), 30.0)
        except (KeyError, ValueError):
            seconds = 2.0**attempt / 4
        time.sleep(seconds)


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
        return service_embed(settings, keys)

    if settings.provider == "static":
        return static_embed(model_folder(settings, models), settings.dimension)
    _require("onnxruntime", settings)
    _require("tokenizers", settings)

    return onnx_embed(model_folder(settings, models), settings.dimension)


def _require(module: str, settings: EmbeddingSettings) -> None:
    if importlib.util.find_spec(module) is None:
        message = f"{settings.provider} embeddings need {module}: pip install 'cellwright[embedding]'"
        raise EmbeddingProblem(message)
