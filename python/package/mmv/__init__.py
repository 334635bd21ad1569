"""Metrics that cost a memory access, in a file that mmv-agent logs every second.

    requests = Counter("requests", "Requests answered", ["endpoint"])
    requests.labels("cart").inc()
"""

import atexit
import os
import sys

from mmv import _native
from mmv._native import Counter, Gauge, Histogram, Registry, default_registry

__all__ = ["Counter", "Gauge", "Histogram", "Registry", "default_registry"]


def _withdraw_with_process(_=None):
    """Removes the files when a child of multiprocessing ends, which runs no function of atexit."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _native.withdraw, exitpriority=0)
        # A forked child begins by forgetting what its parent had to do.
        util.register_after_fork(_withdraw_with_process, _withdraw_with_process)


def _after_fork():
    _native.after_fork()
    _withdraw_with_process()


atexit.register(_native.withdraw)
os.register_at_fork(after_in_child=_after_fork)
_withdraw_with_process()
