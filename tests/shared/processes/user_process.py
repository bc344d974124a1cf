"""Work of a test that is done by a user without rights, also where the tests are run by root."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

NOBODY = 65534


def as_user(work: Callable[[], Any]) -> Any:
    """Return the result of `work`, which JSON can hold, or a text that says how it failed.

    As root it is done in a forked process; what it needs is imported by then, since not all of it may be read there.
    """
    if os.geteuid():
        return work()
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the child has no use for
        child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.environ.update(HOME="/nonexistent", PATH=os.defpath)
            if not os.access(sys.executable, os.X_OK):
                sys.executable = shutil.which("python3", path=os.defpath) or sys.executable
            with os.fdopen(writer, "w") as told:
                json.dump(_result(work), told)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "r") as told:
        answer = told.read()
    os.waitpid(child, 0)
    return json.loads(answer or '"it ended without an answer"')


def _result(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception:  # noqa: BLE001 - the parent is to name it
        return traceback.format_exc()
