"""Templates for clusters: Ray accepts the YAML; the SLURM script works, with stand-ins for SLURM and Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCRIPT = DOCS / "cluster/sweep.slurm"

# Each stand-in writes what it was called with; `ray start` then stays, as with --block.
STUBS = {
    "srun": 'echo "srun $*" >> calls; while [[ $1 == --* ]]; do shift; done; exec "$@"',
    "scontrol": 'printf "%s\\n" node1 node2 node3',
    "hostname": 'echo "10.0.0.7 fd00::7"',
    "ray": """
echo "ray $* RAY_ADDRESS=$RAY_ADDRESS" >> calls
case "$1" in
    start) touch up; echo $$ >> pids; exec sleep 60 ;;
    status) [[ -e up ]] ;;
esac
""",
    "python": """
[[ $1 == -c ]] && { echo token; exit; }
printf "%s|" "$@" > arguments
echo "python mode=$RAY_AUTH_MODE token=$RAY_AUTH_TOKEN address=$RAY_ADDRESS" >> calls
until [[ $(wc -l < pids) -ge 3 ]]; do sleep 0.05; done      # the cluster is up
[[ -n "${STAY:-}" ]] || exit 3
sleep 60 >/dev/null 2>&1 &
trap 'echo "told to stop" >> calls; kill $!; sleep 0.3; exit 5' TERM
touch running
wait
""",
}


@pytest.fixture
def submit(tmp_path):
    """Starts the script as SLURM would: a copy in another folder, SLURM's variables, the job's folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in STUBS.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    copy = tmp_path / "spool"
    copy.write_bytes(SCRIPT.read_bytes())
    (tmp_path / "job").mkdir()

    def start(*arguments, **variables):
        environment = {
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "FRESHPER_BIN": str(folder),
            "SLURM_JOB_ID": "7003",
            "SLURM_JOB_NODELIST": "node[1-3]",
            "SLURM_CPUS_PER_TASK": "4",
            "SLURM_GPUS_ON_NODE": "2",
            "SLURM_SUBMIT_DIR": str(tmp_path / "job"),
            **variables,
        }
        return subprocess.Popen(
            ["bash", str(copy), *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def calls(tmp_path):
    return (tmp_path / "job/calls").read_text().splitlines()


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="SLURM's nodes run Linux")
class TestSlurmScript:
    def test_head_first_then_workers_then_the_sweep(self, submit, tmp_path):
        overrides = ["+experiment=seeds", "replay.decay.tau=5,10", "output.root=a folder/ü"]
        process = submit(*overrides)
        process.communicate(timeout=30)
        assert process.returncode == 3  # the sweep's own
        arguments = (tmp_path / "job/arguments").read_text()
        assert arguments.split("|") == ["run.py", "-m", "hydra.sweeper.address=auto", *overrides, ""]
        lines = calls(tmp_path)
        starts = [line for line in lines if line.startswith("ray start")]
        assert len(starts) == 3
        assert "--head --node-ip-address=10.0.0.7 --port=22003" in starts[0]
        assert all("start --address=10.0.0.7:22003" in line for line in starts[1:])
        assert all("--num-cpus=4 --num-gpus=2" in line and "--block" in line for line in starts)
        steps = [line for line in lines if line.startswith("srun") and " start" in line]
        nodes = [line.split("--nodelist=")[1].split()[0] for line in steps]
        assert nodes[0] == "node1" and sorted(nodes[1:]) == ["node2", "node3"]
        assert "python mode=token token=token address=10.0.0.7:22003" in lines
        for pid in (tmp_path / "job/pids").read_text().split():  # Ray ends with the script
            wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists())

    def test_slurms_signal_reaches_the_sweep_which_may_save(self, submit, tmp_path):
        process = submit("seed=1,2", STAY="1")
        wait_for((tmp_path / "job/running").exists)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 5
        assert "told to stop" in calls(tmp_path)

    def test_a_head_that_ends_is_reported(self, submit, tmp_path):
        ray = tmp_path / "bin/ray"
        ray.write_text(ray.read_text().replace("start) touch up;", "start) exit 1;"))
        process = submit("seed=1,2")
        output, _ = process.communicate(timeout=30)
        assert process.returncode == 1 and "Ray's head ended" in output
        assert not (tmp_path / "job/arguments").exists()


def test_the_script_is_bash():
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)


def test_ray_accepts_the_cluster_file():
    util = pytest.importorskip("ray.autoscaler._private.util")
    config = yaml.safe_load((DOCS / "cluster/ray-up.yaml").read_text())
    prepared = util.prepare_config(config)
    util.validate_config(prepared)
    (node_type,) = prepared["available_node_types"].values()
    assert node_type["min_workers"] == len(config["provider"]["worker_ips"])
