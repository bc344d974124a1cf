"""Whether kernels of the environment hear the server while a cell runs, and tests that are for one kind of them."""

import ipykernel
import pytest

HAS_SUBSHELLS = ipykernel.version_info[:2] >= (7, 1)

with_subshells = pytest.mark.skipif(not HAS_SUBSHELLS, reason="this ipykernel has no subshells")
without_subshells = pytest.mark.skipif(
    HAS_SUBSHELLS, reason="for ipykernels without subshells (`make leg LEG=ipykernel-6.29`)"
)
