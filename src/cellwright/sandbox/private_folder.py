"""A folder of this process's confined commands: their temporary files and caches, and what covers what they may not see."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from cellwright.this_process.files import new_folder, remove


class PrivateFolder:
    """The folder, made at once and for the user alone; `close` removes it.

    `temporary` and `caches` may be written by commands; the rest of it may not.
    """

    def __init__(self, within: str | None = None) -> None:
        """`within`: the folder that it is made in, which confined code may write in (default: this process's)."""
        self._is_within = within is not None
        self.path = str(new_folder("sandbox")) if within is None else tempfile.mkdtemp(prefix="sandbox-", dir=within)
        self._removing: list[threading.Thread] = []
        self.temporary, self.caches = f"{self.path}/tmp", f"{self.path}/cache"
        self._make_parts()

    def mended(self) -> PrivateFolder:
        """Return it with the parts that somebody removed; where it is gone as a whole, a new one."""
        try:
            status = Path(self.path).lstat()
        except OSError:
            return PrivateFolder()
        # others may make folders where it was, and would own what commands write
        if not stat.S_ISDIR(status.st_mode):
            return PrivateFolder()
        if sys.platform != "win32" and status.st_uid != os.geteuid():
            return PrivateFolder()
        self._make_parts()
        return self

    def _make_parts(self) -> None:
        for folder in (self.temporary, self.caches):
            Path(folder).mkdir(mode=0o700, exist_ok=True)

    @property
    def writable(self) -> tuple[str, str]:
        """The folders that commands may write in."""
        return self.temporary, self.caches

    def unreadable(self, *, folder: bool) -> str:
        """Return a file or folder that nobody may open, to be mounted over others."""
        path = Path(self.path, "hidden-folder" if folder else "hidden-file")
        if not path.exists():
            if folder:
                path.mkdir(mode=0)
            else:
                path.touch(mode=0)
        return str(path)

    def new_folder(self) -> str:
        """Make a folder that commands do not see."""
        return tempfile.mkdtemp(dir=self.path)

    def remove_meanwhile(self, remove: Callable[[], None]) -> None:
        """Call `remove`, which removes a part of this, on a thread: who waits for a command need not wait for that, too.

        A busy disk takes milliseconds for each folder.
        """
        thread = threading.Thread(target=remove, name="cellwright-sandbox-removal", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is about to end
            remove()
        else:
            self._removing = [*(each for each in self._removing if each.is_alive()), thread]

    def close(self) -> None:
        """Remove it with all that commands left in it."""
        for thread in self._removing:
            thread.join()
        if self._is_within:  # confined code may have put a link in its place, and what that leads to is the user's
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            remove(Path(self.path))
