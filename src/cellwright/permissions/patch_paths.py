"""Which files a patch touches, and how: what the policy judges a call of ApplyPatch by.

`ApplyPatch {patch, strip?}` reads the patch with the same reader (`patch_text.read_patch`), so these are exactly the names
it goes by: absolute, or relative to the session's folder, `..` and symbolic links not yet followed. A patch that cannot be
read (`patch_names.PatchProblem`) is refused by the tool as well: nothing of it is ever applied.
"""

from __future__ import annotations

from typing import Literal

from cellwright.permissions.patch_text import FilePatch, read_patch

PathKind = Literal["read", "edit", "create", "delete"]


def paths_in_patch(patch: str, strip: int | None = None) -> list[tuple[str, PathKind]]:
    """Each file that a patch reads or changes, in the patch's order. Raises PatchProblem.

    A rename is a `delete` and a `create`, a copy a `read` and a `create`.
    """
    return [pair for file in read_patch(patch, strip) for pair in paths_of(file)]


def paths_of(file: FilePatch) -> list[tuple[str, PathKind]]:
    """The same for one file of a patch."""
    old, new = file.old, file.new
    if old is None or new is None:
        return [(new or old or "", "create" if old is None else "delete")]
    if file.action == "edit":
        return [(new, "edit")]
    return [(old, "delete" if file.action == "rename" else "read"), (new, "create")]
