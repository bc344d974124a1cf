"""JupyterLab as one worker of the browser tests has it: a process with a home, a port and a model of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventual import SECONDS
from forked.forked_python import jupyter_place

TESTS = Path(__file__).parents[1]
# not by a cell: when `sys.path` changes, coverage takes modules away that another thread is importing
IN_KERNELS = (TESTS / "e2e", TESTS / "tools")
ALONE = {"ServerApp": {"jpserver_extensions": {"jupyter_server_fileid": False, "jupyter_server_ydoc": False}}}
"""Nobody shares these notebooks; in the leg `collaboration` several people do."""
DISABLED = [
    f"@jupyterlab/{name}-extension"
    for name in (
        *("audio", "celltags", "debugger", "extensionmanager", "help", "hub", "inspector", "logconsole"),
        *("pluginmanager", "terminal", "tooltip", "video"),
    )
]
"""What no scene uses: a page loads the quicker without it."""
PAGE_CONFIG = {
    "buildCheck": False,  # with every page it would start node to see whether JupyterLab's own code is to be built again
    "disabledExtensions": dict.fromkeys(DISABLED, True),
}


@dataclass
class Lab:
    """A running JupyterLab."""

    url: str
    root: Path
    home: Path
    process: subprocess.Popen[bytes]
    spare: str | None = None
    """The notebook of the next scene, whose kernel starts while this one is played."""

    def api(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:
            text = reply.read()
        return json.loads(text) if text else None

    @property
    def state(self) -> Path:
        """CELLWRIGHT_HOME of its kernels."""
        return self.home / "state"

    @property
    def log(self) -> Path:
        return self.home / "lab.log"

    def sessions(self) -> list[dict[str, Any]]:
        """The kernels' sessions, without that of a notebook which waits for the next scene."""
        return [session for session in self.api("GET", "api/sessions") if session["path"] != self.spare]

    def end_sessions(self) -> None:
        """Shut down the kernels of these."""
        for session in self.sessions():
            with contextlib.suppress(urllib.error.HTTPError):  # it may have ended by itself
                self.api("DELETE", f"api/sessions/{session['id']}")

    def user_settings(self) -> dict[str, Path]:
        """The files of what a scene has set, by the names of the plugins."""
        folder = self.home / "settings"
        files = {
            f"{path.parent.relative_to(folder)}:{path.name.partition('.')[0]}": path
            for path in folder.rglob("*.jupyterlab-settings")
        }
        return {plugin: path for plugin, path in files.items() if plugin != NOTIFICATIONS}

    def forget(self) -> None:
        """Take away what kernels have kept: transcripts, trust, spending, logs."""
        for path in self.state.glob("*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


NOTIFICATIONS = "@jupyterlab/apputils-extension:notification"


@contextlib.contextmanager
def running_lab(root: Path, home: Path, model_url: str, api_key: str, *, shared: bool = False) -> Iterator[Lab]:
    """A JupyterLab whose kernels talk to the model at `model_url`; its state is kept below `home`.

    `shared`: notebooks are edited together, by what the environment has for that.
    """
    environ = {
        **os.environ,
        "HOME": str(home),
        "CELLWRIGHT_HOME": str(home / "state"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        **jupyter_place(os.environ),
        "IPYTHONDIR": str(home / "ipython"),
        "ANTHROPIC_BASE_URL": model_url,
        "ANTHROPIC_API_KEY": api_key,
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "PYTHONPATH": os.pathsep.join([*map(str, IN_KERNELS), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    environ.pop("JUPYTER_DATA_DIR", None)
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each kernel would compile the package
    notifications = home / "settings" / f"{NOTIFICATIONS.replace(':', '/')}.jupyterlab-settings"
    notifications.parent.mkdir(parents=True)
    notifications.write_text('{"fetchNews": "false", "checkForUpdates": false}')  # their toasts cover what is clicked
    (home / "config" / "labconfig").mkdir(parents=True)
    (home / "config" / "labconfig" / "page_config.json").write_text(json.dumps(PAGE_CONFIG))
    (home / "config" / "jupyter_server_config.json").write_text(json.dumps({} if shared else ALONE))
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ServerApp.port=0", "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True"),
        f"--ServerApp.root_dir={root}",
        "--CellwrightApp.mcp_server=True",
        "--LabApp.expose_app_in_browser=True",  # a page is cleaned up from within, see lab_tab
    ]
    with (home / "lab.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=root, env=environ, stdout=log, stderr=log, start_new_session=True)
    try:
        yield Lab(_wait_for_url(home / "runtime", process, home / "lab.log"), root, home, process)
    finally:
        end_group(process, ENDS_WITHIN_SECONDS)


ENDS_WITHIN_SECONDS = 20.0


def end_group(process: subprocess.Popen[bytes], seconds: float) -> None:
    """End a process that leads its group: it is asked to, and after `seconds` what is left of the group is killed."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for_url(runtime: Path, process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + 2 * SECONDS
    while time.monotonic() < deadline:
        for info in runtime.glob("jpserver-*.json"):
            try:
                url = str(json.loads(info.read_text())["url"]).rstrip("/")
                urllib.request.urlopen(f"{url}/api/status", timeout=60).close()
            except (OSError, ValueError):
                continue
            return url
        if process.poll() is not None:
            break
        time.sleep(0.1)  # another process: there is nothing to wait on but its file
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")
