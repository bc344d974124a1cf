"""The transcript as a Jupyter widget: a small loader with each cell, the renderer itself once per kernel.

Imports ipywidgets and anywidget, so it is imported only when a cell shows something, or ahead in the background.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import anywidget
import ipywidgets  # type: ignore[import-untyped]
import traitlets

from cellwright.kernel.comm_routes import keep_own_shell
from cellwright.kernel.widgets.bundle import LOADER, RENDERER, is_built

_creating_code = threading.Lock()


@cache
def renderer_code() -> bytes:
    """The renderer, compressed; the same bytes for the same build."""
    return gzip.compress(RENDERER.read_bytes(), mtime=0)


class TranscriptCode(ipywidgets.Widget):
    """A model without a view that holds the renderer's code for pages that do not have it yet."""

    code = traitlets.Bytes().tag(sync=True)


class TranscriptWidget(anywidget.AnyWidget):
    """One cell's transcript. What it shows comes by custom messages; its state is where to find the renderer."""

    _esm = LOADER.read_text("utf-8") if is_built() else ""
    code_model = traitlets.Unicode().tag(sync=True)

    @property
    def view_data(self) -> dict[str, Any]:
        """The mimebundle entry that shows this widget."""
        return {"version_major": 2, "version_minor": 0, "model_id": self.model_id}

    def close(self) -> None:
        """Take the widget out of the page, its layout's model with it."""
        if self.comm is not None:
            self.layout.close()
        super().close()


_code: TranscriptCode | None = None


def open_transcript(on_message: Callable[[object], None]) -> TranscriptWidget:
    """A new transcript; `on_message` gets each message from the browser, on the thread that it arrives on."""
    widget = TranscriptWidget(code_model=_code_model())
    widget.on_msg(lambda _widget, content, _buffers: on_message(content))
    keep_own_shell(widget.comm)
    return widget


def close_code() -> None:
    """Take the renderer's code back from the kernel's widgets."""
    global _code
    with _creating_code:
        if _code is not None:
            _code.close()
            _code = None


def _code_model() -> str:
    global _code  # one per kernel, as there is one widget manager per kernel
    with _creating_code:
        if _code is None or _code.comm is None:
            _code = TranscriptCode(code=renderer_code())
            keep_own_shell(_code.comm)
        return str(_code.model_id)
