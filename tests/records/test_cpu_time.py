"""CPU time of this process and of those that it started."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from freshper.records.cpu_time import CpuMeter

TICK = 0.05
BURN = "import time, sys\nwhile time.process_time() < 0.4: pass\nprint('done', flush=True)\nsys.stdin.read()"


def burn(seconds, clock=time.thread_time):
    end = clock() + seconds
    while clock() < end:
        pass


def test_work_counts_and_waiting_does_not():
    meter = CpuMeter()
    burn(0.3)
    assert 0.3 - TICK < meter.since_last() < 0.3 + 2 * TICK
    time.sleep(0.3)
    assert meter.since_last() < 2 * TICK


def test_every_thread_counts():
    meter = CpuMeter()
    threads = [threading.Thread(target=burn, args=(0.2,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0.4 - TICK < meter.since_last() < 0.4 + 3 * TICK


def test_a_child_process_counts_once_while_it_runs_and_after_it_ended():
    meter = CpuMeter()
    child = subprocess.Popen([sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "done\n"
    running = meter.since_last()
    child.communicate()
    assert 0.4 - TICK < running < 0.4 + 4 * TICK
    assert meter.since_last() < 4 * TICK


def test_what_ended_before_is_not_counted():
    subprocess.run([sys.executable, "-c", BURN], input="", text=True, stdout=subprocess.DEVNULL, check=True)
    assert CpuMeter().since_last() < TICK
