"""Figures of matplotlib that nobody displays: a backend with windows of its own, or none, leaves them open.

In a notebook the inline backend displays each new figure when code ends, and there is nothing left to do here.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping, Set
from typing import Any

from cellwright.kernel.execute.redirect import CodeOutput

SHOW_BY_THEMSELVES = ("inline", "ipympl", "widget", "nbagg", "notebook")


def open_figures() -> dict[int, bool]:
    """The numbers of the figures that pyplot holds, and whether they changed since they were drawn."""
    return {manager.num: manager.canvas.figure.stale for manager in _managers()}


def drawn_figures(before: Mapping[int, bool]) -> set[int]:
    """The numbers of the figures that are new since `before`, or were drawn on.

    To be asked before IPython's own hooks run: where matplotlib is interactive they draw all figures, for nobody.
    """
    return {number for number, stale in open_figures().items() if stale and not before.get(number, False)}


def show_figures(numbers: Set[int], output: CodeOutput) -> None:
    """Put pictures of those of the figures that are still there, and that nobody else displays, into `output`."""
    for manager in _managers():
        figure = manager.canvas.figure
        if manager.num not in numbers or _shows_by_itself():
            continue
        picture = io.BytesIO()
        figure.savefig(picture, format="png", bbox_inches="tight")
        output.display({"text/plain": repr(figure), "image/png": picture.getvalue()}, {}, "", update=False)
        if manager.canvas.required_interactive_framework is None:
            figure.stale = False  # there is no window that still has to draw it


def _managers() -> Iterator[Any]:
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    return iter(helpers.Gcf.get_all_fig_managers() if helpers is not None else ())


def _shows_by_itself() -> bool:
    backend = str(sys.modules["matplotlib"].get_backend()).lower()
    return any(name in backend for name in SHOW_BY_THEMSELVES)
