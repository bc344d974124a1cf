"""Sentence-transformer models exported to ONNX, in a folder with their `tokenizer.json`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cellwright.codebase.embedding.provider import Embed, EmbeddingProblem, Role, of_length_one

if TYPE_CHECKING:
    from cellwright.codebase.embedding.provider import Matrix

MAX_TOKENS = 256
NAMES = ("model.onnx", "onnx/model_quantized.onnx", "onnx/model.onnx", "model_quantized.onnx")


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
    tokenizer.enable_truncation(MAX_TOKENS)
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
