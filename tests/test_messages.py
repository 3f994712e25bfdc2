"""Messages for what newcomers write, each with its remedy."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike import interop, optim
from burnlike.cli.main import main
from burnlike.train.job.configs import TrainConfig
from burnlike.train.metrics.configs import AccuracyConfig, AurocConfig

JOB = """
data: {type: Csv, path: points.csv, target: side, validation_fraction: 0.25}
model: {type: Mlp, sizes: [2, 4, 2]}
task: {type: Classification}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {epochs: 1, batch_size: 8}
"""
NET = "type: Mlp\nsizes: [2, 4, 2]\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "points.csv").write_text("x,y,side\n" + "".join(f"{it},{-it},{'ab'[it % 2]}\n" for it in range(40)))
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "net.yaml").write_text(NET)
    (tmp_path / "no_model.yaml").write_text(JOB.replace("model: {type: Mlp, sizes: [2, 4, 2]}", ""))
    return tmp_path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("trian job.yaml", "there is no command 'trian'; did you mean 'train'?"),
        ("hello", "there is no command 'hello'; `burnlike --help` lists all"),
        ("train job.yaml --epochs 3", "train: unknown argument --epochs; did you mean `--set training.epochs=3`?"),
        ("train job.yaml --batch-size=8", "did you mean `--set training.batch_size=8`?"),
        ("train job.yaml --lr 3", "did you mean `--set lr_scheduler.initial_lr=3`, .* `lr_scheduler.lr`, or"),
        ("train job.yaml --lr 3", "of a job without lr_scheduler `--set 'lr_scheduler={type: ConstantLr, lr: 3}'`"),
        ("train job.yaml --seed 3", "did you mean `--set seed=3`?"),
        ("train job.yaml --sweeep seed=1", "unknown argument --sweeep; did you mean '--sweep'?"),
        ("runs --zzz", "runs: unknown argument --zzz; `burnlike runs --help` lists the options"),
        ("train net.yaml", "net.yaml has `type:` at its root: .*`model: {from: net.yaml}`"),
        ("train no_model.yaml", r"missing key 'model'; write `model: {type: Mlp, .*, or `model: {from: net.yaml}`"),
        (
            "evaluate job.yaml",
            "job.yaml is a config, and a run is expected: `burnlike train job.yaml` makes one, runs/job",
        ),
        ("train job.yaml --set metrics=Accuracy", r"metrics: expected a list .*; write \[Accuracy\]"),
        ("train job.yaml --set metrics=[Acuracy]", r"metrics.0: expected a mapping with `type:`.*'Acuracy'"),
    ],
)
def test_a_command_line(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    error = capsys.readouterr().err
    assert re.search(message, error), error


def test_names_of_types_in_a_list_are_enough() -> None:
    config = TrainConfig.load("job.yaml", ["metrics=[Accuracy, {type: Auroc}]"])
    assert config.metrics == (AccuracyConfig(), AurocConfig())


def model() -> Any:
    return torch.nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: interop.TorchOptimizer(model().parameters()),
            r"expected the module, .* got a generator: write TorchO",
        ),  # pyright: ignore[reportCallIssue]
        (lambda: interop.TorchOptimizer(list(model().parameters()), optim.AdamWConfig(), 1e-3), "got a list: write"),  # pyright: ignore[reportArgumentType]
        (
            lambda: interop.fuse(model().parameters()),
            r"fuse: expected a torch.nn.Module, got a generator: write fuse\(",
        ),
        (
            lambda: optim.AdamWConfig(lr=1e-3),
            r"AdamWConfig: unknown field 'lr'; the rate belongs to a step: TorchOptim",
        ),  # pyright: ignore[reportCallIssue]
        (lambda: optim.SgdConfig(momentun=None), "SgdConfig: unknown field 'momentun'; did you mean 'momentum'?"),  # pyright: ignore[reportCallIssue]
        (lambda: optim.AdamWConfig(betas=(0.9, 0.99)), "unknown field 'betas'; they are beta_1 and beta_2"),  # pyright: ignore[reportCallIssue]
    ],
)
def test_a_call(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize(
    ("package", "code", "extra"),
    [
        ("torchmetrics", "import burnlike.train.metrics as metrics; metrics.Accuracy", "train"),
        ("torchmetrics", "from burnlike.train.metrics import AccuracyConfig; AccuracyConfig().init()", "train"),
        (
            "PIL",
            "from burnlike.data import ImageFolderConfig; ImageFolderConfig(path='photos').init().train[0]",
            "images",
        ),
    ],
)
def test_a_missing_package_names_its_extra(package: str, code: str, extra: str) -> None:
    for name in ("a", "b"):
        Path("photos", name).mkdir(parents=True)
        Path("photos", name, "1.png").write_bytes(b"")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    text = f"import sys; sys.modules['{package}'] = None; {code}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, check=False, env=environment)
    assert f"pip install 'burnlike[{extra}]'" in done.stderr.decode().splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_hangup_says_what_an_interrupt_says(number: int, folder: Path) -> None:
    command = [sys.executable, "-m", "burnlike", "train", "job.yaml", "--set", "training.epochs=100000"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    ) as process:
        metrics = folder / "runs" / "job" / "metrics.jsonl"
        end = time.monotonic() + 60
        while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < end:
            time.sleep(0.1)
        process.send_signal(number)
        output = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 128 + number
    assert f"stopped by {signal.Signals(number).name}; go on with: burnlike train --resume runs/job" in output


def test_the_report_of_a_machine_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 10
    assert all(len(line) < 200 for line in lines)
    main(["doctor", "--ops"])
    assert "rms_norm_backward" in capsys.readouterr().out
