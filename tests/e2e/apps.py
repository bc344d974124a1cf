"""The two apps that a scene is played in, and which of them every run plays."""

from __future__ import annotations

import pytest


def in_apps(*, on_older_lab: bool = False, always: bool = False) -> pytest.MarkDecorator:
    """`app` "lab" and "notebook": the second is played in Notebook 7's own leg, or `always`."""
    lab = pytest.param("lab", marks=[pytest.mark.lab_version] if on_older_lab else [])
    notebook = pytest.param("notebook", marks=[] if always else [pytest.mark.notebook7])
    return pytest.mark.parametrize("app", [lab, notebook])
