"""`burnlike train`: what it prints, where runs go, and that bad input is one clear error."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from burnlike.cli.main import main
from burnlike.record import SafetensorsRecorder
from burnlike.train import PlainRenderer
from tests.processes import HANGS_S
from tests.train.samples import assert_same_run, files_of, write_config

pytestmark = pytest.mark.usefixtures("threads_of_its_own")

RECORD = "checkpoints/step-00000060/model.safetensors"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The small config, in the current directory."""
    monkeypatch.chdir(tmp_path)
    return write_config(tmp_path).name


def train(*arguments: str) -> int:
    return main(["train", *arguments])


def fails(capsys: pytest.CaptureFixture[str], *arguments: str, lines: int | None = 1) -> str:
    """The message of a command that must fail with status 2, no traceback and, by default, one line."""
    capsys.readouterr()
    assert train(*arguments) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    if lines is not None:
        assert captured.err.count("\n") == lines, captured.err
    return captured.err


def test_a_run_says_where_it_lies_its_losses_and_a_sample(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(config) == 0
    out = capsys.readouterr().out
    assert re.search(r"^run +runs/small$", out, re.MULTILINE)
    assert re.search(
        r"^model +runs/small/model.safetensors \(last weights, step \d+, bfloat16, \d\.\d\d MB\)$", out, re.MULTILINE
    )
    losses = {}
    for name in ("training loss", "validation loss", "bigram table"):
        found = re.search(rf"^{name} +(\d\.\d{{4}})( |$)", out, re.MULTILINE)
        assert found, name
        losses[name] = float(found[1])
    gain = losses["bigram table"] - losses["validation loss"]
    found = re.search(r"^(better|worse) by +(\d\.\d{4}) nats per byte$", out, re.MULTILINE)
    assert found
    assert (found[1] == "better") == (gain > 0)
    assert float(found[2]) == pytest.approx(abs(gain), abs=2e-4)
    assert "\ndef " in out.partition("sample, drawn with the written model:")[2]


def test_lines_of_progress_are_plain_where_there_is_no_terminal(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    train(config)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\r" not in out
    assert re.search(
        r"^step  4/60  epoch 1  loss \d\.\d{4}  lr 8.0e-03  [\d,]+ tokens/s  0:0\d elapsed", out, re.MULTILINE
    )
    assert re.findall(r"^step (\d+)/60  epoch (\d)  validation loss", out, re.MULTILINE) == [
        ("20", "1"),
        ("40", "2"),
        ("60", "3"),
    ]


def test_a_terminal_gets_a_live_bar(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    controller, terminal = pty.openpty()
    written = bytearray()

    def read() -> None:
        while select.select([controller], [], [], 10)[0]:
            try:
                piece = os.read(controller, 65536)
            except OSError:
                return
            if not piece or b"\x04" in piece:
                return
            written.extend(piece)

    reader = threading.Thread(target=read)
    reader.start()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "140")
    with open(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        status = train(config)
        monkeypatch.undo()
        stream.write("\x04")
    reader.join(HANGS_S)
    os.close(controller)
    text = written.decode()
    assert status == 0
    assert "━" in text
    assert "60/60" in text
    assert re.search(r"step \d+ of 60  epoch 3  [\d,]+ tokens/s", text)
    assert "\x1b[" in text
    assert re.search(r"epoch 3  validation loss \d\.\d{4}", text)
    assert "validation loss" in text.partition("sample, drawn")[0]


def test_runs_are_numbered_and_the_newest_is_resumed(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(config, "--set", "training.epochs=1") == 0
    assert train(config, "--set", "training.epochs=1") == 0
    before = files_of(Path("runs/small"))
    assert train(config, "--resume", "--set", "training.epochs=3") == 0
    assert "resuming from runs/small-2/checkpoints/step-00000020" in capsys.readouterr().out
    assert files_of(Path("runs/small")) == before
    assert sorted(os.listdir("runs")) == ["small", "small-2"]


@pytest.mark.slow
def test_resume_takes_a_directory_before_or_after_the_file_or_alone(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(config, "--run-dir", "mine", "--set", "training.epochs=1") == 0
    assert train(config, "--run-dir", "whole", "--set", "training.epochs=2") == 0
    for arguments in (
        ("--resume", "mine", config),
        (config, "--resume", "mine"),
        (config, "--run-dir", "mine", "--resume"),
        ("--resume", "mine"),
    ):
        capsys.readouterr()
        assert train(*arguments, "--set", "training.epochs=1") == 0
        assert "resuming from mine/checkpoints/step-00000020" in capsys.readouterr().out
    assert "there is no run of small in runs/" in fails(capsys, "--resume", config)


@pytest.mark.slow
def test_a_run_from_a_path_with_spaces_is_the_same(config: str, tmp_path: Path) -> None:
    assert train(config, "--run-dir", "run") == 0
    place = tmp_path / "my own runs"
    assert train(config, "--run-dir", str(place / "a run")) == 0
    assert_same_run(place / "a run", Path("run"))


def interrupted_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next run get a SIGINT after its step `step`."""

    def advance(self: PlainRenderer, now: int) -> None:
        if now == step:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(PlainRenderer, "advance", advance)


@pytest.mark.parametrize("place", ["run", "my 'own' runs/a $run", "-run", "runs/\x1b[2J\n\\'\u202e\u00e9"])
def test_the_line_after_an_interrupt_resumes_the_run_as_it_was_started(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    Path("my_models.py").write_text(
        "from burnlike.nn import DecoderLmConfig\n\nclass MineConfig(DecoderLmConfig, tag='Mine'):\n    pass\n"
    )
    Path("text with 'quotes'").write_bytes(Path("corpus.txt").read_bytes())
    monkeypatch.syspath_prepend(os.getcwd())
    options = ["--import", "my_models", "--set", "training.epochs=1", "--set", "data.path=text with 'quotes'"]
    options += ["--set", "model.type=Mine", "--set", 'task.prompt="a # \\" b"', "--device", "cpu"]
    assert train(config, *options, "--run-dir=whole") == 0
    with monkeypatch.context() as patch:
        interrupted_at(7, patch)
        assert train(config, *options, f"--run-dir={place}") == 130
    out = capsys.readouterr().out
    line = out.partition("go on with: ")[2].splitlines()[0]
    assert line.isprintable()
    shell = ["bash", "-c", f"burnlike() {{ printf '%s\\0' \"$@\"; }}; {line}"]
    words = subprocess.run(shell, capture_output=True, check=True).stdout.decode().split("\0")[:-1]
    assert words[0] == "train"
    assert train(*words[1:]) == 0
    assert "resuming from" in capsys.readouterr().out
    assert_same_run(Path(place), Path("whole"))


def test_a_resume_with_other_values_needs_them_to_be_said(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(config, "--set", "training.epochs=1", "--set", "output.precision=float32") == 0
    before = files_of(Path("runs/small"))
    message = fails(capsys, config, "--resume")
    assert "training.epochs: 1 -> 3; output.precision: float32 -> bfloat16" in message
    assert "--set training.epochs=VALUE" in message
    assert "training.epochs" not in fails(capsys, config, "--resume", "--set", "training.epochs=2")
    assert files_of(Path("runs/small")) == before
    for said in ("output.precision=bfloat16", "output={}"):
        assert train(config, "--resume", "--set", " training . epochs = 2", "--set", said) == 0
    assert "epochs: 2" in Path("runs/small/config.yaml").read_text()


LAUNCHERS: list[dict[str, str]] = [
    {"WORLD_SIZE": "2", "RANK": "1"},
    {"SLURM_STEP_NUM_TASKS": "4"},
    {"SLURM_PROCID": "1"},
    {"OMPI_COMM_WORLD_SIZE": "2"},
]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_one_of_several_ranks_is_refused(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, launcher: dict[str, str]
) -> None:
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    message = fails(capsys, config)
    assert "this is one of" in message
    assert "--nproc-per-node 1" in message
    assert not Path("runs").exists()
    for name in launcher:
        monkeypatch.setenv(name, "0" if name in ("RANK", "SLURM_PROCID") else "1")
    monkeypatch.setenv("SLURM_NTASKS", "4")  # of the job, whose script runs once
    assert train(config, "--set", "training.epochs=1") == 0


@pytest.mark.parametrize(
    "launcher",
    [
        {"SLURM_NTASKS": "2", "SLURM_PROCID": "1"},
        {"SLURM_NTASKS": "2", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"},
        {"SLURM_NTASKS": "2", "SLURM_PROCID": "0"},
        {"OMPI_COMM_WORLD_SIZE": "2"},
        {"WORLD_SIZE": "2", "RANK": "0"},
        {},
    ],
)
def test_processes_that_can_not_find_each_other_are_refused_before_anything_is_done(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, launcher: dict[str, str]
) -> None:
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    for more in ([], ["--resume", "runs/small"]):
        message = fails(capsys, config, "--set", "distributed.strategy=ddp", *more)
        assert "distributed.strategy: ddp" in message
        assert ("srun --ntasks=2 burnlike train" if "SLURM_NTASKS" in launcher else "burnlike launch CONFIG") in message
        if launcher.get("SLURM_PROCID") == "1":
            assert "(MASTER_ADDR, MASTER_PORT are not known)" in message
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("launcher", "options"),
    [
        ({"WORLD_SIZE": "2", "RANK": "0"}, []),
        ({"WORLD_SIZE": "2", "RANK": "1"}, ["--set", "distributed.strategy=ddp"]),
        ({}, ["--set", "distributed.strategy=fsdp2"]),
    ],
)
def test_a_sweep_of_several_processes_is_refused(
    config: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    launcher: dict[str, str],
    options: list[str],
) -> None:
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    message = fails(capsys, config, "--sweep", "seed=1,2", *options)
    assert "--sweep trains one run after the other in this process" in message
    assert not Path("runs").exists()


def test_options_reach_the_config(config: str) -> None:
    assert train(config, "--set", "training.epochs=1", "--set", "seed=9", "--device", "cpu") == 0
    saved = Path("runs/small/config.yaml").read_text()
    assert "seed: 9" in saved
    assert "epochs: 1" in saved
    assert "device: cpu" in saved


def test_own_classes_come_in_by_import(config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_models.py").write_text(
        "from burnlike.nn import DecoderLmConfig\n\nclass MineConfig(DecoderLmConfig, tag='Mine'):\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert train(config, "--import", "my_models", "--set", "model.type=Mine", "--set", "training.epochs=1") == 0
    assert "type: Mine" in Path("runs/small/config.yaml").read_text()


def test_mistakes_in_the_config_are_all_told_and_nothing_is_written(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(config).read_text().replace("batch_size: 4", "batch_sise: 4").replace("d_model: 16", "d_model: wide")
    Path(config).write_text(text)
    message = fails(capsys, config, lines=None)
    assert re.search(r"small.yaml:\d+:\d+: training.batch_sise: .*batch_size", message)
    assert re.search(r"small.yaml:\d+:\d+: model.d_model: expected an int", message)
    assert not Path("runs").exists()


def test_missing_files_are_named(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.yaml" in fails(capsys, "nowhere.yaml")
    assert "expected the YAML file of a config" in fails(capsys)
    message = fails(capsys, config, "--set", "data.path=nowhere.txt")
    assert "data.path: there is no file or directory" in message
    assert "nowhere.txt" in message
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"x", "the training text has 1 bytes, expected at least 17"),
        (b"x" * 5000, "at least two different characters"),
        (b"\x00\x01" * 5000, "got a zero byte at offset 0"),
        (b"\xff\xfe" * 5000, "expected UTF-8 text"),
    ],
)
def test_an_unusable_corpus_is_refused(
    config: str, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    Path("corpus.txt").write_bytes(content)
    found = fails(capsys, config)
    assert message in found
    assert "corpus.txt" in found
    assert not Path("runs").exists()


def test_a_device_that_is_not_there_is_refused(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no device 'cuda:7'; this machine has" in fails(capsys, config, "--device", "cuda:7")
    assert "device: expected auto, cpu, cuda or cuda:N" in fails(capsys, config, "--device", "mps")
    assert not Path("runs").exists()


def test_a_directory_in_use_is_never_overwritten(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(config, "--run-dir", "run") == 0
    before = files_of(Path("run"))
    assert "run already holds a run; resume it with --resume run" in fails(capsys, config, "--run-dir", "run")
    os.mkdir("full")
    Path("full/letter.txt").write_text("dear")
    assert "full holds other files" in fails(capsys, config, "--run-dir", "full")
    assert "full holds no run" in fails(capsys, config, "--resume", "full")
    assert "there is no run at nowhere" in fails(capsys, config, "--resume", "nowhere")
    assert "there is no run at nowhere" in fails(capsys, "--resume", "nowhere")
    assert "name two runs" in fails(capsys, config, "--resume", "full", "--run-dir", "run")
    assert files_of(Path("run")) == before
    assert os.listdir("full") == ["letter.txt"]


def test_damaged_records_of_a_checkpoint_are_refused(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(config, "--run-dir", "run") == 0
    record = Path("run") / RECORD
    content = record.read_bytes()
    before = files_of(Path("run"))
    for damaged in (content[:100], content[:-1], b"not a record" * 100, b""):
        record.write_bytes(damaged)
        message = fails(capsys, config, "--resume", "run")
        assert "the checkpoint run/checkpoints/step-00000060 can't be used" in message
        assert "model.safetensors" in message
        assert "remove that directory to resume from the checkpoint before it" in message
    record.write_bytes(content)
    assert files_of(Path("run")) == before


def test_a_checkpoint_of_another_model_is_refused(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(config, "--run-dir", "run") == 0
    assert train(config, "--run-dir", "other", "--set", "model.d_ff=32") == 0
    (Path("run") / RECORD).write_bytes((Path("other") / RECORD).read_bytes())
    message = fails(capsys, config, "--resume", "run", lines=None)
    assert "step-00000060 can't be used" in message
    assert "does not fit DecoderLm" in message
    assert "remove" not in message
    assert "put back the data to resume the run, or leave out --resume" in " ".join(message.split())
    message = fails(capsys, config, "--resume", "other")
    assert "was started with another config: model.d_ff: 32 -> 24" in message


@pytest.mark.slow
def test_what_is_removed_is_made_again(config: str) -> None:
    assert train(config, "--run-dir", "whole") == 0
    assert train(config, "--run-dir", "run") == 0
    for path in Path("run/checkpoints/step-00000060").iterdir():
        path.unlink()
    os.rmdir("run/checkpoints/step-00000060")
    assert train(config, "--resume", "run") == 0
    assert_same_run(Path("run"), Path("whole"))


def test_training_that_diverges_is_stopped(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (config, "--set", "lr_scheduler.initial_lr=1", "--set", "optimizer.weight_decay=3")
    message = fails(capsys, *arguments, "--set", "optimizer.epsilon=1e-30", "--set", "training.epochs=50")
    assert re.search(r"(the loss became|is not finite any more)", message)
    assert "lower learning rate" in message


def test_a_second_process_is_kept_away(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    from burnlike.train import RunDir

    assert train(config, "--run-dir", "run", "--set", "training.epochs=1") == 0
    run = RunDir.open(Path("run"))
    message = fails(capsys, config, "--resume", "run", "--set", "training.epochs=1")
    assert f"another process (id {os.getpid()}) is working on run" in message
    run.close()


def test_the_written_record_is_of_the_precision_asked_for(config: str) -> None:
    assert train(config, "--set", "output.precision=float16", "--set", "task.sample_length=0") == 0
    record = SafetensorsRecorder().load("runs/small/model.safetensors")
    assert {tensor.dtype for tensor in dict(record.tensors).values()} == {torch.float16}


@pytest.mark.parametrize(
    ("before", "after"), [({}, "2000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)]
)
def test_waiting_threads_spin_shortly_unless_the_user_says_otherwise(
    config: str, monkeypatch: pytest.MonkeyPatch, before: dict[str, str], after: str | None
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    assert train("nowhere.yaml") == 2
    assert os.environ.get("GOMP_SPINCOUNT") == after


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        train("--help")
    assert caught.value.code == 0
    out = capsys.readouterr().out
    for option in ("CONFIG", "--resume", "--run-dir", "--device", "--set", "--import"):
        assert option in out
