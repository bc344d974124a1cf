"""Finding out what this machine can confine commands by."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

WITHOUT_TEMPORARY_FILES = """
import json, tempfile
tempfile.tempdir = "/nowhere"
from cellwright.sandbox.mechanisms import find_sandbox, missing_means
sandbox = find_sandbox()
print(json.dumps([sandbox is not None and bool(sandbox.bubblewrap), dict(missing_means())]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the means are those of Linux")
def test_where_no_temporary_file_can_be_made_the_means_that_needs_some_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TEMPORARY_FILES], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    mounts, missing = json.loads(done.stdout)
    assert not mounts
    assert missing["bubblewrap"]
