"""Code found by meaning: models in a folder, downloaded, or of a service, and what is asked for before anything is sent."""

from __future__ import annotations

import asyncio
import base64
import http.server
import json
import os
import sqlite3
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from indexed_project import build_index

from cellwright.agent.tool import ToolContext
from cellwright.codebase.embedding_models import WordPiece, load_embed
from cellwright.codebase.embedding_settings import EmbeddingProblem, EmbeddingSettings
from cellwright.codebase.store import index_path, open_to_write
from cellwright.codebase.vectors import QdrantVectors, SqliteVectors
from cellwright.config.settings.settings import load_settings
from cellwright.tools.code.navigation.project_code import ProjectCode
from cellwright.tools.code.navigation.search_code import semantic_search_tool
from eventual import SECONDS

CONTEXT = ToolContext("toolu_test", lambda **_: None)
WORDS = {"[PAD]": 0, "[UNK]": 1, "re": 2, "##try": 3, "##tried": 4, "timeout": 5, "serve": 6, "##s": 7, "page": 8}
WORDS |= {"again": 9, "anew": 10, "draw": 11, "paint": 12, "load": 13, "rows": 14, "fetch": 15}
MEANINGS = {"again": 0, "anew": 0, "##try": 0, "##tried": 0, "serve": 1, "page": 1, "draw": 2, "paint": 2}
ONNX = (  # a Gather of six rows of three: zeros, zeros, (1, 0, 0), (.9, .1, 0), (0, 1, 0), (0, 0, 1)
    "CAg6xgEKLAoFdGFibGUKCWlucHV0X2lkcxIDb3V0IgZHYXRoZXIqCwoEYXhpcxgAoAECEgFnKlcIBggDEAEiSAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAgD8AAAAAAAAAAGZmZj/NzMw9AAAAAAAAAAAAAIA/AAAAAAAAAAAAAAAAAACAP0IFdGFibGVaHQoJaW5wdXRfaWRzEhAKDggHEgoKAxIBYgoDEgFz"
    "YhsKA291dBIUChIIARIOCgMSAWIKAxIBcwoCCANCBAoAEA0="
)


def tokenizer(words: dict[str, int]) -> dict[str, Any]:
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": words,
        },
    }


def static_model(folder: Path) -> Path:
    """A model of some words, of which those that mean the same have the same vector."""
    table = np.zeros((len(WORDS), 8), np.float32)
    for word, at in WORDS.items():
        table[at, MEANINGS.get(word, 3 + at % 5)] = 1.0
    header = {"embeddings": {"dtype": "F32", "shape": list(table.shape), "data_offsets": [0, table.nbytes]}}
    text = json.dumps(header).encode()
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + table.tobytes())
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(WORDS)))
    return folder


def search(code: ProjectCode, query: str, **more: Any) -> tuple[list[str], str]:
    """The names that are found, and the last line."""
    tool = semantic_search_tool(code)
    result = asyncio.run(tool.call({"query": query, **more}, CONTEXT))  # type: ignore[arg-type]
    names = [row.name for row in result.structured.rows]  # type: ignore[union-attr]
    return names, str(result.content).rpartition("\n")[2]  # type: ignore[union-attr]


def embed_all(code: ProjectCode) -> None:
    """Have the project's texts embedded, as its questions do."""

    async def run() -> None:
        await code.refresh(SECONDS)
        assert code.embedding is not None
        await code.embedding.ended(SECONDS)

    asyncio.run(run())


def project(root: Path, settings: EmbeddingSettings, **environ: str) -> ProjectCode:
    return ProjectCode(root, (), {**os.environ, **environ}, settings)


class Service(http.server.ThreadingHTTPServer):
    """Embeds as the static model would, over HTTP; and lends its files as a hub."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.embed = load_embed(EmbeddingSettings(provider="static", model=str(folder)), {}, folder)
        self.asked: list[tuple[str, dict[str, Any], str]] = []
        self.refused = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def texts(self) -> list[str]:
        return [text for _, body, _ in self.asked for text in body["input"]]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.server.refused:
            self.server.refused -= 1
            self._answer(429, b"slowly")
            return
        self.server.asked.append((self.path, body, self.headers["authorization"]))
        rows = self.server.embed(body["input"], "document")[:, : body.get("dimensions") or None]
        data = [{"index": at, "embedding": row.tolist()} for at, row in enumerate(rows)]
        self._answer(200, json.dumps({"data": data[::-1]}).encode())

    def do_GET(self) -> None:
        file = self.server.folder / self.path.rpartition("/")[2]
        self._answer(200, file.read_bytes()) if file.exists() else self._answer(404, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def service(folder: Path) -> Iterator[Service]:
    with Service(folder) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(SECONDS)


def test_a_model_in_a_folder_finds_what_no_word_would(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = static_model(tmp_path_factory.mktemp("models") / "small")
    words = ProjectCode(root, (), os.environ)
    build_index(root)
    assert search(words, "anew")[0] == []
    assert "no embedding" in search(words, "anew")[1]
    code = project(root, EmbeddingSettings(provider="static", model=str(folder)))
    embed_all(code)
    names, note = search(code, "anew")
    assert names[0] == "load_rows", "its documentation says retried"
    assert note != "no embedding"
    assert set(search(code, "paint", path="web")[0]) >= {"draw", "View.show"}
    assert "load_rows" in search(code, "load rows")[0][:3], "words count as well"
    status = asyncio.run(code.status())
    assert status.vectors == status.units > 0


def test_nothing_is_sent_before_the_user_agrees_and_then_each_text_once_without_secrets(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (root / "keys.py").write_text("def again():\n    password = 'hunter2hunter2'\n    return password\n")
    with service(static_model(tmp_path_factory.mktemp("models") / "small")) as server:
        settings = EmbeddingSettings(provider="voyage", model="voyage-code-3", url=server.url)
        code = project(root, settings, VOYAGE_API_KEY="pa-secret")
        assert "go to 127.0.0.1" in settings.agreement
        embed_all(code)
        assert "not agreed yet" in search(code, "anew")[1]
        assert server.asked == []
        assert code.embedding is not None
        code.embedding.agree()
        server.refused = 2
        embed_all(code)
        path, body, authorization = server.asked[0]
        assert (path, body["model"], body["input_type"]) == ("/embeddings", "voyage-code-3", "document")
        assert authorization == "Bearer pa-secret"
        assert any("def again" in text for text in server.texts)
        assert not any("hunter2" in text for text in server.texts)
        assert search(code, "anew")[0][0] in ("again", "load_rows")
        assert server.asked[-1][1] == {"model": "voyage-code-3", "input": ["anew"], "input_type": "query"}
        before = len(server.texts)
        (root / "app/store.py").write_text("\n\n" + (root / "app/store.py").read_text() + "\n\ndef page(): ...\n")
        embed_all(code)
        sent = server.texts[before:]
        assert any("def page" in text for text in sent)
        assert not any("def load_rows" in text for text in sent), "what only moved is not sent again"


def test_an_endpoint_in_openais_way_and_another_for_questions(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = static_model(tmp_path_factory.mktemp("models") / "small")
    with service(folder) as server, service(folder) as for_questions:
        settings = EmbeddingSettings(
            provider="openai",
            model="big",
            url=server.url,
            dimension=3,
            query_model="small",
            query_url=for_questions.url,
        )
        code = project(root, settings)
        assert code.embedding is not None
        assert "127.0.0.1" in settings.agreement
        build_index(root)
        code.embedding.agree()
        embed_all(code)
        assert search(code, "anew")[0][0] == "load_rows"
        assert {body["model"] for _, body, _ in server.asked} == {"big"}
        assert for_questions.asked == [("/embeddings", {"model": "small", "input": ["anew"], "dimensions": 3}, None)]
        with pytest.raises(EmbeddingProblem, match="OPENAI_API_KEY"):
            load_embed(EmbeddingSettings(provider="openai", model="m"), {}, folder)


def test_a_model_is_downloaded_when_the_user_has_agreed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with service(static_model(tmp_path_factory.mktemp("models") / "small")) as hub:
        settings = EmbeddingSettings(provider="static", model="somebody/small", url=hub.url)
        code = project(root, settings)
        assert "somebody/small" in settings.agreement
        assert code.embedding is not None
        build_index(root)
        code.embedding.agree()
        embed_all(code)
        assert search(code, "anew")[0][0] == "load_rows"
    assert "draw" in search(code, "paint")[0], "it is here now"


def test_what_stands_in_the_way_is_said(root: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code = project(root, EmbeddingSettings(provider="onnx", model=str(tmp_path / "empty")))
    embed_all(code)
    assert "a model.onnx" in search(code, "load rows")[1]
    assert search(code, "load rows")[0][0] == "load_rows"


def test_an_onnx_model_embeds_by_the_mean_of_its_tokens(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(base64.b64decode(ONNX))
    words = {"[PAD]": 0, "[UNK]": 1, "one": 2, "uno": 3, "two": 4, "three": 5}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer(words)))
    embed = load_embed(EmbeddingSettings(provider="onnx", model=str(tmp_path)), {}, tmp_path)
    rows = embed(["one", "uno", "two three", "one one one two"], "document")
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert rows[0] @ rows[1] > 0.99
    assert np.allclose(rows[2], [0, 0.7071, 0.7071], atol=1e-3), "padding counts for nothing"


@pytest.mark.parametrize(
    "text",
    ["retry again", "Retried, re-try; PAGES", "déjà again_and_again", "load_rows(x) != fetch", "", "unknownword page"],
)
def test_words_are_cut_as_the_tokenizers_library_cuts_them(text: str) -> None:
    from tokenizers import Tokenizer

    words = {
        **WORDS,
        ",": 16,
        ";": 17,
        "-": 18,
        "_": 19,
        "(": 20,
        ")": 21,
        "!": 22,
        "=": 23,
        "x": 24,
        "deja": 25,
        "and": 26,
    }
    theirs = Tokenizer.from_str(json.dumps(tokenizer(words))).encode(text, add_special_tokens=False).ids
    assert WordPiece(tokenizer(words)).ids(text) == [each for each in theirs if each != words["[UNK]"]]


def some_vectors(count: int, numbers: int) -> tuple[list[bytes], Any]:
    random = np.random.default_rng(0)
    centres = random.normal(size=(20, numbers))
    rows = (centres[random.integers(0, 20, count)] + random.normal(size=(count, numbers))).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return [at.to_bytes(16, "little") for at in range(1, count + 1)], rows


def recall(found: Sequence[tuple[bytes, float]], hashes: Sequence[bytes], rows: Any, query: Any) -> float:
    exact = {hashes[at] for at in np.argsort(-(rows @ query[0]))[:10]}
    return len(exact & {each for each, _ in found[:10]}) / 10


def test_the_nearest_vectors_are_those_that_an_exact_search_finds(root: Path) -> None:
    connection = open_to_write(index_path(root))
    store = SqliteVectors(connection)
    hashes, rows = some_vectors(2_000, 96)
    store.put(hashes, rows)
    queries = [rows[at : at + 1] for at in range(0, 2_000, 100)]
    assert np.mean([recall(store.nearest(each, 20, None), hashes, rows, each) for each in queries]) > 0.95
    found = store.nearest(rows[:1], 5, hashes[10:20])
    assert {each for each, _ in found} <= {*hashes[10:20]}
    assert len(found) == 5
    store.forget_all()
    assert store.nearest(rows[:1], 5, None) == []
    connection.close()


def test_qdrant_keeps_the_vectors_instead(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("qdrant")
    folder = static_model(place / "small")
    settings = EmbeddingSettings(provider="static", model=str(folder), qdrant_url=str(place / "store"))
    code = project(root, settings)
    embed_all(code)
    assert search(code, "anew")[0][0] == "load_rows"
    assert "draw" in search(code, "paint", path="web")[0]
    with sqlite3.connect(index_path(root)) as connection:
        found = connection.execute("SELECT count(*) FROM vector")
        assert found.fetchone() == (0,)
    store = QdrantVectors(settings, "")
    hashes, rows = some_vectors(50, 8)
    store.put(hashes, rows)
    assert store.known([hashes[0], b"x" * 16]) == {hashes[0]}
    assert recall(store.nearest(rows[:1], 20, hashes), hashes, rows, rows[:1]) == 1.0
    store.close()


def test_only_the_users_own_settings_name_a_model(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    value = {"cellwright": {"embedding": {"provider": "voyage", "model": "voyage-code-3", "dimension": 512}}}
    home = tmp_path_factory.mktemp("home")
    for place in (root / ".claude", home / ".claude"):
        place.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, "HOME": str(home)}
    (root / ".claude" / "settings.json").write_text(json.dumps(value))
    assert load_settings(root, environ).embedding is None
    (home / ".claude" / "settings.json").write_text(json.dumps(value))
    found = load_settings(root, environ).embedding
    assert found == EmbeddingSettings(provider="voyage", model="voyage-code-3", dimension=512)
