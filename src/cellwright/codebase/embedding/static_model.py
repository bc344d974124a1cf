"""Static models: a vector for each token of a vocabulary, and the mean of them for a text (model2vec's format).

They need numpy alone and make ten thousand vectors a second; what words mean in their place they do not know.
"""

from __future__ import annotations

import functools
import re
import struct
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cellwright.codebase.embedding.provider import Embed, EmbeddingProblem, Role, of_length_one
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cellwright.codebase.embedding.provider import Matrix

MAX_TOKENS = 512
MAX_LETTERS = 100
_WORD = lazy_pattern(r"\w+|[^\w\s]")
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
        if not word or len(word) > MAX_LETTERS:
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
