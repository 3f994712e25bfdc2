"""Runs that are killed or interrupted: what they leave is whole, and resumed they end in the same bits."""

import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest
import yaml

from burnlike.train import Interrupted, Interrupter
from burnlike.train.learner.stopping import EarlySignals

from ..fork_server import ForkServer
from ..marks import weekly
from ..processes import HANGS_S
from .kills import last_whole_step, survive_kills
from .samples import STEPS, metrics_of, write_config

N_KILLS = {"quick": 4, "plain": 50, "all": 50}
_ALL = "epochs: 2, accumulation_steps: 2, ema: {decay: 0.9}, keep_best: {}, precision: "
CONFIGS = {"quick": f"{_ALL}int8_mixed", "plain": "", "all": f"{_ALL}bfloat16"}
"""What `training` has beside what `write_config` writes."""


@pytest.fixture(scope="module")
def server(fork_server: ForkServer) -> ForkServer:
    fork_server.run(["check"], Path(os.devnull))  # answers when it has imported everything
    return fork_server


@pytest.fixture(
    scope="module",
    params=["quick", *weekly("plain", "all")],
)
def config(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_config(tmp_path_factory.mktemp("config"))
    values = yaml.safe_load(path.read_text())
    values["training"] |= yaml.safe_load(f"{{{CONFIGS[request.param]}}}")
    path = path.rename(path.with_stem(request.param))
    path.write_text(yaml.safe_dump(values))
    return path


@pytest.fixture(scope="module")
def uninterrupted(server: ForkServer, config: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The directory of a run that nobody disturbed, and its seconds."""
    place = tmp_path_factory.mktemp("whole")
    started = time.perf_counter()
    assert server.run(["train", str(config), "--run-dir", str(place / "run")], place / "output") == 0
    return place / "run", time.perf_counter() - started


def wait_for_checkpoint(server: ForkServer, run: Path, output: Path) -> None:
    deadline = time.monotonic() + HANGS_S
    while not list((run / "checkpoints").glob("step-*")):
        assert server.is_running, output.read_text()
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.002)


def test_killed_at_random_moments_and_resumed_ends_in_the_same_bits(
    server: ForkServer, config: Path, uninterrupted: tuple[Path, float], tmp_path: Path
) -> None:
    expected, seconds = uninterrupted
    survive_kills(server, ["train", str(config)], expected, seconds, tmp_path, N_KILLS[config.stem])


@pytest.mark.parametrize(
    "signal_number",
    [signal.SIGTERM, *(pytest.param(it, marks=pytest.mark.slow) for it in (signal.SIGINT, signal.SIGUSR1))],
)
def test_signal_writes_a_checkpoint_says_how_to_go_on_and_sets_the_status(
    server: ForkServer, config: Path, uninterrupted: tuple[Path, float], tmp_path: Path, signal_number: int
) -> None:
    run, output = tmp_path / "run", tmp_path / "output"
    process = server.start(["train", str(config), "--run-dir", str(run)], output)
    wait_for_checkpoint(server, run, output)
    os.kill(process, signal_number)
    assert server.wait() == 128 + signal_number
    step = last_whole_step(run)
    assert 0 < step < STEPS
    text = output.read_text()
    assert f"go on with: burnlike train --resume {run}\n" in text
    assert re.search(rf"stopped by {signal.Signals(signal_number).name}", text)
    assert "Traceback" not in text
    assert server.run(["train", str(config), "--resume", str(run)], output) == 0
    assert metrics_of(run) == metrics_of(uninterrupted[0])
    assert (run / "model.safetensors").read_bytes() == (uninterrupted[0] / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_no_space_for_a_checkpoint_ends_the_run_and_harms_nothing(
    server: ForkServer, config: Path, uninterrupted: tuple[Path, float], tmp_path: Path
) -> None:
    run, output = tmp_path / "run", tmp_path / "output"
    process = server.start(["train", str(config), "--run-dir", str(run)], output)
    wait_for_checkpoint(server, run, output)
    os.kill(process, signal.SIGTERM)
    server.wait()
    step = last_whole_step(run)
    before = {path: path.read_bytes() for path in (run / "checkpoints").rglob("*.safetensors")}
    arguments = ["train", str(config), "--resume", str(run)]
    assert server.run(arguments, output, max_file_bytes=10_000) == 2
    text = output.read_text()
    assert "Traceback" not in text
    assert re.search(r"burnlike: error: the checkpoint .*step-\d+ can't be written: .*larger than allowed", text)
    assert f"step-{step:08d} is whole" in text
    assert {path: path.read_bytes() for path in (run / "checkpoints").rglob("*.safetensors")} == before
    assert server.run(arguments, output) == 0
    assert metrics_of(run) == metrics_of(uninterrupted[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_the_second_stops_at_once(number: int) -> None:
    with Interrupter() as interrupter:
        interrupter.check()
        assert not interrupter.stopped
        os.kill(os.getpid(), number)
        assert interrupter.stopped
        with pytest.raises(Interrupted) as caught:
            interrupter.check()
        assert caught.value.signal == number
        assert str(caught.value) == signal.Signals(number).name
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), number)


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interrupter():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_outside_the_main_thread_it_can_still_be_told_to_stop() -> None:
    stopped = []

    def work() -> None:
        with Interrupter() as interrupter:
            interrupter.stop()
            stopped.append(interrupter.stopped)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(timeout=60)
    assert stopped == [True]


def test_a_signal_of_the_batch_system_during_the_start_waits_for_the_run() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with EarlySignals():
        os.kill(os.getpid(), signal.SIGUSR1)
        with Interrupter() as interrupter:
            assert interrupter.asked == signal.SIGUSR1
    assert signal.getsignal(signal.SIGUSR1) == before
    with Interrupter() as interrupter:
        assert not interrupter.stopped
