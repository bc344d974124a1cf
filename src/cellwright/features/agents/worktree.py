"""A work tree of an agent's own: a checkout of the last commit, beside the project's files, that it may change freely.

It goes when the agent has changed nothing there, else it stays, with its branch, for the user to look at.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from cellwright.errors import ErrorCode, ToolError
from cellwright.sessions.project_writes import check_way, make_folders, write_file
from cellwright.tools.run_git import Git, neutral_git, repository_of

WORKTREES = Path(".claude", "worktrees")
SECONDS = 120.0


class Worktree(Struct, frozen=True):
    """The work tree in `folder`, on `branch`, of the repository at `top`; `base` is the commit that it began with."""

    folder: Path
    branch: str
    top: Path
    base: str


async def make_worktree(project: Path, agent_id: str, environ: Mapping[str, str]) -> Worktree:
    """Check the last commit out for the agent `agent_id`, or find what it left there. Raises ToolError.

    Nothing that the repository's configuration names is run.
    """
    git = await neutral_git(project, environ, SECONDS)
    top = Path((await repository_of(git)).top)
    name = f"agent-{agent_id}"
    try:
        # git follows every link on its way, and a checkout has whatever files the repository likes
        worktrees = make_folders(top, top / WORKTREES)
        worktree = Worktree(check_way(top, worktrees / name), name, top, await _run(git, "rev-parse", "HEAD"))
        if worktree.folder.exists():
            return worktree
        if not os.path.lexists(worktrees / ".gitignore"):
            write_file(worktrees / ".gitignore", b"*\n", 0o644, top=top)
    except OSError as error:
        raise ToolError(f"A work tree could not be made: {error}.", code=ErrorCode.FILE_ACCESS_ERROR) from error
    await _run(git, "worktree", "add", "--quiet", "-b", worktree.branch, str(worktree.folder), worktree.base)
    return worktree


async def leave_worktree(worktree: Worktree, environ: Mapping[str, str]) -> str:
    """Remove the work tree where nothing was changed in it; else say where the changes are. Never raises ToolError."""
    where = f"Its changes are in {worktree.folder}, on the branch {worktree.branch}."
    try:
        own = await neutral_git(worktree.folder, environ, SECONDS)
        changed = await _run(own, "status", "--porcelain", "--untracked-files=all")
        if changed or await _run(own, "rev-parse", "HEAD") != worktree.base:
            return where
        git = await neutral_git(worktree.top, environ, SECONDS)
        await _run(git, "worktree", "remove", "--force", str(worktree.folder))
        await _run(git, "branch", "--quiet", "-D", worktree.branch)
    except ToolError as error:
        return f"{where} ({error.message})"
    return ""


async def _run(git: Git, *arguments: str) -> str:
    output = await git.run(*arguments)
    if output.timed_out or output.exit_code:
        why = output.errors or ("it took too long" if output.timed_out else f"exit code {output.exit_code}")
        raise ToolError(f"An agent with a work tree of its own needs git: git {arguments[0]}: {why}")
    return output.text.strip()
