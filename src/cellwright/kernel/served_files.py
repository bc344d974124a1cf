"""Where on disk a page's paths start from. JupyterLab says it to its pages, Jupyter Notebook does not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def relative_path(path: str) -> str:
    """The path without a drive: `RTC:folder/file` are the same files, in another way."""
    return path.partition(":")[2] if ":" in path.partition("/")[0] else path


def served_folder(root: str, paths: Sequence[str]) -> Path:
    """The folder that `paths` of a page start from: `root` where the page knows it, else what fits to this kernel.

    The server names the notebook that it starts a kernel for, and starts it in the notebook's folder or above.
    """
    if root:
        return Path(root).expanduser()
    started_for, here = os.environ.get("JPY_SESSION_NAME", ""), Path.cwd()
    relative = [relative_path(path) for path in paths]
    for path in relative:
        if path and started_for.endswith(f"/{path}"):
            return Path(started_for.removesuffix(path))
    for path in relative:
        for folder in (here, *here.parents):
            if path and (folder / path).is_file():
                return folder
    return here
