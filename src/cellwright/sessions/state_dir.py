"""Where Cellwright keeps what is its own: `$CELLWRIGHT_HOME`, else the platform's data folder; for the user alone."""

from __future__ import annotations

import os
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def state_folder() -> Path:
    """The folder of all our state. It need not exist yet; `make_private_folder` makes it."""
    if home := os.environ.get("CELLWRIGHT_HOME"):
        return Path(home).expanduser().absolute()
    import platformdirs  # only sessions on disk need it, and loading the extension must stay cheap

    return Path(platformdirs.user_data_dir("cellwright", appauthor=False))


def make_private_folder(folder: Path) -> None:
    """Make `folder` and what is missing above it, each 0700 whatever the umask; folders that exist stay as they are."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(PRIVATE_FOLDER, exist_ok=True)  # another process may make it just now
