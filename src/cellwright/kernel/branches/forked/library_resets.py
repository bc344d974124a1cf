"""Libraries in a forked process, where their workers did not come along."""

from __future__ import annotations

import concurrent.futures
import queue
import sys
import threading
from typing import Any

_kept: list[object] = []
# what would write to the kernel's pipes when it is collected


def renew_libraries() -> None:
    """Forget workers that are the kernel's, and have thread pools start theirs anew."""
    _forget_loky()
    _forget_multiprocessing()
    _renew_thread_pools()


def _forget_loky() -> None:
    # its executor wrote to the kernel's wakeup pipe from a callback
    reusable: Any = sys.modules.get("joblib.externals.loky.reusable_executor")
    if reusable is not None:
        _kept.append(reusable._executor)
        reusable._executor = None
    # without semaphores, which need /dev/shm, joblib works in sequence
    for name in ("_multiprocessing_helpers", "parallel", "_parallel_backends", "pool"):
        module: Any = sys.modules.get(f"joblib.{name}")
        if module is not None and hasattr(module, "mp"):
            module.mp = None


def _forget_multiprocessing() -> None:
    process: Any = sys.modules.get("multiprocessing.process")
    if process is not None:
        process._children.clear()
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None:
        _kept.append(dict(util._finalizer_registry))
        util._finalizer_registry.clear()
    tracker: Any = sys.modules.get("multiprocessing.resource_tracker")
    if tracker is not None:
        tracker._resource_tracker._fd = tracker._resource_tracker._pid = None


def _renew_thread_pools() -> None:
    pool: Any = concurrent.futures.ThreadPoolExecutor
    submit = pool.submit

    def renewing(self: Any, /, *arguments: Any, **named: Any) -> Any:
        if self._threads and not any(thread.is_alive() for thread in self._threads):
            _kept.append(self._work_queue)
            self._threads = set()
            self._work_queue = queue.SimpleQueue()
            self._idle_semaphore = threading.Semaphore(0)
            self._shutdown_lock = threading.Lock()
        return submit(self, *arguments, **named)

    pool.submit = renewing
