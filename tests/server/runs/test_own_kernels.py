"""Kernels that were started for runs, at the server's end."""

from __future__ import annotations

import asyncio

import pytest
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

from cellwright.server.runs.own_kernels import OwnKernels

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]


def test_a_server_that_ends_while_a_kernel_is_shut_down_ends(tmp_path):
    async def end() -> list[str]:
        kernels = AsyncMappingKernelManager(root_dir=str(tmp_path), connection_dir=str(tmp_path))
        own = OwnKernels(kernels, 1, 60.0, lambda _: False)
        kernel_id = await own.start("", None)
        shutting_down = asyncio.create_task(own.shut_down(kernel_id))
        while kernels.get_kernel(kernel_id).ready.done():
            await asyncio.sleep(0)  # until it has begun
        shutting_down.cancel()
        await own.close()
        await kernels.shutdown_all()
        return kernels.list_kernel_ids()

    assert asyncio.run(asyncio.wait_for(end(), 60)) == []
