"""The front end and the notebook of the running cell: what they can do, which file it is, whether its user trusts it.

A front end shows widgets, answers `input()`, or can do nothing at all. The notebook is known as far as somebody tells;
sessions are named after it, so that it finds its earlier conversation again.

A foreign notebook asks before it prompts. Jupyter signs one when its user saves it with outputs that were made here
(`nbformat.sign`): the HMAC-SHA256 of the content with the user's secret stands in an SQLite database. Both are read here
directly, since `nbformat` takes 0.1 s to import and the first cell waits for this. docs/decisions/trust.md says what
Jupyter signs when.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cellwright.config.settings.settings_in_force import TrustQuestion
from cellwright.config.trust.trust_store import is_known_notebook, remember_notebook
from cellwright.errors import CellwrightError
from cellwright.events import Event, RunEnd
from cellwright.sessions.catalog.metadata import first_words, read_about, write_notebook
from cellwright.sessions.session import Session
from cellwright.text import counted, visible

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


ALGORITHM = "sha256"

LARGEST_NOTEBOOK = 200_000_000
_WORDS = ("claude", "cellwright")
"""A notebook without these words in a code cell holds no prompt of anybody's."""

logger = logging.getLogger(__name__)


class FrontEnd(NamedTuple):
    """The front end of one cell. `kernel` is None in a terminal; `page` names the client that sent the cell.

    `request` names the request that runs the cell: each run has its own.
    """

    kernel: Any
    allows_input: bool
    cell_id: str | None
    page: str
    request: str = ""

    @property
    def headless(self) -> bool:
        """True when nobody looks: nbclient and papermill allow no stdin, name no cell; a script has no terminal."""
        return not self.allows_input and self.cell_id is None

    @property
    def is_vscode(self) -> bool:
        """True in Visual Studio Code, which names a cell by the address of its document, in notebooks and elsewhere."""
        return self.cell_id is not None and self.cell_id.startswith("vscode-")


def front_end_of(shell: InteractiveShell) -> FrontEnd:
    """The front end that sent the request that is running now."""
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return FrontEnd(None, sys.stdin is not None and sys.stdin.isatty(), None, "", str(shell.execution_count))
    request = kernel.get_parent("shell")
    content, metadata = request.get("content", {}), request.get("metadata", {})
    header = request.get("header", {})
    allows_input = bool(content.get("allow_stdin", False))
    return FrontEnd(
        kernel, allows_input, metadata.get("cellId"), header.get("session", ""), str(header.get("msg_id", ""))
    )


TOLD_IN_NAMESPACE = ("PAPERMILL_INPUT_PATH", "__vsc_ipynb_file__")
"""The names that papermill (`--inject-input-path`) and VS Code put into the namespace."""


def this_notebook(front_end: FrontEnd, namespace: Mapping[str, Any], environ: Mapping[str, str]) -> Path | None:
    """The notebook's file; None where nothing tells.

    What Jupyter Server says with JPY_SESSION_NAME counts only where a front end runs the cell: nbclient and papermill,
    started from a notebook, hand on the variable of that one.
    """
    for name in TOLD_IN_NAMESPACE:
        value = namespace.get(name)
        if isinstance(value, str) and value.endswith(".ipynb") and (path := Path(value).absolute()).is_file():
            return path
    return None if front_end.headless else notebook_of(environ)


class UntrustedNotebook(NamedTuple):
    """A foreign notebook with what it would ask; `digest` names its content without the outputs."""

    notebook: Path
    digest: str
    prompts: tuple[str, ...]


class NotebookTrust:
    """Looks at the notebook in the background, once, and asks about it until the user has said yes.

    It is asked before prompts that stand in the notebook; what its user types elsewhere is their own.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._found: Future[UntrustedNotebook | None] = Future()
        self._settled = False
        self.said_yes = False
        notebook = notebook_of(environ)
        if notebook is None:
            self._found.set_result(None)
        else:
            threading.Thread(target=self._read, args=(notebook,), name="cellwright-notebook", daemon=True).start()

    def question(self) -> TrustQuestion | None:
        """Return what the user has to be asked before the first prompt of this kernel."""
        if self._settled:
            return None
        foreign = self._found.result()
        if foreign is None:
            self._settled = True
            return None
        listed = "\n".join(f"  - {prompt}" for prompt in foreign.prompts)
        return TrustQuestion(
            about="notebook",
            title=f"Let {foreign.notebook.name} ask Claude",
            detail="Jupyter does not trust this notebook: it came from elsewhere, or was changed outside Jupyter. "
            "Its prompts:\n"
            f"{listed}\nTo trust it, run `jupyter trust {foreign.notebook.name}` in a terminal.",
            reason="Its prompts run with your key and your files, also under Run All. Read them first.",
            yes="Let it ask",
            no="Do not run it",
            ids=frozenset((foreign.digest,)),
            required=True,
        )

    def answer(self, question: TrustQuestion, *, yes: bool, chosen: str = "") -> None:
        """The user has answered; after a no the next prompt asks again. Raises CellwrightError FILE_ACCESS_ERROR."""
        if yes:
            self._settled = self.said_yes = True
            for digest in question.ids:
                remember_notebook(digest)

    def _read(self, notebook: Path) -> None:
        try:
            self._found.set_result(foreign_notebook(notebook))
        except Exception as error:  # noqa: BLE001  crosses threads: raised again where it is asked for
            self._found.set_exception(error)


def notebook_of(environ: Mapping[str, str]) -> Path | None:
    """The notebook file that this kernel was started for, where Jupyter Server says it."""
    name = environ.get("JPY_SESSION_NAME", "")
    return Path(name) if name.endswith(".ipynb") and Path(name).is_absolute() else None


def foreign_notebook(notebook: Path) -> UntrustedNotebook | None:
    """Find what `notebook` would ask, if foreign; None where it is the user's, asks nothing, or cannot be judged."""
    content = read_notebook(notebook)
    if content is None:
        return None
    prompts = tuple(_prompts(content))
    if not prompts or _is_signed(content) is not False:
        return None
    sources = [[cell["cell_type"], cell["source"]] for cell in content["cells"]]
    digest = hashlib.sha256(json.dumps(sources).encode()).hexdigest()
    return None if is_known_notebook(digest) else UntrustedNotebook(notebook, digest, prompts)


def read_notebook(notebook: Path) -> dict[str, Any] | None:
    """The notebook as Jupyter reads it; None for what is none, or holds no prompt."""
    try:
        if not notebook.is_file() or notebook.stat().st_size > LARGEST_NOTEBOOK:
            return None
        data = notebook.read_bytes()
        if not any(word in data.lower() for word in (b"claude", b"cellwright")):
            return None
        content = json.loads(data)
        if isinstance(content, dict) and content.get("nbformat") == 4:
            return _as_jupyter_reads_it(content)
        import nbformat  # formats of before 2015 have to be converted first

        converted: dict[str, Any] = nbformat.reads(data.decode("utf-8"), as_version=4)
    except (OSError, ValueError, RecursionError, AttributeError, TypeError, KeyError):
        return None  # no notebook: nothing that Jupyter would run
    return converted


def _as_jupyter_reads_it(content: dict[str, Any]) -> dict[str, Any]:
    """Make of a notebook what `nbformat.read` does: lines joined, what is not kept in files taken out."""
    for name in ("orig_nbformat", "orig_nbformat_minor", "signature"):
        content["metadata"].pop(name, None)
    for cell in content["cells"]:
        cell["metadata"].pop("trusted", None)
        if isinstance(cell.get("source"), list):
            cell["source"] = "".join(cell["source"])
        for bundle in cell.get("attachments", {}).values():
            _join(bundle)
        for output in cell.get("outputs", []) if cell["cell_type"] == "code" else []:
            join_output(output)
    return content


def join_output(output: dict[str, Any]) -> dict[str, Any]:
    """The same output with its lines joined, as it is in memory."""
    if output["output_type"] in ("execute_result", "display_data"):
        _join(output.get("data", {}))
    elif isinstance(output.get("text"), list):
        output["text"] = "".join(output["text"])
    return output


def _join(bundle: dict[str, Any]) -> None:
    for kind, value in bundle.items():
        is_json = kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
        if not is_json and isinstance(value, list) and all(isinstance(line, str) for line in value):
            bundle[kind] = "".join(value)


def _prompts(content: Mapping[str, Any]) -> Iterator[str]:
    found = [
        cell["source"]
        for cell in content["cells"]
        if cell["cell_type"] == "code" and any(word in cell["source"].lower() for word in _WORDS)
    ]
    # of all prompts; who asks more has to be read in the notebook itself, which the question says
    left = 200_000
    for number, source in enumerate(found):
        text = visible(source.strip()).replace("\n", " ⏎ ")
        if len(text) > left:
            yield f"… and {counted(len(found) - number, 'more prompt')}, too long for a question: read the notebook first"
            return
        left -= len(text)
        yield text


def _is_signed(content: dict[str, Any]) -> bool | None:
    """Return whether Jupyter's database knows the notebook; None where there is none on this machine."""
    import sqlite3  # IPython's history has loaded it

    from jupyter_core.paths import jupyter_data_dir  # as every kernel has; in a terminal there is no notebook

    folder = Path(jupyter_data_dir())
    database = folder / "nbsignatures.db"
    try:
        secret = (folder / "notebook_secret").read_bytes()
        with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=1.0)) as signatures:
            query = "SELECT 1 FROM nbsignatures WHERE algorithm = ? AND signature = ?"
            return signatures.execute(query, (ALGORITHM, signature_of(content, secret))).fetchone() is not None
    except (OSError, sqlite3.Error):
        return None  # kept elsewhere, or not at all: to ask about each notebook would teach to say yes


def signature_of(content: Mapping[str, Any], secret: bytes) -> str:
    """The signature that Jupyter gives a notebook (`nbformat.sign.NotebookNotary.compute_signature`)."""
    signing = hmac.new(secret, digestmod=ALGORITHM)
    for part in _everything(content):
        signing.update(part)
    return signing.hexdigest()


def _everything(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield key.encode()
            yield from _everything(value[key])
    elif isinstance(value, list):
        for element in value:
            yield from _everything(element)
    else:
        yield str(value).encode()


class NotebookSessions:
    """Notes the notebook of each session when its first run has ended. An observer of the conversation.

    `session` gives the session that is used, `notebook` the file of this kernel's notebook where it is known.
    """

    def __init__(self, session: Callable[[], Session | None], notebook: Callable[[], Path | None]) -> None:
        self._session = session
        self._notebook = notebook
        self._noted = ""

    def run_added(self, _run: object) -> None:
        """A run that has been asked for has said nothing yet."""

    def on_event(self, _run: object, event: Event) -> None:
        session = self._session()
        if not isinstance(event, RunEnd) or session is None or event.session_id != session.id or not session.encoded:
            return
        if session.path is None or self._noted == session.id or (notebook := self._notebook()) is None:
            return

        self._noted = session.id
        try:
            if read_about(session.path).notebook != notebook.name:
                write_notebook(session.path, notebook, first_words(session))
        except CellwrightError as error:  # the conversation is worth more than its name
            logger.warning("the session %s was not named: %s", session.id, error)

    def run_ended(self, _run: object) -> None:
        """Its last event was heard."""

    def session_changed(self, _session: Session) -> None:
        """Another one is noted when something is said in it."""
