"""CPU time of a run: what it costs whatever else the machine is doing, unlike time on the clock."""

from __future__ import annotations

import psutil


class CpuMeter:
    """CPU seconds of this process and of all processes that it started, running or ended, from now on."""

    def __init__(self) -> None:
        self._before = _total()

    def since_last(self) -> float:
        """CPU seconds since the call before (the first time: since the start), all threads together.

        Resolution is the system's clock tick (10 ms on Linux); nothing is lost from one call to the next.
        """
        # A process that ends while the sum is taken is missing from it once, and the next call has it again.
        now = max(_total(), self._before)
        spent, self._before = now - self._before, now
        return spent


def _total() -> float:
    this = psutil.Process()
    seconds = 0.0
    for process in [this, *this.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        # The last two are those of its own ended children that it has waited for; Linux alone knows them.
        seconds += times.user + times.system + times.children_user + times.children_system
    return seconds
