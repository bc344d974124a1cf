"""The environment of a process that runs a module of this package, wherever that was imported from."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from cellwright.tools.process.environment import child_environment


def own_module_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`child_environment`, in which `python -m cellwright.…` imports this very package."""
    child = child_environment(environ)
    paths = [str(Path(path).absolute()) for path in child.get("PYTHONPATH", "").split(os.pathsep) if path]
    own = str(Path(__file__).parents[3])  # the folder that the package is in
    if own not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *paths):
        paths.append(own)
    return {**child, "PYTHONPATH": os.pathsep.join(paths)} if paths else child
