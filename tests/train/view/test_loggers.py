"""The log of a run, TensorBoard, Weights & Biases and MLflow, without a network: what they wrote is read back."""

import importlib.util
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.config import Config, LoggerConfig
from burnlike.errors import ConfigError, TrainingError
from burnlike.train import (
    Callback,
    Interrupted,
    Interrupter,
    Learner,
    Logger,
    MLflowConfig,
    TensorBoardConfig,
    TrainingConfig,
    WandBConfig,
    read_run,
)
from tests.processes import HANGS_S

Curves = dict[str, list[tuple[int, float]]]


def scalars(run: Path) -> Curves:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(it.step, it.value) for it in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def wandb_records(path: Path) -> Iterator[bytes]:
    """The records of a file in LevelDB's format of logs, after W&B's own 7 bytes."""
    data, position, parts = path.read_bytes(), 7, b""
    while position + 7 <= len(data):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        length, kind = struct.unpack("<HB", data[position + 4 : position + 7])
        parts += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def wandb_curves(run: Path) -> Curves:
    import wandb
    from wandb.proto import wandb_internal_pb2

    wandb.teardown()  # its process may still be writing the end of a file whose run is finished
    curves: Curves = {}
    for path in sorted(run.glob("wandb/offline-run-*/*.wandb")):
        for data in wandb_records(path):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.WhichOneof("record_type") == "history":
                items = {it.key or "/".join(it.nested_key): json.loads(it.value_json) for it in record.history.item}
                for name, value in items.items():
                    if "/" in name:
                        curves.setdefault(name, []).append((items["_step"], value))
    return curves


def mlflow_curves(run: Path) -> Curves:
    import mlflow

    client = mlflow.MlflowClient(f"file://{run.parent / 'mlruns'}")
    run_id = json.loads((run / "mlflow.json").read_text())["id"]
    names = client.get_run(run_id).data.metrics
    return {name: [(it.step, it.value) for it in client.get_metric_history(run_id, name)] for name in names}


KINDS: dict[str, Callable[[Path], tuple[LoggerConfig, Callable[[Path], Curves]]]] = {
    "TensorBoard": lambda folder: (TensorBoardConfig(), scalars),
    "WandB": lambda folder: (WandBConfig(mode="offline"), wandb_curves),
    "MLflow": lambda folder: (MLflowConfig(tracking_uri=f"file://{folder / 'mlruns'}"), mlflow_curves),
}
"""Of each logger a config that needs no network, and what reads the curves that it has written for a run."""


SLOW = {"WandB", "MLflow"}
"""Their imports take seconds, and opening MLflow's store ten."""


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in KINDS])
def kind(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[LoggerConfig, Callable[[Path], Curves]]:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for name in ("CACHE_DIR", "CONFIG_DIR", "DATA_DIR"):
        monkeypatch.setenv(f"WANDB_{name}", str(tmp_path / "wandb home"))
    return KINDS[request.param](tmp_path)


def expected(run: Path) -> Curves:
    """The curves that the lines of metrics have."""
    curves: Curves = {}
    for line in read_run(run).lines:
        for name in line.keys() - {"step", "epoch", "split", "time"}:
            curves.setdefault(f"{line['split']}/{name}", []).append((line["step"], line[name]))
    return curves


def assert_same(found: Curves, wanted: Curves, *, without: str = "/items_per_s") -> None:
    names = {name for name in wanted if not name.endswith(without)}
    assert {name for name in found if not name.endswith(without)} == names
    for name in names:
        assert [step for step, _ in found[name]] == [step for step, _ in wanted[name]]
        assert [value for _, value in found[name]] == pytest.approx([value for _, value in wanted[name]], rel=1e-6)


class Killed(BaseException):
    """Ends a training as a kill would: nothing is closed."""


class Kill(Callback):
    def on_step_end(self, learner: Learner[Any]) -> None:
        if learner.step == 7:
            raise Killed


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:FutureWarning")
def test_the_curves_are_those_of_the_run_and_go_on_without_doubling(kind: Any, tmp_path: Path) -> None:
    config, read = kind
    run = tmp_path / "run"
    fit(run, config.init(), epochs=1)
    assert_same(read(run), expected(run))
    logger: Any = config.init()
    if not isinstance(config, WandBConfig):  # its package lets a process have one run at a time
        logger.on_exception = lambda *_: None
    with pytest.raises(Killed):  # after the checkpoint of step 4, with lines up to step 6
        fit(run, logger, Kill(), epochs=2)
    fit(run, config.init(), epochs=2)
    assert [step for step, _ in expected(run)["train/loss"]] == [*range(1, 9)]
    assert_same(read(run), expected(run))


@pytest.mark.parametrize(
    "config", [TensorBoardConfig(), WandBConfig(), MLflowConfig()], ids=lambda it: type(it).__name__
)
def test_without_its_package_the_error_names_the_extra(config: LoggerConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = type(config).__name__.removesuffix("Config").lower()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=rf"not installed: pip install 'burnlike\[{extra}\]'"):
        config.init()


def test_importing_the_loggers_imports_none_of_their_packages() -> None:
    import subprocess
    import sys

    program = (
        "import sys; from burnlike.train import TensorBoardConfig, WandBConfig, MLflowConfig;"
        "[it().init() for it in (TensorBoardConfig, WandBConfig, MLflowConfig)];"
        "assert not {'tensorboard', 'wandb', 'mlflow', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=HANGS_S)


def test_they_are_named_in_yaml(tmp_path: Path) -> None:
    class Loggers(Config):
        loggers: list[LoggerConfig] = []  # noqa: RUF012 - msgspec copies it

    file = tmp_path / "loggers.yaml"
    file.write_text(
        "loggers:\n- {type: TensorBoard}\n- {type: WandB, project: mine, mode: offline}\n- {type: MLflow}\n"
    )
    assert Loggers.load(file).loggers == [
        TensorBoardConfig(),
        WandBConfig(project="mine", mode="offline"),
        MLflowConfig(),
    ]


class Broken(Logger):
    title, package, extra = "Broken", "json", "none"

    def __init__(self, fails_to_open: bool = False) -> None:
        super().__init__()
        self.fails_to_open = fails_to_open
        self.calls = 0

    def open(self, run: Path | None, step: int) -> None:
        if self.fails_to_open:
            raise ConfigError("no server")

    def send(self, values: Any, line: Any) -> None:
        self.calls += 1
        raise OSError("connection reset")

    def close(self, ending: str) -> None:
        raise AssertionError("a logger that has failed is left alone")


def test_a_logger_that_fails_is_said_once_and_the_training_goes_on(tmp_path: Path) -> None:
    logger = Broken()
    with pytest.warns(RuntimeWarning, match="Broken failed, and the training goes on without it: OSError: connection"):
        fit(tmp_path / "run", logger)
    assert logger.calls == 1
    assert read_run(tmp_path / "run").steps == 8


def test_a_logger_that_cannot_begin_ends_the_training(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no server"):
        fit(tmp_path / "run", Broken(fails_to_open=True))


def test_tensorboard_without_a_place_says_so() -> None:
    with pytest.raises(ConfigError, match="TensorBoard has no place to write to"):
        fit(None, TensorBoardConfig().init())


def test_tensorboard_has_the_config_and_a_directory_of_its_own(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("seed: 7\n")
    (tmp_path / "run" / "run.lock").touch()
    fit(tmp_path / "run", TensorBoardConfig(directory=str(tmp_path / "events")).init())
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    (text,) = events.Tensors("config/text_summary")
    assert text.tensor_proto.string_val[0] == b"    seed: 7"
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_a_logger_of_ones_own_needs_no_package(tmp_path: Path) -> None:
    class Lines(Logger):
        title = "Lines"

        def open(self, run: Path | None, step: int) -> None:
            self.sent: list[str] = []

        def send(self, values: Mapping[str, float], line: Mapping[str, Any]) -> None:
            self.sent += values

        def close(self, ending: Any) -> None:
            self.sent.append("the end")

    lines = Lines()
    fit(tmp_path, lines)
    assert "train/loss" in lines.sent
    assert lines.sent[-1] == "the end"


def fit(path: Path | None, *callbacks: Callback, epochs: int = 2, interrupter: Any = None) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.01), loss=lambda model, batch: model(batch[0]).square().mean()
    )
    data = torch.utils.data.TensorDataset(torch.rand(16, 3, generator=torch.Generator().manual_seed(1)))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    training = TrainingConfig(epochs=epochs, log_every_steps=1, background_checkpoints=False)
    learner.fit(loader, loader, training, directory=path, callbacks=[*callbacks], interrupter=interrupter)


def log_of(path: Path) -> list[str]:
    return [line.partition(" ")[2] for line in (path / "log.txt").read_text().splitlines()]


def test_a_run_that_ends_as_planned(tmp_path: Path) -> None:
    fit(tmp_path / "run")
    first, *lines, last = log_of(tmp_path / "run")
    assert (first, last) == ("starting at step 0 of 8", "done")
    assert [line.split()[1] for line in lines if line.startswith("step")] == [
        f"{step}/8" for step in (1, 2, 3, 4, 4, 5, 6, 7, 8, 8)
    ]
    assert "checkpoint step-00000008" in lines
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["torch"] == torch.__version__
    assert read_run(tmp_path / "run").state == "done"


class Stop(Callback):
    def __init__(self, interrupter: Interrupter) -> None:
        self.interrupter = interrupter

    def on_step_end(self, learner: Learner[Any]) -> None:
        if learner.step == 3:
            self.interrupter.stop()


def test_a_run_that_is_stopped_and_goes_on(tmp_path: Path) -> None:
    interrupter = Interrupter()
    with pytest.raises(Interrupted):
        fit(tmp_path / "run", Stop(interrupter), interrupter=interrupter)
    assert log_of(tmp_path / "run")[-1] == "stopped: SIGINT"
    assert read_run(tmp_path / "run")[2:4] == ("stopped", "SIGINT")
    environment = (tmp_path / "run" / "environment.json").read_text()
    fit(tmp_path / "run")
    assert "resuming at step 3 of 8" in log_of(tmp_path / "run")
    assert read_run(tmp_path / "run").state == "done"
    assert (tmp_path / "run" / "environment.json").read_text() == environment


class Fail(Callback):
    def on_step_end(self, learner: Learner[Any]) -> None:
        raise TrainingError("the loss\nbecame nan")


def test_a_run_that_fails(tmp_path: Path) -> None:
    with pytest.raises(TrainingError):
        fit(tmp_path / "run", Fail())
    run = read_run(tmp_path / "run")
    assert (run.state, run.reason) == ("failed", "TrainingError: the loss")


def test_without_a_directory_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fit(None)
    assert list(tmp_path.iterdir()) == []


class Leak(Callback):
    def on_step_end(self, learner: Learner[Any]) -> None:
        raise TrainingError("s3cr3t failed")


def test_values_of_environment_variables_stay_out_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "s3cr3t")
    fit(tmp_path / "run", epochs=1)
    (tmp_path / "run" / "config.yaml").write_text("a: ${env:KEY}\n")
    with pytest.raises(TrainingError):
        fit(tmp_path / "run", Leak())
    assert log_of(tmp_path / "run")[-1] == "failed: TrainingError: ${env:KEY} failed"
