"""A project's texts as vectors, as the tools see them: the process that makes them, and the nearest ones to a question.

Nothing is sent anywhere, and no model is downloaded, before the user has agreed to that for this project.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cellwright.codebase.embedding.load_model import load_embed
from cellwright.codebase.embedding.provider import KEY_NAMES, Embed, EmbeddingSettings
from cellwright.codebase.index_reader import Hit, IndexReader
from cellwright.codebase.store import agreement_path, models_folder
from cellwright.redaction.redaction import redaction_of, secret_values
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, write_atomic
from cellwright.tools.process.child_processes import Command
from cellwright.tools.process.runner import OutputHead, RunningProgram

if TYPE_CHECKING:
    from cellwright.codebase.embedding.vectors import SqliteVectors, VectorStore

QDRANT_KEY = "QDRANT_API_KEY"


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
        from cellwright.codebase.embedding.worker import EmbedRequest  # with what only that process needs

        request = EmbedRequest(
            root=str(self._root),
            database=str(self._database),
            settings=self.settings,
            models=str(models_folder()),
            keys=self._keys,
            secrets=secret_values(self._environ),
        )
        command = Command(
            arguments=(sys.executable, "-P", "-m", "cellwright.codebase.embedding"),
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
        from cellwright.codebase.embedding.vectors import SqliteVectors, vector_store  # with the first question

        if self.settings.qdrant_url:
            return vector_store(self.settings, reader.connection, self._keys.get(QDRANT_KEY, ""))
        self._beside = self._beside or SqliteVectors(reader.connection)
        return self._beside.on(reader.connection)
