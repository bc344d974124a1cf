"""The transcript as a Jupyter widget: a small loader with each cell, the renderer itself once per kernel.

Imports ipywidgets and anywidget, so it is imported only when a cell shows something, or ahead in the background.
"""

from __future__ import annotations

import gzip
import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import anywidget
import comm
import ipywidgets  # type: ignore[import-untyped]
import traitlets

from cellwright.kernel.run.ipykernel_api import isolate_from_shell
from cellwright.kernel.widgets.bundle import LOADER, RENDERER, is_built

logger = logging.getLogger(__name__)

_creating_code = threading.Lock()
_ended: deque[TranscriptWidget] = deque()


@cache
def renderer_code() -> bytes:
    """The renderer, compressed; the same bytes for the same build."""
    return gzip.compress(RENDERER.read_bytes(), mtime=0)


class _OwnState:
    """Widgets whose state is the kernel's alone: a script in one page must not change the code that others load."""

    def set_state(self, sync_data: object) -> None:
        logger.warning("a page's change of a transcript's state was not taken: %.200r", sync_data)


class TranscriptCode(_OwnState, ipywidgets.Widget):
    """A model without a view that holds the renderer's code for pages that do not have it yet."""

    code = traitlets.Bytes().tag(sync=True)


class TranscriptWidget(_OwnState, anywidget.AnyWidget):
    """One cell's transcript. What it shows comes by custom messages; its state is where to find the renderer.

    `on_message` gets this widget, each message from the browser and the name of its page, on the thread that the
    message arrives on: that may be before the widget is wholly made. `of`: this one is the next part of that transcript,
    shown below an output of the code's own, and hears and says nothing itself.
    """

    # traits of the class already: anywidget would make a class anew for each cell's widget
    _esm = traitlets.Unicode(LOADER.read_text("utf-8") if is_built() else "").tag(sync=True)
    _anywidget_id = traitlets.Unicode("cellwright.TranscriptWidget").tag(sync=True)
    # nobody lays it out, and a layout is a model of its own, opened and closed with each cell
    layout = traitlets.Any(None, allow_none=True).tag(sync=True)
    comm: Any
    code_model = traitlets.Unicode().tag(sync=True)
    run = traitlets.Unicode().tag(sync=True)
    part = traitlets.Int(0).tag(sync=True)

    def __init__(
        self, on_message: Callable[[TranscriptWidget, object, str], None], of: TranscriptWidget | None = None
    ) -> None:
        self._on_message = on_message
        self._in_pages = True
        self._parts: list[TranscriptWidget] = []
        run, part = (secrets.token_hex(8), 0) if of is None else (of.run, len(of._parts) + 1)
        super().__init__(code_model=_code_model(), run=run, part=part)
        if of is not None:
            of._parts.append(self)

    def add_traits(self, **traits: traitlets.TraitType[Any, Any]) -> None:
        """Add those of `traits` that the class has not."""
        if new := {name: trait for name, trait in traits.items() if not self.has_trait(name)}:
            super().add_traits(**new)

    def open(self) -> None:
        """Open the comm; a widget of ipywidgets would lose a message that comes back before it is wholly made."""
        if self.comm is None:
            channel = comm.create_comm(target_name="jupyter.widget", primary=False)
            self.comm = channel
            isolate_from_shell(channel)
            state = {"state": self.get_state(), "buffer_paths": []}
            channel.open(data=state, metadata={"version": ipywidgets.__protocol_version__})

    def _handle_msg(self, msg: Mapping[str, Any]) -> None:
        data = msg["content"]["data"]
        if data["method"] == "custom":
            self._on_message(self, data.get("content"), msg["header"].get("session", ""))
        else:
            super()._handle_msg(msg)

    def send(self, content: object, buffers: object = None) -> None:
        for widget in (self, *self._parts):
            widget._in_pages = True
        super().send(content, buffers)

    @property
    def view_data(self) -> dict[str, Any]:
        """The mimebundle entry that shows this widget."""
        return {"version_major": 2, "version_minor": 0, "model_id": self.model_id}

    def leave_pages(self) -> None:
        """Take the widget out of the pages; a page that comes later still finds it."""
        if self.comm is None or not self._in_pages:
            return
        self._in_pages = False
        self.comm.publish_msg("comm_close", data={})
        for part in self._parts:
            part.leave_pages()

    def keep_for_later_pages(self) -> None:
        """Let the widget be found until the extension is unloaded or enough others have ended."""
        _ended.append(self)
        # the number of ended runs that a page saved while they went on can still find when it comes back
        while len(_ended) > 8:
            _ended.popleft().close()

    def close(self) -> None:
        if self.comm is None:
            return
        self.leave_pages()
        for part in self._parts:
            part.close()
        # closed for the pages already: a comm that closes says so again, also when it is collected
        self.comm._closed = True
        comm.get_comm_manager().unregister_comm(self.comm)
        super().close()


_code: TranscriptCode | None = None


def close_all() -> None:
    """Take what runs have left, and the renderer's code, back from the kernel's widgets."""
    global _code
    while _ended:
        _ended.popleft().close()
    with _creating_code:
        if _code is not None:
            _code.close()
            _code = None


def _code_model() -> str:
    global _code  # one per kernel, as there is one widget manager per kernel
    with _creating_code:
        if _code is None or _code.comm is None:
            _code = TranscriptCode(code=renderer_code())
            isolate_from_shell(_code.comm)
        return str(_code.model_id)
