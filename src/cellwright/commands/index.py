"""`/index`: the index of the project's code: how complete it is, and building it anew."""

from __future__ import annotations

import time

from cellwright.codebase.index_reader import IndexJob, IndexStatus
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation
from cellwright.text import visible_line
from cellwright.tools.code.navigation.index_processes import ProjectEmbedding
from cellwright.tools.code.navigation.project_code import ProjectCode, project_code

INDEX = "[rebuild|embed]"
USAGE = (
    "/index brings the index of the code up to date and shows it; /index rebuild makes it anew; /index embed agrees to "
    "what the embedding in your settings sends or downloads."
)


async def index_page(call: CommandCall) -> CommandPage:
    """Bring the index up to date, or begin it anew, and show how far it is."""
    if call.text not in ("", "rebuild", "embed"):
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{USAGE} Nothing was done.")
    code = _code_of(call.conversation)
    if call.text == "rebuild" and (await code.status()).state != "idle":
        message = (
            "The index is being written just now. Ask for a rebuild when that is done; /index shows how far it is."
        )
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{message} Nothing was done.")
    if call.text == "embed":
        if code.embedding is None:
            message = "No embedding is configured: set `cellwright.embedding` in ~/.claude/settings.json first."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{message} Nothing was done.")
        try:
            code.embedding.agree()
        except OSError as error:
            message = f"Your answer cannot be kept: {visible_line(str(error))}. Nothing is sent or downloaded."
            raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from None
    await code.refresh(rebuild=call.text == "rebuild")
    status = await code.status()
    rows: list[Row] = [
        ("", ""),
        ("project", visible_line(str(code.root))),
        ("state", code.problem or state_words(status)),
        ("files", f"{status.files:,} with {status.lines:,} lines"),
        ("definitions", f"{status.symbols:,}"),
        ("kept in", f"{visible_line(str(code.database))} ({status.bytes / 2**20:,.1f} MB)"),
    ]
    if status.most_files:
        rows.append(("left out", f"what the project has besides these {status.most_files:,} files; Grep finds it"))
    rows += [(f"job {number}: {job.name}", job_words(job)) for number, job in enumerate(status.jobs, start=1)]
    rows.append(("meaning", embedding_words(code.embedding, status)))
    if status.checked:
        rows.append(("looked through", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status.checked))))
    return CommandPage([Section("Index of the code", rows)])


def state_words(status: IndexStatus) -> str:
    """Say how complete an index is.

    >>> state_words(IndexStatus(exists=True, state="symbols", total=200, left=50))
    'being built: 75% of 200 files'
    """
    if not status.exists:
        return "not built yet: the first search of the code builds it, or /index"
    if not status.complete:
        way = "being built" if status.state != "idle" else "begun, continues with the next question"
        return f"{way}: {status.share:.0%} of {status.total:,} files"
    if not status.texts_complete:
        return f"definitions complete; texts for SemanticSearch: {status.left:,} files left"
    return "complete" if status.state == "idle" else "complete; being brought up to date"


def job_words(job: IndexJob) -> str:
    """Say how far a job of the index is.

    >>> job_words(IndexJob("texts", "running", 2_000, 500))
    'running, 500 of 2,000 files left'
    """
    return f"{job.state}, {job.left:,} of {job.total:,} files left" if job.left else job.state


def embedding_words(embedding: ProjectEmbedding | None, status: IndexStatus) -> str:
    """Say how much is found by meaning, and what stands in the way.

    >>> embedding_words(None, IndexStatus())
    'no embedding is set up: SemanticSearch goes by words'
    """
    if embedding is None:
        return "no embedding is set up: SemanticSearch goes by words"
    model = visible_line(embedding.settings.model)
    if not embedding.is_agreed():
        return f"{model} is not used yet: {visible_line(embedding.settings.agreement)}. /index embed agrees to that"
    if status.embedding_problem:
        return f"{model}: {visible_line(status.embedding_problem)}"
    at_it = ", more to come" if status.is_embedding else ""
    return f"{model}: {status.vectors:,} of {status.units:,} texts{at_it}"


async def index_row(conversation: Conversation) -> Row:
    """The line of `/status`; it starts nothing."""
    status = await _code_of(conversation).status()
    size = f", {status.files:,} files" if status.exists else ""
    return ("index of the code", f"{state_words(status)}{size}")


def _code_of(conversation: Conversation) -> ProjectCode:
    settings = conversation.in_force.settings
    return project_code(
        conversation.cwd, (*settings.deny, *settings.ask), conversation.in_force.environ, settings.embedding
    )
