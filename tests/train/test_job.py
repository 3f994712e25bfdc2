"""Job: whole runs on any device and in other folders, how they are taken up again, and configs that are refused."""

import io
import json
import resource
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from burnlike.cli.main import main
from burnlike.config import ModuleConfig
from burnlike.config.shipped import shipped_jobs
from burnlike.errors import BurnlikeError, CheckpointError, ConfigError, ConfigIOError, DataError, DeviceError
from burnlike.models import DecoderLmConfig, save_pretrained
from burnlike.record import Record, SafetensorsRecorder
from burnlike.train import (
    Checkpointer,
    Interrupted,
    Interrupter,
    Job,
    PlainRenderer,
    RunDir,
    RunResult,
    SingleProcess,
    TrainConfig,
    load_run,
)
from burnlike.train.job.device import check_fits, choose_device, describe_device, is_out_of_memory
from burnlike.train.parallel.configs import MeshSizes
from tests.processes import HANGS_S

from .samples import STEPS, TEXT, assert_same_run, files_of, load_config, metrics_of, write_config


def run_job(
    config: TrainConfig, path: Path, stop_at: int | None = None, stream: io.StringIO | None = None
) -> RunResult:
    """Run in a new directory or take up the run that is there; stop after a step if one is given."""

    class Stopping(PlainRenderer):
        def advance(self, step: int) -> None:
            if step == stop_at:
                interrupter.stop()

    interrupter = Interrupter()
    run = RunDir.open(path) if path.exists() else RunDir.create(path)
    try:
        return Job(config).run(run, Stopping(stream or io.StringIO()), interrupter)
    finally:
        run.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunResult]:
    """A run that nobody disturbed."""
    place = tmp_path_factory.mktemp("whole")
    return place / "run", run_job(load_config(place), place / "run")


def config_beside(whole: tuple[Path, RunResult], *overrides: str) -> TrainConfig:
    return load_config(whole[0].parent, *overrides)


@pytest.mark.usefixtures("threads_of_its_own")
def test_a_run_leaves_config_metrics_checkpoints_and_the_record(whole: tuple[Path, RunResult]) -> None:
    run, result = whole
    assert TrainConfig.load(run / "config.yaml") == config_beside(whole)
    names = {name for name in files_of(run) if not name.startswith("checkpoints/")}
    assert names == {"config.yaml", "data.json", "model.safetensors", "results.json"}
    checkpoints = Checkpointer(run / "checkpoints", keep=2).all()
    assert [checkpoint.step for checkpoint in checkpoints] == [57, 60]
    assert result.learning.checkpoint == checkpoints[-1]
    lines = metrics_of(run)
    assert [line["step"] for line in lines if line["split"] == "train"] == list(range(4, STEPS + 1, 4))
    assert [(line["step"], line["epoch"]) for line in lines if line["split"] == "valid"] == [(20, 0), (40, 1), (60, 2)]
    assert lines[-2]["loss"] < lines[0]["loss"]
    assert result.said["sample"].startswith("def ")
    assert len(result.said["sample"].encode()) >= len(b"def ") + 8
    assert result.said["bigram"].loss > 0


@pytest.mark.usefixtures("threads_of_its_own")
def test_the_record_is_the_float32_weights_rounded_to_bfloat16(whole: tuple[Path, RunResult]) -> None:
    run, result = whole
    assert result.learning.checkpoint is not None
    full = safetensors.torch.load_file(result.learning.checkpoint.path / "model.safetensors")
    written = safetensors.torch.load_file(run / "model.safetensors")
    assert list(full) == list(written)
    for name, tensor in full.items():
        assert tensor.dtype == torch.float32
        assert written[name].dtype == torch.bfloat16
        assert torch.equal(written[name], tensor.to(torch.bfloat16))


@pytest.mark.usefixtures("threads_of_its_own")
def test_the_same_seed_gives_the_same_run_and_another_one_another(
    whole: tuple[Path, RunResult], tmp_path: Path
) -> None:
    torch.manual_seed(1234)
    run_job(config_beside(whole), tmp_path / "same")
    assert_same_run(tmp_path / "same", whole[0])
    run_job(config_beside(whole, "seed=4"), tmp_path / "other")
    assert metrics_of(tmp_path / "other") != metrics_of(whole[0])


@pytest.mark.usefixtures("threads_of_its_own")
@pytest.mark.parametrize("stops", [(1,), (20,), (7, 8, 40, 59)])
def test_stopped_and_resumed_ends_in_the_same_bits(
    whole: tuple[Path, RunResult], tmp_path: Path, stops: tuple[int, ...]
) -> None:
    config = config_beside(whole, "training.keep_checkpoints=1")
    for stop in stops:
        with pytest.raises(Interrupted):
            run_job(config, tmp_path / "run", stop_at=stop)
        latest = Checkpointer(tmp_path / "run" / "checkpoints", keep=1).latest()
        assert latest is not None
        assert latest.step == stop
    result = run_job(config, tmp_path / "run")
    assert metrics_of(tmp_path / "run") == metrics_of(whole[0])
    last = "checkpoints/step-00000060"
    for name in (
        *(f"{last}/{record}.safetensors" for record in ("model", "optimizer", "training")),
        "model.safetensors",
    ):
        assert (tmp_path / "run" / name).read_bytes() == (whole[0] / name).read_bytes()
    assert result.valid_loss == whole[1].valid_loss
    assert result.said == whole[1].said


@pytest.mark.usefixtures("threads_of_its_own")
def test_a_schedule_free_run_keeps_its_average_and_resumes_in_the_same_bits(tmp_path: Path) -> None:
    config = load_config(
        tmp_path, "optimizer={type: ScheduleFreeAdamW, warmup_steps: 5}", "lr_scheduler={type: ConstantLr, lr: 1e-2}"
    )
    result = run_job(config, tmp_path / "whole")
    with pytest.raises(Interrupted):
        run_job(config, tmp_path / "stopped", stop_at=31)
    run_job(config, tmp_path / "stopped")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")

    assert result.learning.checkpoint is not None
    full = result.learning.checkpoint.load("model").tensors
    optimizer = result.learning.checkpoint.load("optimizer").tensors
    written = safetensors.torch.load_file(tmp_path / "whole" / "model.safetensors")
    y, z = ([it for name, it in optimizer.items() if name.endswith(end)] for end in (".training_weights", ".z"))
    for (name, tensor), trained, point in zip(full.items(), y, z, strict=True):
        torch.testing.assert_close(tensor, (trained - 0.1 * point) / 0.9, rtol=1e-5, atol=1e-6)
        assert torch.equal(written[name], tensor.to(torch.bfloat16))


@pytest.mark.usefixtures("threads_of_its_own")
def test_a_finished_run_taken_up_again_trains_nothing_and_ends_the_same(
    whole: tuple[Path, RunResult], tmp_path: Path
) -> None:
    run_job(config_beside(whole), tmp_path / "run")
    before = files_of(tmp_path / "run")
    again = run_job(config_beside(whole), tmp_path / "run")
    assert files_of(tmp_path / "run") == before
    assert again.valid_loss == whole[1].valid_loss
    assert again.learning.steps == STEPS


@pytest.mark.usefixtures("threads_of_its_own")
def test_more_epochs_go_on_from_the_last(whole: tuple[Path, RunResult], tmp_path: Path) -> None:
    run_job(config_beside(whole), tmp_path / "run")
    stream = io.StringIO()
    result = run_job(config_beside(whole, "training.epochs=4"), tmp_path / "run", stream=stream)
    assert result.learning.steps == 80
    assert "changed since the run began: training.epochs: 3 -> 4" in stream.getvalue()
    before = files_of(tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"80 steps, more than the 40 of training\.epochs 2"):
        run_job(config_beside(whole, "training.epochs=2"), tmp_path / "run")
    assert files_of(tmp_path / "run") == before
    assert metrics_of(tmp_path / "run")[: len(metrics_of(whole[0]))] == metrics_of(whole[0])
    assert TrainConfig.load(tmp_path / "run" / "config.yaml").training.epochs == 4


@pytest.mark.usefixtures("threads_of_its_own")
@pytest.mark.parametrize(
    ("override", "change"),
    [
        ("model.d_ff=32", r"model.d_ff: 24 -> 32"),
        ("optimizer.weight_decay=0.2", r"optimizer.weight_decay: 0.1 -> 0.2"),
        ("training.batch_size=5", r"training.batch_size: 4 -> 5"),
        ("data.context_length=8", r"data.context_length: 16 -> 8"),
        ("seed=9", r"seed: 3 -> 9"),
    ],
)
def test_a_change_of_what_was_trained_is_refused(
    whole: tuple[Path, RunResult], tmp_path: Path, override: str, change: str
) -> None:
    with pytest.raises(Interrupted):
        run_job(config_beside(whole), tmp_path / "run", stop_at=5)
    before = files_of(tmp_path / "run")
    with pytest.raises(CheckpointError, match=f"was started with another config: {change}"):
        run_job(config_beside(whole, override), tmp_path / "run")
    assert files_of(tmp_path / "run") == before


@pytest.mark.usefixtures("threads_of_its_own")
def test_moved_text_is_the_same_data_and_changed_text_is_not(whole: tuple[Path, RunResult], tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        run_job(config_beside(whole), tmp_path / "run", stop_at=5)
    moved, changed = tmp_path / "moved.txt", tmp_path / "changed.txt"
    moved.write_text(TEXT)
    changed.write_text(TEXT.replace("return", "yields"))
    with pytest.raises(CheckpointError, match=r"the data of the run .* has changed since its checkpoint step-00000005"):
        run_job(config_beside(whole, f"data.path={changed}"), tmp_path / "run")
    run_job(config_beside(whole, f"data.path={moved}"), tmp_path / "run")
    assert metrics_of(tmp_path / "run") == metrics_of(whole[0])


@pytest.mark.usefixtures("threads_of_its_own")
def test_a_run_without_checkpoint_starts_from_the_beginning_and_says_so(
    whole: tuple[Path, RunResult], tmp_path: Path
) -> None:
    with pytest.raises(Interrupted):
        run_job(config_beside(whole), tmp_path / "run", stop_at=2)
    for path in sorted((tmp_path / "run" / "checkpoints").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 2, "loss": 1.0}\n{"ste')
    stream = io.StringIO()
    run_job(config_beside(whole), tmp_path / "run", stream=stream)
    assert "has no checkpoint yet: starting from the beginning" in stream.getvalue()
    assert_same_run(tmp_path / "run", whole[0])


@pytest.mark.usefixtures("threads_of_its_own")
def test_damaged_and_foreign_checkpoints_are_refused_with_the_remedy(
    whole: tuple[Path, RunResult], tmp_path: Path
) -> None:
    with pytest.raises(Interrupted):
        run_job(config_beside(whole), tmp_path / "run", stop_at=5)
    last = tmp_path / "run" / "checkpoints" / "step-00000005"
    files = {path: path.read_bytes() for path in last.iterdir()}
    for path, content in files.items():
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(
            CheckpointError, match=rf"step-00000005 can't be used: .*{path.name}.*remove that directory"
        ):
            run_job(config_beside(whole), tmp_path / "run")
        path.write_bytes(content)
    other = config_beside(whole, "model.d_ff=32").model.init("cpu")
    SafetensorsRecorder().save(Record.from_module(other), last / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"(?s)step-00000005 can't be used: .*model.safetensors.*does not fit"):
        run_job(config_beside(whole), tmp_path / "run")
    (last / "model.safetensors").write_bytes(files[last / "model.safetensors"])
    SafetensorsRecorder().save(Record(values={"states": {}, "paths": {"0000000000000": "x"}}), last / "optimizer")
    with pytest.raises(CheckpointError, match=r"optimizer.safetensors belongs to another model"):
        run_job(config_beside(whole), tmp_path / "run")
    (last / "optimizer.safetensors").write_bytes(files[last / "optimizer.safetensors"])
    (last / "training.safetensors").write_bytes(files[last / "model.safetensors"])
    with pytest.raises(CheckpointError, match=r"training.safetensors is no record of a training"):
        run_job(config_beside(whole), tmp_path / "run")
    (last / "training.safetensors").write_bytes(files[last / "training.safetensors"])
    run_job(config_beside(whole), tmp_path / "run")
    assert metrics_of(tmp_path / "run") == metrics_of(whole[0])


@pytest.mark.usefixtures("threads_of_its_own")
def test_a_device_that_is_not_there_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="there is no device 'cuda:7'"):
        Job(load_config(tmp_path, "device=cuda:7"))


@pytest.mark.usefixtures("threads_of_its_own")
@pytest.mark.cuda
def test_cuda_is_used_by_itself_and_its_random_state_is_resumed(tmp_path: Path) -> None:
    config = load_config(tmp_path, "device=auto")
    result = run_job(config, tmp_path / "whole")
    with pytest.raises(Interrupted):
        run_job(config, tmp_path / "run", stop_at=30)
    again = run_job(config, tmp_path / "run")
    assert Job(config).device.type == "cuda"
    assert again.valid_loss == pytest.approx(result.valid_loss, abs=0.02)


TOKENS = """
data: {type: Tokens, path: %s, dtype: uint8, context_length: 8}
model: {type: DecoderLm, vocab_size: 50, d_model: 8, n_layers: 1, n_heads: 1, d_ff: 8, max_sequence_length: 8}
task: {type: LanguageModel}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-3}
training: {batch_size: 4, checkpoint_every_epochs: null}
"""


@pytest.mark.usefixtures("threads_of_its_own")
def test_a_token_that_the_model_does_not_know_is_said_with_its_place(tmp_path: Path) -> None:
    tokens = torch.arange(300, dtype=torch.uint8) % 40
    tokens[100] = 50
    tokens.numpy().tofile(tmp_path / "tokens.bin")
    message = r"tokens.bin: expected tokens in 0..49 \(model.vocab_size\), got 50 as token 100 of the file"
    with pytest.raises(DataError, match=message):
        run_job(TrainConfig.from_yaml(TOKENS % (tmp_path / "tokens.bin")), tmp_path / "run")


@pytest.mark.usefixtures("threads_of_its_own")
@pytest.mark.parametrize(("processes", "batch_size"), [(1, 8), (1, 3), (2, 8), (2, 3), (3, 8), (4, 1)])
def test_a_global_batch_size_measures_the_same_items_with_any_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int, batch_size: int
) -> None:
    config = load_config(tmp_path, "training.global_batch_size=12", f"training.batch_size={batch_size}")

    class OneOfSeveral(SingleProcess):
        sizes = MeshSizes(replicate=processes)  # pyright: ignore[reportAssignmentType]

    seen: list[int] = []
    for rank in range(processes):
        OneOfSeveral.data_rank = rank
        monkeypatch.setattr("burnlike.train.job.job.make_parallel", lambda *_: OneOfSeveral())
        loader = Job(config).valid_loader
        seen += [it for step in range(len(loader)) for it in loader.indices(0, step)]
    monkeypatch.undo()
    loader = Job(config.replace(training=config.training.replace(batch_size=12))).valid_loader
    assert sorted(seen) == sorted(it for step in range(len(loader)) for it in loader.indices(0, step))
    assert len(seen) == 12 * (config.training.validation_steps or 0)


CONFIGS = [*shipped_jobs().values()]


SMALL = """\
data: {type: Csv, path: t.csv, target: y, kind: numbers, validation_fraction: 0.2}
model: {type: Mlp, hidden: [4]}
task: {type: Regression}
optimizer: {type: AdamW}
training: {epochs: 2, batch_size: 8}
"""


def test_a_batch_size_above_the_items_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("x,y\n" + "".join(f"{it},{it * 2}\n" for it in range(10)))
    Path("small.yaml").write_text(SMALL)
    assert main(["train", "small.yaml"]) == 0
    assert "one batch" not in capsys.readouterr().out
    assert main(["train", "small.yaml", "--set", "training.batch_size=1000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("          each epoch has one batch of 8 items, as training.batch_size is 1,000")
    assert lines[place - 1] == "data      8 items to train on, 2 to validate on"
    assert "training  2 steps of 1000 items in 2 epochs" in lines[place:]
    assert main(["train", "small.yaml", "--set", "training.steps_per_epoch=1", "--set", "training.batch_size=9"]) == 0
    assert "one batch" not in capsys.readouterr().out
    for command in ("check", "train"):
        assert main([command, "small.yaml", "--set", "training={epochs: 1, batch_size: 9, drop_last: true}"]) != 0
        said = "".join(capsys.readouterr())
        assert "drop_last leaves no" in said.replace(": leaves", " leaves")
        assert "lower training.batch_size, or leave out drop_last" in said


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_configs_load_and_round_trip(path: Path) -> None:
    config = TrainConfig.load(path)
    assert TrainConfig.from_yaml(config.to_yaml()) == config


def test_the_shipped_model_has_one_to_three_million_parameters() -> None:
    config = TrainConfig.load(CONFIGS[0].with_name("char_gpt.yaml"))
    assert 1_000_000 <= config.model.init("meta").num_params() <= 3_000_000


def test_reading_a_config_loads_no_torch() -> None:
    code = (
        "import sys; from burnlike.train import TrainConfig\n"
        "for path in sys.argv[1:]: TrainConfig.load(path)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, *map(str, CONFIGS)], check=True, timeout=HANGS_S)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("device=mps", "device: expected auto, cpu, cuda or cuda:N, such as cuda:0; got 'mps'"),
        ("device=cuda:x", "device: expected auto"),
        ("model.vocab_size=100", "model.vocab_size: expected 256, the vocabulary of the data, got 100"),
        ("model.max_sequence_length=8", "model.max_sequence_length: expected at least 16, data.context_length, got 8"),
        ("lr_scheduler.warmup_steps=60", "lr_scheduler.warmup_steps: expected less than the 60 steps of the run"),
        ("training.batch_size=0", "training.batch_size: expected an int >= 1, got 0"),
        ("output.precision=int8", "output.precision: expected"),
        ("seed=-1", "seed: expected an int"),
        ("optimizer={type: Lbfgs}", "optimizer: expected an optimizer that takes one gradient a step, got Lbfgs"),
    ],
)
def test_rules_are_told_with_their_place(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path, override)
    assert message in str(caught.value)


def test_a_rule_across_parts_has_the_line_of_the_field(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    path.write_text(path.read_text().replace("vocab_size: 256", "vocab_size: 255"))
    with pytest.raises(ConfigError, match=rf"{path}:5:\d+: model.vocab_size: expected 256"):
        TrainConfig.load(path)


def test_a_schedule_with_its_own_length_may_be_longer_than_the_run(tmp_path: Path) -> None:
    config = load_config(tmp_path, "lr_scheduler.warmup_steps=60", "lr_scheduler.num_iters=100")
    assert config.lr_scheduler.init(num_iters=60).step() > 0


def test_auto_is_cuda_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("cuda", 0)
    assert choose_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")


def test_a_cuda_device_that_is_not_there_names_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda") == torch.device("cuda", 0)
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(DeviceError, match=r"there is no device 'cuda:7'; this machine has cpu, cuda:0, cuda:1"):
        choose_device("cuda:7")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_cuda_the_reason_is_given() -> None:
    with pytest.raises(DeviceError, match="there is no device 'cuda'; this machine has only cpu"):
        choose_device("cuda")


def test_description_counts_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    assert describe_device(torch.device("cpu")) == "cpu (1 thread)"
    torch.set_num_threads(before)


CPU = torch.device("cpu")
LARGE = {
    "d_model=1073741824": "take .* GB of cpu, where 8.0 GB are available; lower the model's sizes. Nothing was alloc",
    "d_ff=2147483647": "take .* GB of cpu",
    "vocab_size=2147483647": "expected 256",
    "max_sequence_length=2147483647": "take .* GB of cpu",
}


@pytest.mark.parametrize("override", LARGE)
def test_a_model_that_does_not_fit_is_refused_before_it_is_made(tmp_path, monkeypatch, override: str) -> None:
    monkeypatch.setattr("burnlike.train.job.device.available_memory", lambda: 8_000_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BurnlikeError, match=LARGE[override]):
        Job(load_config(tmp_path, f"model.{override}"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


class Wide(ModuleConfig):
    def init(self, device=None) -> nn.Module:
        return nn.ParameterList([torch.empty(2**31 - 1, 2**31 - 1, 64, device=device)])


class NeedsValues(ModuleConfig):
    def init(self, device=None) -> nn.Module:
        return nn.Linear(int(torch.ones(1, device=device).item()), 1)


def test_tensors_beyond_64_bits_are_a_mistake_of_the_config() -> None:
    with pytest.raises(ConfigError, match="Wide: larger than any memory"):
        check_fits(Wide(), CPU)


def test_a_model_that_can_not_be_built_without_values_is_left_to_be_built() -> None:
    check_fits(NeedsValues(), CPU)


def test_full_memory_is_told_from_other_errors() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**45)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("shapes"))


def test_a_batch_that_does_not_fit_is_one_message(tmp_path) -> None:
    from burnlike.train import RunDir

    job = Job(load_config(tmp_path, "training.steps_per_epoch=1", "lr_scheduler.warmup_steps=0"))

    def loss(model, batch):
        torch.empty(2**45)

    job.task.train_step = loss
    run = RunDir.create(tmp_path / "run")
    with pytest.raises(DeviceError, match=r"the memory of cpu is full: lower training.batch_size"):
        job.run(run)
    run.close()


YAML = """
data: {type: Tokens, path: data/tokens.bin, context_length: 8}
model: {type: LoRA, of: {type: Pretrained, path: base, library: burnlike}, rank: 2, targets: [query]}
task: {type: LanguageModel, sample_length: 0}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 0.03}
training: {epochs: 1, steps_per_epoch: 2, batch_size: 4, validation_steps: 1, checkpoint_every_steps: 1}
device: cpu
threads: 1
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, data and a run."""
    folder = tmp_path / "project"
    torch.manual_seed(0)
    base = DecoderLmConfig(vocab_size=32, max_sequence_length=16, d_model=16, n_layers=1, n_heads=2, d_ff=32)
    save_pretrained(base.init("cpu"), folder / "base", config=base)
    (folder / "data").mkdir()
    torch.randint(0, 32, (900,), dtype=torch.int32).to(torch.uint16).numpy().tofile(folder / "data/tokens.bin")
    monkeypatch.chdir(folder)
    with closing(RunDir.create("runs/a")) as run:
        Job(TrainConfig.from_yaml(YAML, "f.yaml")).run(run, PlainRenderer(io.StringIO()))
    return folder


def logits(run: Path, **options: Any) -> torch.Tensor:
    with torch.no_grad():
        return load_run(run, **options).model(torch.arange(8)[None])


def test_a_run_is_used_from_another_folder(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = logits(Path("runs/a"))
    assert load_run("runs/a").config.data.path == "data/tokens.bin"  # pyright: ignore[reportAttributeAccessIssue]
    named = json.loads(Path("runs/a/adapter/adapter_config.json").read_text())["base_model_name_or_path"]
    assert named == str(project / "base")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert torch.equal(logits(project / "runs/a"), expected)
    assert torch.equal(logits(Path("../project/runs/a"), step=2), expected)
    for command in ("evaluate", "merge"):
        out = ["--out", "merged"] if command == "merge" else []
        assert main([command, str(project / "runs/a"), *out]) == 0, capsys.readouterr()
    Path("mine.bin").write_bytes((project / "data/tokens.bin").read_bytes())
    assert main(["evaluate", str(project / "runs/a"), "--set", "data.path=mine.bin"]) == 0
    assert main(["evaluate", str(project / "runs/a"), "--set", "data.path=gone.bin"]) == 2
    assert "gone.bin" in capsys.readouterr().err


def test_a_run_that_moved_with_its_data_finds_them(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = logits(Path("runs/a"))
    monkeypatch.chdir(tmp_path)
    project.rename(tmp_path / "moved")
    assert torch.equal(logits(tmp_path / "moved/runs/a"), expected)
    assert main(["merge", str(tmp_path / "moved/runs/a/adapter"), "--out", "merged"]) == 2  # of a model of burnlike
    assert str(tmp_path / "moved/base") in capsys.readouterr().err
    (tmp_path / "moved/runs/a").rename(tmp_path / "alone")
    with pytest.raises(ConfigIOError, match="/project/base: expected a directory") as error:
        load_run(tmp_path / "alone")
    assert "huggingface" not in str(error.value)
    shutil.copytree(tmp_path / "moved/base", "base")  # in the folder that the program runs in
    assert torch.equal(logits(tmp_path / "alone"), expected)


def test_a_run_is_resumed_from_another_folder(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = project / "runs/a"
    assert main(["train", "--resume", str(run), "--set", "training.epochs=2"]) == 0
    assert load_run(run).step == 4
    monkeypatch.chdir(project)
    assert load_run(run).step == 4
    assert main(["train", "--resume", "runs/a", "--set", "training.epochs=3"]) == 0
    assert load_run("runs/a").step == 6
