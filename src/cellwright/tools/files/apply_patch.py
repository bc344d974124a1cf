"""ApplyPatch: a unified diff over any number of files, applied to all of them or to none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import CannotBeDone, Tool, ToolAccess, ToolLimits, ToolResult, tool
from cellwright.errors import ToolError
from cellwright.events import Preview
from cellwright.permissions.judges.patch import paths_in_patch
from cellwright.permissions.patch_text import PatchProblem
from cellwright.tools.files.changes import FilesOutput, in_thread
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.patched_files import PatchedFiles, patched_files, plan_patch
from cellwright.tools.files.replace import EDITED_BYTES
from cellwright.tools.inputs import AllowSyntaxErrors
from cellwright.tools.paths import shown_path

DESCRIPTION = """\
Apply a unified diff (as of `git diff`) to one or many files: edit, create, delete, rename, chmod. All of it or nothing.
- Names are relative to the working directory, or absolute; a/ and b/ before them are taken off. Several hunks per file, in \
the file's order, with three lines of context each.
- A hunk may be elsewhere than its line number says. In a file that was read, white space may differ (the result says so); \
in one that was not, every line must be exact. A hunk that fits in several places is refused.
- Create: `--- /dev/null`. Delete: `+++ /dev/null`, with all lines. Rename: git's `rename from` and `rename to` lines."""


class ApplyPatchInput(ToolInput):
    """The input of ApplyPatch."""

    patch: Annotated[str, Meta(min_length=1, description="The whole unified diff.")]
    strip: (
        Annotated[
            int,
            Meta(ge=0, le=20, description="How many leading parts of the names to take off, as with patch -p."),
        ]
        | None
    ) = None
    allow_syntax_errors: AllowSyntaxErrors = False


def apply_patch_tool(state: FileState, cwd: Path) -> Tool:
    """ApplyPatch. `state` is the session's memory of files; relative names start at `cwd`."""

    async def preview(input: ApplyPatchInput) -> Preview:
        return await in_thread(lambda _: _preview(input, state, cwd))

    @tool(
        name="ApplyPatch",
        other_names=(
            "apply_diff",
            "patch",
        ),
        rarely_used=True,
        output=FilesOutput,
        description=DESCRIPTION,
        access=ToolAccess("patch", "patch"),
        category="files",
        best_for="changes of several files",
        limits=ToolLimits(seconds=60, file_bytes=EDITED_BYTES),
        examples=[
            {"patch": "--- a/app.py\n+++ b/app.py\n@@ -1,2 +1,3 @@\n import sys\n+import os\n \n"},
            {
                "patch": "diff --git a/old.py b/new.py\nsimilarity index 100%\nrename from old.py\nrename to new.py\n",
                "strip": 1,
            },
        ],
        title=lambda input: _title(input, cwd),
        preview=preview,
    )
    async def apply_patch(input: ApplyPatchInput) -> ToolResult:
        return await in_thread(lambda stopped: _apply(input, state, cwd, stopped))

    return apply_patch


def _title(input: ApplyPatchInput, cwd: Path) -> str:
    try:
        paths = paths_in_patch(input.patch, input.strip)
    except PatchProblem:
        return "Apply a patch"
    names = list(dict.fromkeys(name for name, _ in paths))
    first = shown_path(cwd, cwd / names[0])
    return f"Patch {first}" if len(names) == 1 else f"Patch {first} and {len(names) - 1} more"


def _apply(input: ApplyPatchInput, state: FileState, cwd: Path, stopped: Callable[[], bool]) -> ToolResult:
    patched = _plan(input, state, cwd)
    if not patched.files:
        nothing = "All files are already as the patch would make them; nothing was written."
        return ToolResult(nothing, structured=FilesOutput(summary=nothing, files=()))
    patched.write(state, stopped)
    from cellwright.tools.notebook.jupytext_pair import pair_note  # with the first patch

    partners = [pair_note(file.path, file.display_path, changed=True).strip() for file in patched.files if file.now]
    text = "\n".join([f"Patched {patched.summary}:", *patched.lines, *filter(None, partners)])
    return ToolResult(text, patched.display(), structured=patched.output())


def _preview(input: ApplyPatchInput, state: FileState, cwd: Path) -> Preview:
    try:
        result = _plan(input, state, cwd)
    except ToolError as error:
        raise CannotBeDone(error, Preview(_title(input, cwd), input.patch, "diff"), _named(input, cwd)) from error
    notes = [f"{file.display_path}: {note}" for file in result.files for note in file.notes]
    named = _named(input, cwd)
    links = [f"{shown_path(cwd, path)} is a symbolic link to {path.resolve()}." for path in named if path.is_symlink()]
    first = result.files[0].path.as_posix() if result.files else ""
    title = f"{_title(input, cwd)}: {result.summary}"
    return Preview(title, result.diff, "diff", path=first, warning="\n".join([*links, *notes]))


def _named(input: ApplyPatchInput, cwd: Path) -> list[Path]:
    """The files that the patch names; none where it cannot be read."""
    try:
        paths = paths_in_patch(input.patch, input.strip)
    except PatchProblem:
        return []
    return list(dict.fromkeys(cwd / name for name, _ in paths))


def _plan(input: ApplyPatchInput, state: FileState, cwd: Path) -> PatchedFiles:
    files = plan_patch(input.patch, input.strip, cwd, state)
    return patched_files(files, allow_syntax_errors=input.allow_syntax_errors)
