"""The processes behind a project's index: the one that keeps it up to date, and the one that makes vectors of its texts.

To start Python and import what parses takes ten times what a look at the files takes: the first is started by the first
question and kept for those that follow. It ends by itself when nobody has asked for a while (`codebase/indexer.py`). For
vectors nothing is sent anywhere, and no model is downloaded, before the user has agreed to that for this project.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cellwright.codebase.embedding_models import load_embed
from cellwright.codebase.embedding_settings import KEY_NAMES, Embed, EmbeddingSettings
from cellwright.codebase.index_reader import Hit, IndexReader
from cellwright.codebase.store import agreement_path, models_folder
from cellwright.redaction.redaction import redaction_of, secret_values
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, write_atomic
from cellwright.tools.process.child_processes import Command
from cellwright.tools.process.runner import OutputHead, RunningProgram, own_module_environment

if TYPE_CHECKING:
    from cellwright.codebase.vectors import SqliteVectors, VectorStore

QDRANT_KEY = "QDRANT_API_KEY"


class Look:
    """One look at what changed: `ended` is done when the index is up to date, or will not be; `exit_code` says which."""

    def __init__(self, indexer: IndexerProcess, request: bytes) -> None:
        self.began = time.monotonic()
        self.exit_code = 0

        async def follow() -> None:
            try:
                self.exit_code = await indexer.answer(request)
            except OSError:  # no other process can be started
                self.exit_code = 1

        self.ended = asyncio.get_running_loop().create_task(follow())


class IndexerProcess:
    """The indexer of the index at `database`. It is one loop's at a time: that of who asks first."""

    def __init__(self, database: Path, environ: Mapping[str, str]) -> None:
        self._database = database
        self._environ = environ
        self._program: RunningProgram | None = None
        self._answers: _Answers | None = None
        self._errors = OutputHead(4_096)

    @property
    def said(self) -> str:
        """The last line of its complaints."""
        return self._errors.text().strip().rpartition("\n")[2]

    def look(self, request: bytes) -> Look:
        """Have it look, one look after another. On a running loop. Raises OSError where no process can be started."""
        if self._program is None or self._program.ended.done():
            self._start(request)
        return Look(self, request)

    async def answer(self, request: bytes) -> int:
        """The answer to `request`, which a process that has just been started was given: an exit code."""
        while True:
            program, answers = self._program, self._answers
            assert program is not None
            assert answers is not None
            kept = answers.asked
            if kept:
                program.send(request)
            answers.asked = True
            either: set[asyncio.Future[Any]] = {answers.next, program.ended}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if answers.next.done():
                return answers.taken()
            if not kept:
                return program.exit_code
            self._start(request)  # it went for want of work, or was ended, before it had read this

    def _start(self, request: bytes) -> None:
        command = Command(
            # -P: what lies in the current folder is not what is imported
            arguments=(sys.executable, "-P", "-m", "cellwright.codebase.indexer"),
            cwd=self._database.parent,
            environ=own_module_environment(self._environ),
            memory_mb=1_000,
            read_only=True,
        )
        self._answers, self._errors = _Answers(), OutputHead(4_096)
        self._program = RunningProgram(
            command, output=self._answers.take, errors=self._errors.take, source=request, keeps_input_open=True
        )


class _Answers:
    """The answers of one process: a line for each request."""

    def __init__(self) -> None:
        self.asked = False
        """True once its first request has somebody who waits for the answer."""
        self.next: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._rest = b""

    def take(self, chunk: bytes) -> bool:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                if not self.next.done():
                    self.next.set_result(int(line))
        return True

    def taken(self) -> int:
        """The answer that is there; the next one is awaited anew."""
        code = self.next.result()
        self.next = asyncio.get_running_loop().create_future()
        return code


class ProjectEmbedding:
    """The vectors of the index at `database`, by the model that the settings name. Keys are found in `environ`."""

    def __init__(
        self,
        root: Path,
        database: Path,
        settings: EmbeddingSettings,
        environ: Mapping[str, str],
        child: Mapping[str, str],
    ) -> None:
        self.settings = settings
        self._root = root
        self._database = database
        self._child = child
        self._environ = environ
        names = [*(name for names in KEY_NAMES.values() for name in names), QDRANT_KEY]
        self._keys = {name: environ[name] for name in names if environ.get(name)}
        self._running: RunningProgram | None = None
        self._loading = threading.Lock()
        self._embed: Embed | None = None
        self._beside: SqliteVectors | None = None

    def is_agreed(self) -> bool:
        """Return whether the user has agreed to what leaves this machine, or comes to it; nothing may."""
        wanted = self.settings.agreement
        try:
            return not wanted or agreement_path(self._database).read_text("utf-8") == wanted
        except OSError:
            return False

    def agree(self) -> None:
        """Keep that the user has agreed."""
        make_private_folder(self._database.parent)  # there may be no index yet
        write_atomic(agreement_path(self._database), self.settings.agreement.encode(), PRIVATE_FILE)

    def start(self) -> None:
        """Have a process embed what has no vector yet, unless one is at it. On a running loop, which it then belongs to."""
        if (self._running is not None and not self._running.ended.done()) or not self.is_agreed():
            return
        from cellwright.codebase.vectors import EmbedRequest  # with what only that process needs

        request = EmbedRequest(
            root=str(self._root),
            database=str(self._database),
            settings=self.settings,
            models=str(models_folder()),
            keys=self._keys,
            secrets=secret_values(self._environ),
        )
        command = Command(
            arguments=(sys.executable, "-P", "-m", "cellwright.codebase.vectors"),
            cwd=self._database.parent,
            environ=self._child,
            memory_mb=6_000,
            read_only=True,
        )
        self._running = RunningProgram(command, output=OutputHead(4_096).take, source=msgspec.json.encode(request))

    async def ended(self, seconds: float) -> bool:
        """Wait so long for the process that embeds; True when none is at it."""
        return self._running is None or await self._running.wait(seconds)

    def nearest(self, reader: IndexReader, query: str, under: str, languages: Sequence[str], limit: int) -> list[Hit]:
        """The units that mean most nearly what `query` says. Takes time. Raises EmbeddingProblem."""
        with self._loading:
            if self._embed is None:
                self._embed = load_embed(self.settings, self._keys, models_folder())
            # what is sent to a service goes without secrets, as the texts that it is compared with did
            asked = redaction_of(self._environ).clean(query).text if self.settings.is_service else query
            row = self._embed([asked], "query")
            with contextlib.closing(self._store(reader)) as store:
                found = store.nearest(row, limit, reader.vectors_below(under, languages))
        return reader.units_of_vectors(found, under, languages)

    def _store(self, reader: IndexReader) -> VectorStore:
        from cellwright.codebase.vectors import SqliteVectors, vector_store  # with the first question

        if self.settings.qdrant_url:
            return vector_store(self.settings, reader.connection, self._keys.get(QDRANT_KEY, ""))
        self._beside = self._beside or SqliteVectors(reader.connection)
        return self._beside.on(reader.connection)
