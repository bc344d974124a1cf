"""The demo in JupyterLab, started as its user does."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellwright.testing import MessagesServer
from eventual import eventually

For = Callable[[MessagesServer | None], Any]


def test_the_demo_in_jupyterlab_asks_about_no_news_and_ends_with_all_that_it_started(
    command_for: For, tmp_path: Path
) -> None:
    (tmp_path / "temporary").mkdir()
    demo = command_for(None).start(
        "demo", "--lab", TMPDIR=str(tmp_path / "temporary"), JUPYTER_CONFIG_DIR=str(tmp_path / "users")
    )
    try:
        assert demo.stderr is not None
        address = next(found for line in demo.stderr if (found := re.search(r"(http://\S+?)/lab/\S*token=(\w+)", line)))
        url, token = address.groups()
        plugin = "@jupyterlab/apputils-extension:notification"
        request = urllib.request.Request(
            f"{url}/lab/api/settings/{plugin}", headers={"Authorization": f"token {token}"}
        )

        def told() -> dict[str, Any]:
            try:
                with urllib.request.urlopen(request, timeout=60) as reply:
                    return dict(json.load(reply))
            except urllib.error.URLError:  # its address is told before it listens
                return {}

        answer = eventually(told, bool)
        assert answer["schema"]["properties"]["fetchNews"]["default"] == "false"
        assert not (tmp_path / "users" / "labconfig").exists()
        demo.terminate()
        assert demo.stderr.read() is not None, "until all that has it is gone"
        assert demo.wait() == 128 + signal.SIGTERM
    finally:
        demo.terminate()
        demo.wait()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=60)
    assert list((tmp_path / "temporary").glob("cellwright-demo-*")) == []
