"""A mirror on a server that speaks S3: runs that go on elsewhere, servers that fail, what is wrong from the start."""

import threading
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
import s3fs
import torch

from burnlike.cli.main import main
from burnlike.errors import CheckpointError
from burnlike.record import Record
from burnlike.train import Checkpointer, load_run
from burnlike.train.checkpoint.mirror import Mirror

from ..samples import files_of, metrics_of, write_config
from .s3_server import S3Server, s3_server

pytestmark = pytest.mark.slow
PLACE = "s3://bucket/team/runs"
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


def train(*words: str, mirror: str = PLACE, options: list[str] = OPTIONS) -> int:
    sets = [*options, *([f"checkpoint.mirror={mirror}"] if mirror else [])]
    return main(["train", *words, *(word for it in sets for word in ("--set", it))])


def keys() -> set[str]:
    found = boto3.client("s3").list_objects_v2(Bucket="bucket", Prefix="team/").get("Contents", [])
    return {it["Key"].removeprefix("team/runs/") for it in found}


def test_a_machine_that_has_nothing_ends_in_the_same_bits(server: S3Server, tmp_path: Path) -> None:
    """By the run's name, by the last run of a config, and by the address of the mirror alone."""
    config = str(write_config(tmp_path))
    assert train(config, "--run-dir", "whole/small", mirror="") == 0
    assert train(config, "--run-dir", "first/small", options=[*OPTIONS, "training.epochs=1"]) == 0
    assert {"small/step-00000006.json", "small/result.json", "small/result/model.safetensors"} <= keys()
    assert not [it for it in keys() if "step-00000002" in it]  # pruned
    expected = files_of(Path("whole/small"))
    for number, words in enumerate(([config, "--resume"], ["--resume", f"{PLACE}/small"])):
        assert train(*words, mirror="" if number else PLACE) == 0
        found = files_of(Path("runs/small"))
        for name in {*found} - {"mirror.json", "config.yaml"}:
            assert found[name] == expected[name], name
        assert metrics_of(Path("runs/small")) == metrics_of(Path("whole/small"))
        Path("runs").rename(f"done-{number}")
    assert main(["runs", "--fetch", f"{PLACE}/small"]) == 0
    assert load_run("runs/small").step == 12
    assert Path("runs/small/model.safetensors").read_bytes() == expected["model.safetensors"]


def test_two_runs_of_one_name(server: S3Server, tmp_path: Path) -> None:
    """A new run does not take another one's mirror, and of two that go on with one run only the last copies."""
    runs = [tmp_path / name / "big" for name in ("one", "new", "other")]
    first, _, other = (checkpointer(it) for it in runs)
    assert first.mirror is not None
    first.mirror.claim(is_new=True, has_checkpoints=False)
    first.save(1, RECORDS)
    assert first.notes(wait=True) == []
    with pytest.raises(CheckpointError, match=r"has checkpoints of another run, on .*, up to step 1; go on with that"):
        Mirror(PLACE, runs[1]).claim(is_new=True, has_checkpoints=False)
    with pytest.raises(CheckpointError, match="has checkpoints of another run"):
        Mirror(PLACE, runs[1]).claim(is_new=False, has_checkpoints=True)
    assert other.mirror is not None
    other.mirror.claim(is_new=False, has_checkpoints=False)
    assert other.mirror.fetch(other.directory) == 1
    first.save(2, RECORDS)
    [note] = first.notes(wait=True)
    assert "another process copies to it, on" in note
    assert other.mirror.steps() == [1]
    first.mirror.claim(is_new=False, has_checkpoints=True)  # back on the machine where it began
    first.save(3, RECORDS)
    assert first.mirror.notes(wait=True) == [f"the mirror {PLACE}/big has all checkpoints again"]
    assert first.mirror.steps() == [2, 3]


RECORDS = {"model": Record({"weight": torch.arange(5.0)})}


def checkpointer(run: Path) -> Checkpointer:
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("seed: 1\n")
    made = Checkpointer(run / "checkpoints", keep=2)
    made.mirror = Mirror(PLACE, run)
    return made


def test_a_server_that_fails_in_the_middle_and_comes_back(server: S3Server, tmp_path: Path) -> None:
    """It answers with errors, then slowly, then not at all; saves wait for none of it."""
    saving = checkpointer(tmp_path / "big")
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
    assert saving.notes(wait=True) == [f"the mirror {PLACE}/big has all checkpoints again"]
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
        Mirror(PLACE, other).fetch(other / "checkpoints")
    assert not list((other / "checkpoints").iterdir())


@pytest.mark.parametrize(
    ("place", "status", "message"),
    [
        ("s3://no-such-bucket/runs", None, "The specified bucket does not exist"),
        (PLACE, "403 AccessDenied", "PermissionError"),
        (PLACE, "403 InvalidAccessKeyId", "InvalidAccessKeyId"),
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


def test_a_run_that_is_nowhere(server: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--resume", f"{PLACE}/typo", mirror="") == 2
    assert f"there is no run at runs/typo, and none in the mirror at {PLACE}/typo" in capsys.readouterr().err
    assert train(str(write_config(tmp_path)), "--resume", "runs/typo") == 2
    assert "none in the mirror at" in capsys.readouterr().err
    assert not Path("runs").exists()
    for command in ("evaluate", "report", "inspect"):
        assert main([command, f"{PLACE}/big"]) == 2
        assert "burnlike runs --fetch " in capsys.readouterr().err
