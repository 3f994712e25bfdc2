"""The copy of a run's checkpoints in another place or on a server that speaks S3: whole or not at all."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import fsspec
import pytest
import s3fs
import torch

from burnlike.cli.main import main
from burnlike.config.shipped import config_file
from burnlike.errors import CheckpointError, ConfigError, RunDirError
from burnlike.record import Record
from burnlike.train import Checkpointer, TrainConfig, load_run
from burnlike.train.checkpoint.mirror import Mirror, fetch_run

from ..samples import files_of, metrics_of, write_config
from .s3_server import S3Server, s3_server

PLACE = "memory://bucket/runs"


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """The directory of a run, and an empty mirror in memory."""
    files = fsspec.filesystem("memory")
    if files.exists("/bucket"):
        files.rm("/bucket", recursive=True)
    directory = tmp_path / "big"
    directory.mkdir()
    (directory / "config.yaml").write_text("seed: 1\n")
    return directory


def records(value: float) -> dict[str, Record]:
    return {"model": Record({"weight": torch.full((5,), value)}), "training": Record({}, {"step": value})}


def checkpointer(run: Path, mirror: Mirror | None = None) -> Checkpointer:
    made = Checkpointer(run / "checkpoints", keep=2)
    made.mirror = mirror or claimed(run)
    return made


def claimed(run: Path, place: str = PLACE, *, is_new: bool = False) -> Mirror:
    mirror = Mirror(place, run)
    mirror.claim(is_new=is_new, has_checkpoints=(run / "checkpoints").exists())
    return mirror


def finished(run: Path, weights: bytes) -> None:
    """The mirror has the result of a run with these weights."""
    (run / "model.safetensors").write_bytes(weights)
    saving = checkpointer(run)
    assert saving.mirror_result() == []


def names(suffix: str = "") -> set[str]:
    found = fsspec.filesystem("memory").ls("/bucket/runs/big", detail=False)
    return {str(it).rpartition("/")[2] for it in found if str(it).endswith(suffix)}


def test_whole_checkpoints_are_copied_and_pruned(run: Path) -> None:
    saving = checkpointer(run)
    for step in (1, 2, 3):
        saving.save(step, records(step), background=True)
    saving.wait()
    assert saving.notes(wait=True) == []
    assert names() == {"mirror.json", "step-00000002", "step-00000002.json", "step-00000003", "step-00000003.json"}


def test_a_run_that_has_nothing_goes_on_from_it(run: Path, tmp_path: Path) -> None:
    saving = checkpointer(run)
    saving.save(7, records(7.0))
    saving.notes(wait=True)
    other = tmp_path / "elsewhere" / "big"
    other.mkdir(parents=True)
    mirror = claimed(other)
    assert mirror.fetch(other / "checkpoints") == 7
    assert (other / "config.yaml").read_text() == "seed: 1\n"
    found = Checkpointer(other / "checkpoints").latest()
    assert found is not None
    assert found.records()["model"].tensors["weight"].tolist() == [7.0] * 5
    assert sorted(it.name for it in found.path.iterdir()) == ["model.safetensors", "training.safetensors"]
    assert mirror.fetch(other / "checkpoints", after=7) is None


def test_half_of_a_checkpoint_is_none(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = claimed(run)
    saving = checkpointer(run, mirror)
    saving.save(1, records(1.0))
    saving.notes(wait=True)
    files = fsspec.filesystem("memory")
    place, opened = type(files), type(files).open

    def full(self: Any, path: str, mode: str = "rb", **options: Any) -> Any:
        if "w" in mode and path.endswith("step-00000002/training.safetensors"):
            raise OSError("no space")
        return opened(self, path, mode, **options)

    monkeypatch.setattr(place, "open", full)
    saving.save(2, records(2.0))
    [note] = saving.notes(wait=True)
    assert "could not be brought up to date: OSError: no space; it is tried again after the next checkpoint" in note
    assert mirror.steps() == [1]
    assert "step-00000002" in names()
    monkeypatch.undo()
    saving.save(3, records(3.0))
    assert saving.notes(wait=True) == [f"the mirror {PLACE}/big has all checkpoints again"]
    assert mirror.steps() == [2, 3]


def test_a_file_that_changed_in_the_mirror_is_not_taken(run: Path, tmp_path: Path) -> None:
    saving = checkpointer(run)
    saving.save(1, records(1.0))
    saving.notes(wait=True)
    fsspec.filesystem("memory").pipe_file("/bucket/runs/big/step-00000001/model.safetensors", b"other")
    other = tmp_path / "elsewhere" / "big"
    with pytest.raises(CheckpointError, match=r"model.safetensors is not the file that was copied there"):
        Mirror(PLACE, other).fetch(other / "checkpoints")
    assert not list((other / "checkpoints").iterdir())


def test_a_list_that_names_files_elsewhere_is_refused(run: Path, tmp_path: Path) -> None:
    listed = b'{"files": {"../../escaped": [1, "x"]}}'
    fsspec.filesystem("memory").pipe_file("/bucket/runs/big/step-00000001.json", listed)
    with pytest.raises(CheckpointError, match="expected one in step-00000001"):
        Mirror(PLACE, run).fetch(run / "checkpoints")


def test_places_that_cannot_be_used_are_told(run: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere://x/big can't be used: ValueError"):
        Mirror("nowhere://x", run)
    with pytest.raises(ConfigError, match="expected a place such as"):
        TrainConfig.load(config_file("char_gpt_tiny"), ["checkpoint.mirror='s3://'"])


def test_files_of_a_fetch_are_whole_and_right_or_not_there(run: Path, tmp_path: Path) -> None:
    finished(run, b"the weights")
    files, path = fsspec.filesystem("memory"), "/bucket/runs/big/result/model.safetensors"
    for damage in (b"the wEights", b"the wei", b""):
        files.pipe_file(path, damage)
        with pytest.raises(CheckpointError, match=r"model.safetensors is not the file that was copied there"):
            fetch_run(f"{PLACE}/big", tmp_path / "here")
        assert not (tmp_path / "here" / "big" / "model.safetensors").exists()
    files.pipe_file(path, b"the weights")
    here, came = fetch_run(f"{PLACE}/big", tmp_path / "here")
    assert came == ["the result"]
    assert (here / "model.safetensors").read_bytes() == b"the weights"
    assert not [it for it in here.iterdir() if it.name.endswith(".tmp")]


def test_a_fetch_replaces_what_came_from_the_mirror_and_keeps_what_was_changed_here(run: Path, tmp_path: Path) -> None:
    (run / "metrics.jsonl").write_text("1\n")
    finished(run, b"first")
    here, _ = fetch_run(f"{PLACE}/big", tmp_path / "here")
    (run / "metrics.jsonl").write_text("1\n2\n")
    finished(run, b"second")
    fetch_run(f"{PLACE}/big", tmp_path / "here")
    assert (here / "model.safetensors").read_bytes() == b"second"
    assert (here / "metrics.jsonl").read_text() == "1\n2\n"
    (here / "metrics.jsonl").write_text("1\n2\n3\n")  # it went on here
    fetch_run(f"{PLACE}/big", tmp_path / "here")
    for content in (b"", b"sec", b"mine"):
        (here / "model.safetensors").write_bytes(content)
        with pytest.raises(CheckpointError, match=r"keeps its own model.safetensors, .* move them away"):
            fetch_run(f"{PLACE}/big", tmp_path / "here")
        assert (here / "model.safetensors").read_bytes() == content
    (here / "model.safetensors").unlink()
    fetch_run(f"{PLACE}/big", tmp_path / "here")
    assert (here / "model.safetensors").read_bytes() == b"second"
    assert (here / "metrics.jsonl").read_text() == "1\n2\n3\n"


@pytest.mark.parametrize("listed", ['{"files": {}}', '{"files": {"run/config.yaml": [8, "x"]}}', "{}", '{"files": ['])
def test_a_list_without_files_of_a_checkpoint_is_none(listed: str, run: Path, tmp_path: Path) -> None:
    saving = checkpointer(run)
    saving.save(1, records(1.0))
    saving.notes(wait=True)
    fsspec.filesystem("memory").pipe_file("/bucket/runs/big/step-00000002.json", listed.encode())
    mirror = Mirror(PLACE, tmp_path / "elsewhere" / "big")
    assert mirror.steps() == [1]
    assert mirror.fetch(tmp_path / "elsewhere" / "big" / "checkpoints") == 1


def test_links_out_of_a_run_are_neither_copied_nor_written_through(run: Path, tmp_path: Path) -> None:
    (outside := tmp_path / "outside").mkdir()
    (outside / "secret").write_text("secret")
    (run / "notes").symlink_to(outside / "secret")
    (run / "data").mkdir()
    (run / "data" / "tokenizer.json").write_text("{}")
    finished(run, b"weights")
    files = fsspec.filesystem("memory")
    copied = {it: files.cat_file(it) for it in files.find("/bucket/runs/big/result")}
    assert {it.rpartition("/")[2] for it in copied} == {"config.yaml", "tokenizer.json", "model.safetensors"}
    assert b"secret" not in b"".join(copied.values())
    (here := tmp_path / "here" / "big").mkdir(parents=True)
    (here / "run.lock").touch()
    (here / "data").symlink_to(outside)
    with pytest.raises(RunDirError, match="data: it is a link to outside of"):
        fetch_run(f"{PLACE}/big", tmp_path / "here")
    with pytest.raises(CheckpointError, match="it is a link to outside of"):
        Mirror(PLACE, here).fetch_result()
    assert [it.name for it in outside.iterdir()] == ["secret"]


S3_PLACE = "s3://bucket/team/runs"
OPTIONS = [
    "training.epochs=2",
    "training.steps_per_epoch=6",
    "training.checkpoint_every_steps=2",
    "training.ema={}",
    "lr_scheduler={type: ConstantLr, lr: 0.01}",
    "task.sample_length=0",
]


@pytest.fixture(scope="module")
def shared_server() -> Iterator[S3Server]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
            patch.setenv(f"AWS_{name}", "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_MAX_ATTEMPTS", "1")  # boto's own attempts, which take seconds
        with s3_server() as server:
            patch.setenv("AWS_ENDPOINT_URL", server.url)
            yield server


@pytest.fixture
def server(shared_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """An empty bucket, in a folder of its own, and no attempts that would take long."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem()
    if files.exists("bucket/team"):
        files.rm("bucket/team", recursive=True)
    yield shared_server
    shared_server.answers = lambda method, path: None


def train(*words: str, mirror: str = S3_PLACE, options: list[str] = OPTIONS) -> int:
    sets = [*options, *([f"checkpoint.mirror={mirror}"] if mirror else [])]
    return main(["train", *words, *(word for it in sets for word in ("--set", it))])


def keys() -> set[str]:
    found = boto3.client("s3").list_objects_v2(Bucket="bucket", Prefix="team/").get("Contents", [])
    return {it["Key"].removeprefix("team/runs/") for it in found}


@pytest.mark.slow
def test_a_machine_that_has_nothing_ends_in_the_same_bits(server: S3Server, tmp_path: Path) -> None:
    """By the run's name, by the last run of a config, and by the address of the mirror alone."""
    config = str(write_config(tmp_path))
    assert train(config, "--run-dir", "whole/small", mirror="") == 0
    assert train(config, "--run-dir", "first/small", options=[*OPTIONS, "training.epochs=1"]) == 0
    assert {"small/step-00000006.json", "small/result.json", "small/result/model.safetensors"} <= keys()
    assert not [it for it in keys() if "step-00000002" in it]  # pruned
    expected = files_of(Path("whole/small"))
    for number, words in enumerate(([config, "--resume"], ["--resume", f"{S3_PLACE}/small"])):
        assert train(*words, mirror="" if number else S3_PLACE) == 0
        found = files_of(Path("runs/small"))
        for name in {*found} - {"mirror.json", "config.yaml"}:
            assert found[name] == expected[name], name
        assert metrics_of(Path("runs/small")) == metrics_of(Path("whole/small"))
        Path("runs").rename(f"done-{number}")
    assert main(["runs", "--fetch", f"{S3_PLACE}/small"]) == 0
    assert load_run("runs/small").step == 12
    assert Path("runs/small/model.safetensors").read_bytes() == expected["model.safetensors"]


@pytest.mark.slow
def test_two_runs_of_one_name(server: S3Server, tmp_path: Path) -> None:
    """A new run does not take another one's mirror, and of two that go on with one run only the last copies."""
    runs = [tmp_path / name / "big" for name in ("one", "new", "other")]
    first, _, other = (s3_checkpointer(it) for it in runs)
    assert first.mirror is not None
    first.mirror.claim(is_new=True, has_checkpoints=False)
    first.save(1, RECORDS)
    assert first.notes(wait=True) == []
    with pytest.raises(CheckpointError, match=r"has checkpoints of another run, on .*, up to step 1; go on with that"):
        Mirror(S3_PLACE, runs[1]).claim(is_new=True, has_checkpoints=False)
    with pytest.raises(CheckpointError, match="has checkpoints of another run"):
        Mirror(S3_PLACE, runs[1]).claim(is_new=False, has_checkpoints=True)
    assert other.mirror is not None
    other.mirror.claim(is_new=False, has_checkpoints=False)
    assert other.mirror.fetch(other.directory) == 1
    first.save(2, RECORDS)
    [note] = first.notes(wait=True)
    assert "another process copies to it, on" in note
    assert other.mirror.steps() == [1]
    first.mirror.claim(is_new=False, has_checkpoints=True)  # back on the machine where it began
    first.save(3, RECORDS)
    assert first.mirror.notes(wait=True) == [f"the mirror {S3_PLACE}/big has all checkpoints again"]
    assert first.mirror.steps() == [2, 3]


RECORDS = {"model": Record({"weight": torch.arange(5.0)})}


def s3_checkpointer(run: Path) -> Checkpointer:
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("seed: 1\n")
    made = Checkpointer(run / "checkpoints", keep=2)
    made.mirror = Mirror(S3_PLACE, run)
    return made


@pytest.mark.slow
def test_a_server_that_fails_in_the_middle_and_comes_back(server: S3Server, tmp_path: Path) -> None:
    """It answers with errors, then slowly, then not at all; saves wait for none of it."""
    saving = s3_checkpointer(tmp_path / "big")
    assert saving.mirror is not None
    saving.mirror.claim(is_new=True, has_checkpoints=False)
    saving.save(1, RECORDS)
    assert saving.notes(wait=True) == []
    server.answers = lambda method, path: "500 Broken" if "step-00000002/run" in path else None
    saving.save(2, RECORDS)
    assert "could not be brought up to date" in saving.notes(wait=True)[0]
    assert any("step-00000002/model" in it for it in keys())  # half of it is there
    server.answers = lambda method, path: None
    assert saving.mirror.steps() == [1]
    asked, gate = threading.Event(), threading.Event()

    def slow(method: str, path: str) -> str | None:
        if method == "PUT":
            asked.set()
            gate.wait()
        return None

    server.answers = slow
    saving.save(3, RECORDS)
    asked.wait()
    saving.save(4, RECORDS)  # while it waits for the server
    assert saving.notes() == []
    gate.set()
    assert saving.notes(wait=True) == [f"the mirror {S3_PLACE}/big has all checkpoints again"]
    assert saving.mirror.steps() == [3, 4]
    server.stop()
    saving.save(5, RECORDS)
    assert "it is tried again after the next checkpoint" in saving.notes(wait=True)[0]
    server.start()
    saving.save(6, RECORDS)
    assert "has all checkpoints again" in saving.notes(wait=True)[0]
    assert saving.mirror.steps() == [5, 6]
    server.answers = lambda method, path: "503 Busy" if path.endswith("step-00000006/model.safetensors") else None
    other = tmp_path / "elsewhere" / "big"
    other.mkdir(parents=True)
    with pytest.raises(CheckpointError, match="can't be read"):
        Mirror(S3_PLACE, other).fetch(other / "checkpoints")
    assert not list((other / "checkpoints").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "status", "message"),
    [
        ("s3://no-such-bucket/runs", None, "The specified bucket does not exist"),
        (S3_PLACE, "403 AccessDenied", "PermissionError"),
        (S3_PLACE, "403 InvalidAccessKeyId", "InvalidAccessKeyId"),
    ],
)
def test_what_is_wrong_is_said_before_the_training(
    server: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, status: str, message: str
) -> None:
    server.answers = lambda method, path: status if method == "PUT" else None
    assert train(str(write_config(tmp_path)), "--run-dir", "new/small", mirror=place) == 2
    said = capsys.readouterr().err
    assert f"the mirror {place}/small can't be written" in said
    assert message in said
    assert not Path("new/small/checkpoints").exists()
    assert not Path("new/small/metrics.jsonl").exists()


@pytest.mark.slow
def test_a_run_that_is_nowhere(server: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--resume", f"{S3_PLACE}/typo", mirror="") == 2
    assert f"there is no run at runs/typo, and none in the mirror at {S3_PLACE}/typo" in capsys.readouterr().err
    assert train(str(write_config(tmp_path)), "--resume", "runs/typo") == 2
    assert "none in the mirror at" in capsys.readouterr().err
    assert not Path("runs").exists()
    for command in ("evaluate", "report", "inspect"):
        assert main([command, f"{S3_PLACE}/big"]) == 2
        assert "burnlike runs --fetch " in capsys.readouterr().err
