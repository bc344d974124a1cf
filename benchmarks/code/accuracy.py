"""How right the answers about a folder's code are, each beside something that knows better, none of it the index itself.

definitions   of Python beside the standard library's `ast`: each function, method and class at its line; of other
              languages beside ctags, where it is installed, which knows less of some than we do: recall alone
references    of sampled names beside jedi's, which follows types: what jedi finds and we do not is missed; what we
              find and jedi does not is either another thing of that name or what jedi cannot follow
retrieval     the first sentence of a docstring finds its function, whose docstring was taken out before the folder was
              indexed: the mean reciprocal rank among ten hits, and how many are among them
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import jedi
import msgspec

from benchmarks.code.index import CONTEXT, Indexed, run_indexer
from cellwright.codebase.embedding_settings import KEY_NAMES, EmbeddingSettings
from cellwright.codebase.index_reader import Hit, fused, reading, status_of
from cellwright.codebase.store import index_path, models_folder
from cellwright.codebase.vectors import EmbedRequest
from cellwright.tools.code.navigation.find_names import find_references_tool
from cellwright.tools.code.navigation.index_processes import ProjectEmbedding
from cellwright.tools.code.navigation.project_code import SEMANTIC_HITS

CTAGS_KINDS = frozenset(
    {"func", "function", "method", "class", "interface", "struct", "enum", "trait", "type", "macro", "constructor"}
)
MIN_PLACES = 100
"""Fewer places of a language say nothing of it."""
NAMES = 60
JEDI_SECONDS = 40.0
CANDIDATES = 1_000
QUERIES = 500
HITS = 10
MIN_WORDS = 4
"""A docstring of fewer words says nothing that could be looked for."""

Place = tuple[str, int]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Retrieval(msgspec.Struct, frozen=True):
    """A question, and the file and line of the function that answers it."""

    query: str
    path: str
    line: int


def embedding_settings(text: str) -> EmbeddingSettings:
    """The setting, with the names of its fields as settings files have them."""
    given = json.loads(text)
    names = {"queryModel": "query_model", "queryUrl": "query_url", "qdrantUrl": "qdrant_url"}
    return EmbeddingSettings(**{names.get(name, name): value for name, value in given.items()})


def definitions(root: Path) -> Iterator[tuple[str, ...]]:
    """Rows about the definitions in a folder, whose index is there."""
    yield from _beside_ast(root)
    yield from _beside_ctags(root)


def _beside_ast(root: Path) -> Iterator[tuple[str, ...]]:
    """Definitions of the index beside those of `ast`, in files that both read."""
    ours: set[tuple[str, int, str]] = set()
    theirs: set[tuple[str, int, str]] = set()
    with sqlite3.connect(index_path(root)) as connection:
        rows = connection.execute(
            "SELECT f.path, s.line, s.name FROM symbol s JOIN file f ON f.id = s.file "
            "WHERE f.language = 'Python' AND s.kind IN ('function', 'method', 'class')"
        ).fetchall()
        paths = [path for (path,) in connection.execute("SELECT path FROM file WHERE language = 'Python'")]
    parsed = {path: tree for path in paths if (tree := _tree(root / path)) is not None}
    ours.update((path, line, name) for path, line, name in rows if path in parsed)
    for path, tree in parsed.items():
        for node in ast.walk(tree):
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                theirs.add((path, node.lineno, node.name))
    both = len(ours & theirs)
    if theirs:
        precision, recall = _percent(both, len(ours)), _percent(both, len(theirs))
        yield root.name, "Python", "ast", f"{len(theirs):,}", recall, precision


def _beside_ctags(root: Path) -> Iterator[tuple[str, ...]]:
    """Definitions of the index beside those of ctags, by language, for names of functions and types at their lines."""
    if shutil.which("ctags") is None:
        return
    with sqlite3.connect(index_path(root)) as connection:
        rows = connection.execute(
            "SELECT f.path, f.language, s.line, s.name FROM symbol s JOIN file f ON f.id = s.file "
            "WHERE f.parser != '' AND f.language NOT IN ('Python', 'notebook')"
        ).fetchall()
        files = dict(
            connection.execute(
                "SELECT path, language FROM file WHERE parser != '' AND language NOT IN ('Python', 'notebook')"
            ).fetchall()
        )
    ours = {(path, line, name) for path, _, line, name in rows}
    command = ["ctags", "-L", "-", "--sort=no", "--fields=nK", "--pattern-length-limit=1", "-f", "-"]
    listed = subprocess.run(command, cwd=root, input="\n".join(files).encode(), capture_output=True, check=False)
    theirs: dict[str, list[tuple[str, int, str]]] = {}
    for record in listed.stdout.decode("utf-8", "replace").splitlines():
        name, path, *_, kind, line = record.split("\t") if record.count("\t") >= 4 else ("", "", "", "", "")
        if kind in CTAGS_KINDS and line.startswith("line:") and path in files and not name.startswith("__anon"):
            theirs.setdefault(files[path], []).append((path, int(line[5:]), name))
    for language, places in sorted(theirs.items()):
        if len(places) >= MIN_PLACES:
            found = sum(place in ours for place in places)
            yield root.name, language, "ctags", f"{len(places):,}", _percent(found, len(places)), "–"


def references(root: Path, sample: int = NAMES) -> Iterator[tuple[str, ...]]:
    """A row about the uses of sampled names beside jedi's, which gets so many seconds."""
    with sqlite3.connect(index_path(root)) as connection:
        rows = connection.execute(
            "SELECT s.name, f.path, s.line FROM symbol s JOIN file f ON f.id = s.file WHERE f.language = 'Python' "
            "AND s.kind IN ('function', 'method', 'class') AND s.name NOT LIKE '\\_\\_%' ESCAPE '\\' "
            "GROUP BY s.name HAVING count(*) = 1 ORDER BY s.name"
        ).fetchall()
    tool = find_references_tool(Indexed(root, (), os.environ))
    project = jedi.Project(str(root), smart_sys_path=False)
    both = missed = more = 0
    own, its = [], []
    end = time.perf_counter() + JEDI_SECONDS
    for name, path, line in random.Random(0).sample(rows, min(sample, len(rows))):
        if time.perf_counter() > end:
            break
        start = time.perf_counter()
        try:
            theirs = set(_jedi_references(project, root, path, line, name))
        except Exception:  # noqa: BLE001  whatever it stumbles over in foreign code says nothing of ours
            continue
        middle = time.perf_counter()
        result = asyncio.run(tool.call({"name": name, "limit": 500}, CONTEXT))
        own.append(time.perf_counter() - middle)
        its.append(middle - start)
        ours = {(row.path, row.line) for row in result.structured.rows}  # type: ignore[union-attr]
        both += len(ours & theirs)
        missed += len(theirs - ours)
        more += len(ours - theirs)
    if own:
        recall, precision = _percent(both, both + missed), _percent(both, both + more)
        times = [f"{statistics.median(each) * 1e3:,.0f} ms" for each in (own, its)]
        yield root.name, str(len(own)), f"{both + missed:,}", recall, f"{both + more:,}", precision, *times


def _percent(part: int, whole: int) -> str:
    return f"{part / max(whole, 1):.2%}"


def _jedi_references(project: jedi.Project, root: Path, path: str, line: int, name: str) -> Iterator[Place]:
    source = (root / path).read_text("utf-8")
    column = source.splitlines()[line - 1].index(name)
    for each in jedi.Script(source, path=root / path, project=project).get_references(line, column):
        if each.module_path is not None and each.module_path.is_relative_to(root):
            yield each.module_path.relative_to(root).as_posix(), each.line


def retrieval(
    root: Path, stripped: Path, embedding: EmbeddingSettings | None, sample: int = QUERIES
) -> Iterator[tuple[str, ...]]:
    """Rows about how well docstrings find the functions that they were taken from, by each way to search."""
    questions = list(_strip_docstrings(root, stripped))
    questions = random.Random(0).sample(questions, min(sample, len(questions)))
    if not questions:
        return
    run_indexer(stripped)
    corpus = f"{root.name}, {len(questions)} questions"
    with reading(index_path(stripped)) as reader:
        by_words = [reader.lexical(each.query, limit=CANDIDATES) for each in questions]
        yield corpus, "words", *_ranks(questions, by_words)
        if embedding is None:
            return
        _embed(stripped, embedding)
        project = ProjectEmbedding(stripped, index_path(stripped), embedding, os.environ, os.environ)
        by_meaning = [project.nearest(reader, each.query, "", (), SEMANTIC_HITS) for each in questions]
    yield corpus, f"meaning ({Path(embedding.model).name})", *_ranks(questions, by_meaning)
    both = [fused(*pair) for pair in zip(by_words, by_meaning, strict=True)]
    yield corpus, "both, as `SemanticSearch` does", *_ranks(questions, both)


def _embed(root: Path, embedding: EmbeddingSettings) -> None:
    """Embed all texts of an index."""
    keys = {name: os.environ[name] for names in KEY_NAMES.values() for name in names if name in os.environ}
    request = EmbedRequest(
        root=str(root), database=str(index_path(root)), settings=embedding, models=str(models_folder()), keys=keys
    )
    command = [sys.executable, "-P", "-m", "cellwright.codebase.vectors"]
    subprocess.run(command, input=msgspec.json.encode(request), check=True)
    if problem := status_of(index_path(root)).embedding_problem:
        raise SystemExit(problem)


def _ranks(questions: Sequence[Retrieval], answers: Sequence[Sequence[Hit]]) -> tuple[str, str]:
    ranks = [_rank(each, hits[:HITS]) for each, hits in zip(questions, answers, strict=True)]
    found = [rank for rank in ranks if rank]
    return f"{sum(1 / rank for rank in found) / len(ranks):.3f}", f"{len(found) / len(ranks):.3f}"


def _rank(question: Retrieval, hits: Sequence[Hit]) -> int:
    for rank, hit in enumerate(hits, start=1):
        if hit.file.path == question.path and hit.line <= question.line <= hit.end_line:
            return rank
    return 0


def _strip_docstrings(root: Path, target: Path) -> Iterator[Retrieval]:
    """Write the Python files of `root` to `target` with blank lines for docstrings; what each of them said."""
    listed = subprocess.run(["git", "ls-files", "-z", "*.py"], cwd=root, capture_output=True, check=False).stdout
    names = [os.fsdecode(each) for each in listed.split(b"\0") if each]
    paths = [root / name for name in names] or sorted(root.rglob("*.py"))
    for path in paths:
        if (tree := _tree(path)) is None:
            continue
        name = path.relative_to(root).as_posix()
        lines = path.read_bytes().decode("utf-8", "replace").split("\n")
        for node in ast.walk(tree):
            if not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Module)) or not ast.get_docstring(node):
                continue
            string = node.body[0]
            assert string.end_lineno is not None
            if isinstance(node, _FUNCTIONS) and len(node.body) > 1 and string.lineno > node.lineno:
                sentence = (ast.get_docstring(node) or "").partition("\n\n")[0].partition(". ")[0]
                if len(sentence.split()) >= MIN_WORDS:
                    yield Retrieval(" ".join(sentence.split()), name, node.lineno)
            if string.lineno > getattr(node, "lineno", 0):
                indent = lines[string.lineno - 1][: string.col_offset]
                lines[string.lineno - 1 : string.end_lineno] = [
                    f"{indent}...",
                    *([""] * (string.end_lineno - string.lineno)),
                ]
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join(lines), "utf-8")


def _tree(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
