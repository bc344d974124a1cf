"""Static models: a vector for each token of a vocabulary, and the mean of them for a text (model2vec's format).

They need numpy alone and make ten thousand vectors a second; what words mean in their place they do not know.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cellwright.codebase.embedding.provider import Embed, EmbeddingProblem, Role, of_length_one
from cellwright.codebase.embedding.wordpiece import WordPiece

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cellwright.codebase.embedding.provider import Matrix

MAX_TOKENS = 512
_TYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I64": "<i8", "I32": "<i4", "I8": "i1"}


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
