"""Job: whole runs, and how they are taken up again."""

import io
from pathlib import Path

import pytest
import safetensors.torch
import torch

from burnlike.errors import CheckpointError, DataError, DeviceError
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
)
from burnlike.train.parallel.configs import MeshSizes

from .samples import STEPS, TEXT, assert_same_run, files_of, load_config, metrics_of

pytestmark = pytest.mark.usefixtures("threads_of_its_own")


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


def test_the_same_seed_gives_the_same_run_and_another_one_another(
    whole: tuple[Path, RunResult], tmp_path: Path
) -> None:
    torch.manual_seed(1234)
    run_job(config_beside(whole), tmp_path / "same")
    assert_same_run(tmp_path / "same", whole[0])
    run_job(config_beside(whole, "seed=4"), tmp_path / "other")
    assert metrics_of(tmp_path / "other") != metrics_of(whole[0])


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


def test_a_finished_run_taken_up_again_trains_nothing_and_ends_the_same(
    whole: tuple[Path, RunResult], tmp_path: Path
) -> None:
    run_job(config_beside(whole), tmp_path / "run")
    before = files_of(tmp_path / "run")
    again = run_job(config_beside(whole), tmp_path / "run")
    assert files_of(tmp_path / "run") == before
    assert again.valid_loss == whole[1].valid_loss
    assert again.learning.steps == STEPS


def test_more_epochs_go_on_from_the_last(whole: tuple[Path, RunResult], tmp_path: Path) -> None:
    run_job(config_beside(whole), tmp_path / "run")
    stream = io.StringIO()
    result = run_job(config_beside(whole, "training.epochs=4"), tmp_path / "run", stream=stream)
    assert result.learning.steps == 80
    assert "changed since the run began: training.epochs: 3 -> 4" in stream.getvalue()
    assert metrics_of(tmp_path / "run")[: len(metrics_of(whole[0]))] == metrics_of(whole[0])
    assert TrainConfig.load(tmp_path / "run" / "config.yaml").training.epochs == 4


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


def test_a_device_that_is_not_there_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="there is no device 'cuda:7'"):
        Job(load_config(tmp_path, "device=cuda:7"))


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


def test_a_token_that_the_model_does_not_know_is_said_with_its_place(tmp_path: Path) -> None:
    tokens = torch.arange(300, dtype=torch.uint8) % 40
    tokens[100] = 50
    tokens.numpy().tofile(tmp_path / "tokens.bin")
    message = r"tokens.bin: expected tokens in 0..49 \(model.vocab_size\), got 50 as token 100 of the file"
    with pytest.raises(DataError, match=message):
        run_job(TrainConfig.from_yaml(TOKENS % (tmp_path / "tokens.bin")), tmp_path / "run")


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
