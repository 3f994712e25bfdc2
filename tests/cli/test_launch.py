"""`burnlike launch`: processes on this machine, a log of each, signals, restarts, and the script for SLURM."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from burnlike import _env
from burnlike.cli.main import main
from burnlike.errors import ArgumentError, ConfigError
from burnlike.train import DistributedConfig, TrainingConfig
from tests.marks import slow, weekly
from tests.processes import HANGS_S
from tests.train.samples import metrics_of, write_config

ROOT = Path(__file__).parents[2]
DDP = ["--set", "distributed.strategy=ddp", "--set", "task.sample_length=0"]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return str(write_config(tmp_path))


def launch(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-m", "burnlike", "launch", *arguments]
    # A command that ran in this process has set what torch logs.
    environment = {name: value for name, value in os.environ.items() if name != "TORCH_CPP_LOG_LEVEL"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def ends(launcher: subprocess.Popen[str], status: int) -> str:
    text, _ = launcher.communicate(timeout=HANGS_S)
    assert launcher.returncode == status, text
    return text


def wait_for(is_done: Callable[[], object], launcher: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + HANGS_S
    while not is_done():
        assert launcher.poll() is None, launcher.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def process_of(run: Path, rank: int) -> int:
    """The process of a rank, as its log says."""
    starts = [it for it in (run / "logs" / f"rank-{rank}.log").read_text().splitlines() if it.startswith("--- ")]
    return int(starts[-1].split("process ")[1].split()[0])


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["launch", *arguments]) == 2
    assert not Path("runs").exists()
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "expected --nproc N"),
        (["--nproc", "2"], "2 processes are asked for, and the config is for one"),
        (["--nproc", "3", *DDP, "--set", "distributed.replicate=2"], "there are 3"),
        (["--nproc", "2", "--nnodes", "2", *DDP], "expected --rdzv-endpoint HOST:PORT"),
        (["--nproc", "2", "--nnodes", "2", "--rdzv-endpoint", "localhost:1", *DDP], "expected --run-dir DIR"),
        (["--nproc", "2", "--nnodes", "2", "--rdzv-endpoint", "localhost:x", *DDP], "expected HOST:PORT with a port"),
        (["--nproc", "2", "--nnodes", "2", "--rdzv-endpoint", "a:65536", *DDP], "expected HOST:PORT with a port"),
        (["--nproc", "1:2", "--nnodes", "2", "--rdzv-endpoint", "localhost:1", *DDP], "expected one number"),
        (["--nproc", "2", "--find", "lr"], "use `burnlike train`"),
        (["--nproc", "2", "--sweep", "seed=1,2"], "use `burnlike train`"),
        (["--nproc", "2", "--time", "1", *DDP], "--time is for --slurm"),
        (["--nproc", "2", "--slurm", "--time", "soon", *DDP], "--time: expected MINUTES"),
        (["--nproc", "2", "--slurm", "--sbatch", "comment=a b", *DDP], "without spaces"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_done(
    config: str, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert message in fails(capsys, config, *options)


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("localhost", 0)) as server:
        yield f"localhost:{server.getsockname()[1]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        (
            "localhost:PORT",
            "fewer than 2 came within 1 s (--rdzv-conf join_timeout=N); start `burnlike launch` on each",
        ),
        ("nobody.invalid:PORT", "timed out after 1000ms while trying to connect to (nobody.invalid, "),
        (
            "SILENT",
            "what listens there has not answered for 7 s: it is no launcher; HOST has to be one of the machines",
        ),
    ],
)
def test_launchers_that_do_not_meet_say_what_to_do(config: str, silent: str, endpoint: str, message: str) -> None:
    with socket.create_server(("localhost", 0)) as server:
        free = server.getsockname()[1]
    place = endpoint.replace("PORT", str(free)).replace("SILENT", silent)
    options = ["--rdzv-endpoint", place, "--rdzv-conf", "join_timeout=1,read_timeout=1", "--run-dir", "run"]
    text = ends(launch(config, "--nproc", "1", "--nnodes", "2", *DDP, *options), 2)
    assert f"the launchers of the job can't meet at {place}: " in text
    assert message in text
    assert "frame #" not in text
    assert "Traceback" not in text


@pytest.mark.parametrize("number", [signal.SIGHUP, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_hangup_writes_a_checkpoint_and_says_what_an_interrupt_says(config: str, number: signal.Signals) -> None:
    options = ["--nproc", "1", "--set", "training.epochs=100000", "--run-dir", "run"]
    launcher = launch(config, *options)
    wait_for(lambda: any(Path("run/checkpoints").glob("*")), launcher)
    launcher.send_signal(number)
    text = ends(launcher, 128 + number)
    resume = "go on with: burnlike launch --nproc 1 --resume run"
    assert text.splitlines()[-1] == f"stopped by {number.name}; {resume}"
    last = max(int(it.name.removeprefix("step-")) for it in Path("run/checkpoints").iterdir())
    assert metrics_of(Path("run"))[-1]["step"] <= last


@pytest.mark.weekly
def test_a_hangup_that_is_ignored_stays_so(config: str) -> None:
    command = ["nohup", sys.executable, "-m", "burnlike", "launch", config, "--nproc", "1", "--run-dir", "run"]
    with Path("out").open("w") as out:
        launcher = subprocess.Popen([*command, "--set", "training.epochs=20"], stdout=out, stderr=out)
        wait_for(lambda: any(Path("run/checkpoints").glob("*")), launcher)
        launcher.send_signal(signal.SIGHUP)
        assert launcher.wait(timeout=HANGS_S) == 0, Path("out").read_text()


@pytest.mark.parametrize("number", [*slow(signal.SIGKILL), *weekly(signal.SIGQUIT)])
def test_processes_end_with_their_launcher(config: str, number: signal.Signals) -> None:
    launcher = launch(config, "--nproc", "2", *DDP, "--set", "training.epochs=100000", "--run-dir", "run")
    run = Path("run")
    wait_for(lambda: any((run / "checkpoints").glob("*")), launcher)
    ranks = [process_of(run, rank) for rank in range(2)]
    launcher.send_signal(number)
    text, _ = launcher.communicate(timeout=HANGS_S)
    assert "Traceback" not in text
    deadline = time.monotonic() + HANGS_S
    while any(Path(f"/proc/{rank}").exists() for rank in ranks):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("count", ["0", "4:2", "two", "-1", "2:"])
def test_a_number_of_processes_is_one_or_a_range(config: str, capsys: pytest.CaptureFixture[str], count: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["launch", config, "--nproc", count])
    assert caught.value.code == 2
    assert "expected a number such as 4, or a range such as 2:4" in capsys.readouterr().err


SRUN = {
    "SLURM_JOB_ID": "771",
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}


def test_what_srun_and_mpirun_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SRUN.items():
        monkeypatch.setenv(name, value)
    expected = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "gpu07", "MASTER_PORT": "15771"}
    assert _env.rendezvous() == expected
    assert (_env.global_rank(), _env.local_rank(), _env.number_of_ranks()) == (3, 1, 4)
    assert _env.distributed_job() is not None
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert _env.rendezvous()["MASTER_PORT"] == "29500"
    for name in (*SRUN, "MASTER_PORT"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_NTASKS", "4")  # the job's own script
    monkeypatch.setenv("SLURM_PROCID", "0")
    assert _env.rendezvous() == {}
    for name, value in OPEN_MPI.items():
        monkeypatch.setenv(name, value)
    found = _env.rendezvous()
    assert (found["RANK"], found["WORLD_SIZE"], found["MASTER_ADDR"]) == ("1", "2", "127.0.0.1")
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1")  # several machines
    assert _env.rendezvous_lacks() == ["MASTER_ADDR", "MASTER_PORT"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"RANK": "2"}, "RANK: expected a number from 0 to 1 with WORLD_SIZE=2, got '2'"),
        ({"RANK": "a"}, "RANK: expected a number from 0 to 1"),
        ({"WORLD_SIZE": "-2"}, "WORLD_SIZE: expected a number from 1"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT: expected a number from 1 to 65535"),
        ({}, "nothing listened at MASTER_ADDR=127.0.0.1 MASTER_PORT=9 for 0 s"),
    ],
)
def test_what_a_launcher_says_wrong_is_one_error(
    wrong: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from burnlike.train import make_parallel  # loads torch

    known = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9", **wrong}
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    with pytest.raises((ConfigError, ArgumentError), match=message):
        make_parallel(DistributedConfig(strategy="ddp", timeout_minutes=1e-3), torch.device("cpu"))


@pytest.mark.parametrize(("processes", "steps"), [(1, 4), (2, 2), (3, 2), (4, 1), (8, 1), (5, 1)])
def test_a_global_batch_is_divided_by_any_number_of_processes(processes: int, steps: int) -> None:
    found = TrainingConfig(batch_size=8, global_batch_size=32).divided(processes)
    assert found.accumulation_steps == steps
    assert -(-32 // (steps * processes)) <= 8


SCRIPT = ["--nproc", "2", "--slurm", "--time", "04:00:00", "--partition", "long", "--sbatch", "account=mine", *DDP]


def test_a_script_for_slurm_is_bash_and_is_not_written_over_a_file(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["launch", config, *SCRIPT, "--nodes", "2", "--gpus", "8", "--out", "job.sh"]) == 0
    text = Path("job.sh").read_text()
    subprocess.run(["bash", "-n", "job.sh"], check=True)
    for line in (
        "#SBATCH --nodes=2",
        "#SBATCH --gpus-per-node=8",
        "#SBATCH --time=04:00:00",
        "#SBATCH --partition=long",
        "#SBATCH --signal=B:USR1@90",
        "#SBATCH --account=mine",
        "#SBATCH --requeue",
    ):
        assert line in text.splitlines()
    assert '--rdzv-endpoint "$host:$port"' in text
    assert "stays as it is" in fails(capsys, config, *SCRIPT, "--out", "job.sh")
    assert Path("job.sh").read_text() == text


@pytest.mark.slow
def test_two_processes_train_and_print_to_logs_of_their_own(config: str) -> None:
    text = ends(launch(config, "--nproc", "2", *DDP, "--set", "training.epochs=1"), 0)
    run = Path("runs/small")
    assert (run / "model.safetensors").exists()
    logs = [(run / "logs" / f"rank-{rank}.log").read_text() for rank in range(2)]
    assert "rank 0 of 2" in logs[0]
    assert "rank 1 of 2" in logs[1]
    assert "step 20/20" in text
    assert "step 20/20" in logs[0]
    assert {it.name for it in (run / "logs").iterdir()} == {"rank-0.log", "rank-1.log"}


@pytest.mark.slow
def test_a_killed_process_is_named_and_the_job_goes_on_where_it_may(config: str) -> None:
    """With --max-restarts from the last checkpoint, to the bits of a run that was left alone."""
    ends(launch(config, "--nproc", "2", *DDP, "--run-dir", "whole"), 0)
    run = Path("runs/small")
    for restarts, status in ((0, 2), (1, 0)):
        place = ["--run-dir", str(run)] if restarts == 0 else ["--resume", str(run)]
        launcher = launch(config, "--nproc", "2", "--max-restarts", str(restarts), *place, *DDP)
        wait_for(lambda: [*run.glob("checkpoints/step-*")], launcher)
        if restarts:
            wait_for(lambda: "resuming from" in (run / "logs" / "rank-0.log").read_text(), launcher)
        victim = process_of(run, 1)
        os.kill(victim, signal.SIGKILL)
        text = ends(launcher, status)
        if restarts == 0:
            assert f"rank 1 (process {victim}) was ended by SIGKILL" in text
            assert "The last checkpoint is whole: launch the job again with --resume runs/small." in text
            assert "runs/small/logs/rank-1.log" in text
    assert metrics_of(run) == metrics_of(Path("whole"))
    assert (run / "model.safetensors").read_bytes() == Path("whole/model.safetensors").read_bytes()


FAKE_SRUN = """#!/bin/bash
# One task on this machine, as srun starts it: it hands signals on.
while [[ "$1" == --* ]]; do shift; done
trap 'kill -USR1 $task' USR1
export SLURM_NTASKS=1 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_STEP_NODELIST=localhost
"$@" &
task=$!
wait $task; status=$?
while kill -0 $task 2> /dev/null; do wait $task; status=$?; done
exit $status
"""


@pytest.mark.weekly
def test_a_job_of_slurm_stops_before_its_limit_and_goes_on_when_it_runs_again(
    config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script runs with programs of the names of SLURM's; it ends in the bits of a run that was left alone."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "srun").write_text(FAKE_SRUN)
    (tools / "scontrol").write_text('#!/bin/bash\necho "$@" >> requeued\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    ends(launch(config, "--nproc", "2", *DDP, "--run-dir", "whole"), 0)
    assert main(["launch", config, *SCRIPT, "--out", "job.sh"]) == 0
    run = Path("runs/small-77")
    with Path("first.out").open("w") as out:
        job = subprocess.Popen(["bash", "job.sh"], stdout=out, stderr=subprocess.STDOUT, text=True)
        deadline = time.monotonic() + HANGS_S
        while not [*run.glob("checkpoints/step-*")]:
            assert job.poll() is None, Path("first.out").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        job.send_signal(signal.SIGUSR1)
        assert job.wait(timeout=HANGS_S) == 138, Path("first.out").read_text()
    assert Path("requeued").read_text() == "requeue 77\n"
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    done = subprocess.run(["bash", "job.sh"], capture_output=True, text=True, check=False, timeout=HANGS_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resuming from" in done.stdout
    assert Path("requeued").read_text() == "requeue 77\n"
    assert metrics_of(run) == metrics_of(Path("whole"))
    assert (run / "model.safetensors").read_bytes() == Path("whole/model.safetensors").read_bytes()
