"""A checkout in which the browser's part was not built."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from notebook_kernel import SOURCES, model_of, running_kernel

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = pytest.mark.kernel


def test_a_checkout_without_the_built_widget_works_with_text(model: MessagesServer, tmp_path: Path):
    sources = tmp_path / "sources"
    shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("static", "__pycache__", "labextension"))
    model.add(say("One."), turn(use("Python", code="unbuilt = 1")), say("Two."))
    with running_kernel(tmp_path, model_of(model), sources=[sources]) as kernel:
        kernel.run("%load_ext cellwright")
        first = kernel.run("%%claude\nhi")
        assert "One." in first.outputs[-1]["text/markdown"]
        assert "make build" in first.stdout
        second = kernel.begin("%%claude\ngo", allow_stdin=True)
        kernel.answer_input(second, "y")
        kernel.finish(second)
        assert "Two." in second.outputs[-1]["text/markdown"]
        assert "make build" not in second.stdout
        assert kernel.value("unbuilt") == "1"
        assert second.of_type("comm_open") == []
