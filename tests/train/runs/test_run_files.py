"""Reading the files of a run: whole ones, unfinished ones and damaged ones."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from burnlike.errors import CheckpointError, RunDirError
from burnlike.train import RunDir, find_runs, load_run, read_run
from burnlike.train.runs.environment import environment, git_state, masked, write_environment
from burnlike.train.runs.logs import LogFile, MetricsLog, read_log, read_metrics, write_results
from burnlike.train.runs.run_dir import config_of, open_or_create
from burnlike.train.runs.run_files import config_differences, flattened

LINE = {"step": 10, "epoch": 0, "split": "train", "loss": 1.5, "time": 100.0}


def make_run(path: Path, lines: list[dict[str, Any]] | None = None, config: str = "seed: 1\n") -> Path:
    path.mkdir(parents=True)
    (path / "run.lock").touch()
    (path / "config.yaml").write_text(config)
    text = "".join(json.dumps(line) + "\n" for line in ([LINE] if lines is None else lines))
    (path / "metrics.jsonl").write_text(text)
    return path


def test_a_run_says_what_its_files_say(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a", [LINE, {**LINE, "step": 20, "time": 160.0}], "seed: 3\ntraining: {epochs: 2}\n")
    for name in ("model", "optimizer"):
        file = path / "checkpoints" / "step-00000030" / f"{name}.safetensors"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * 100)
    write_results(path, {"valid": {"loss": 0.25, "bad": float("nan")}}, {"sample": "a\nb", "bigram": 2.5})
    run = read_run(path)
    assert (run.name, run.state, run.steps, run.seconds) == ("a", "stopped", 30, 60.0)
    assert run.config == {"seed": 3, "training.epochs": 2}
    assert run.values == {"valid": {"loss": 0.25}}
    assert run.said == {"sample": "a\nb", "bigram": 2.5}
    assert [tuple(it) for it in run.checkpoints] == [(30, "step-00000030", 200)]
    assert run.problems == []


def test_the_state_of_a_run(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a")
    log = LogFile(path / "log.txt")
    assert read_run(path).state == "stopped"
    (path / "model.safetensors").touch()
    assert read_run(path).state == "done"
    log.start(0, 100)
    log.end("failed", "ValueError: no")
    assert read_run(path)[2:4] == ("failed", "ValueError: no")
    log.start(50, 100)
    log.end("stopped", "SIGTERM")
    assert read_run(path)[2:4] == ("stopped", "SIGTERM")
    log.start(50, 100)
    log.end("done")
    assert read_run(path)[2:4] == ("done", "")
    with open(path / "run.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert read_run(path)[2:4] == ("running", "")
    assert read_run(path).state == "done"


def test_damaged_lines_of_metrics_are_left_out_and_said(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a")
    rows = [
        json.dumps(LINE),
        "not json",
        '{"step": 1}',
        "[" * 100_000,
        '{"step": true, "epoch": 0, "split": "train"}',
        '{"step": -1, "epoch": 0, "split": "train"}',
        '{"step": 2, "epoch": 0, "split": 3}',
        "",
        '{"step": 2, "epoch": 0, "split": "valid", "loss": NaN, "x": 1e999, "text": "t", "flag": true, "n": null}',
        '{"step": 3, "epoch": 0, "split": "valid", "big": ' + "9" * 400 + "}",
        '{"step": 4, "epoch": 0, "sp',
    ]
    (path / "metrics.jsonl").write_bytes("\n".join(rows).encode() + b"\xff")
    found = read_metrics(path / "metrics.jsonl")
    assert found.damaged == [2, 3, 4, 5, 6, 7, 8]
    assert found.lines[1:] == [
        {"step": 2, "epoch": 0, "split": "valid", "loss": None, "x": None, "n": None},
        {"step": 3, "epoch": 0, "split": "valid", "big": None},
    ]
    assert read_run(path).problems == ["metrics.jsonl: lines 2, 3, 4, 5, 6 and 2 more can't be read and left out"]


def test_other_damaged_files_are_said(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a", config="a: [1\n")
    (path / "environment.json").write_text("[" * 100_000)
    (path / "results.json").write_text("[1]")
    (path / "log.txt").write_bytes(b"\xff\xfe\n2026-99-99\n")
    first, second, third = read_run(path).problems
    assert first.startswith("config.yaml is damaged: ")
    assert second.startswith("results.json can't be read: expected an object")
    assert third.startswith("environment.json can't be read: ")
    assert read_run(path).config_text == "a: [1\n"


def test_what_is_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="there is no run at"):
        read_run(tmp_path / "missing")
    with pytest.raises(RunDirError, match=r"is not the directory of a run: it has no run.lock"):
        read_run(tmp_path)
    with pytest.raises(RunDirError, match="expected a directory that holds runs"):
        find_runs(tmp_path / "missing")


def test_runs_are_found_also_in_sweeps(tmp_path: Path) -> None:
    for name in ("b", "a-sweep/seed=1", "a-sweep/seed=2", "c/d/e", ".hidden"):
        make_run(tmp_path / name)
    found = [str(path.relative_to(tmp_path)) for path in find_runs(tmp_path)]
    assert found == ["a-sweep/seed=1", "a-sweep/seed=2", "b"]


def test_the_log_adds_up_the_parts_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(
        "2026-01-01T10:00:00+00:00 starting at step 0 of 10\n"
        "2026-01-01T10:00:30+00:00 step 5/10  loss 1\n"
        "2026-01-01T12:00:00+00:00 resuming at step 5 of 10\n"
        "  done: an indented line of a note\n"
        "2026-01-01T12:00:10+00:00 failed: OSError: disk\n"
    )
    assert tuple(read_log(tmp_path / "log.txt")) == (40.0, "failed", "OSError: disk")


def test_texts_of_several_lines_and_codes_stay_one_entry(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log.txt")
    log.write("a\ndone\n\x1b[2J")
    first, second, third = (tmp_path / "log.txt").read_text().splitlines()
    assert first.endswith("+00:00 a")
    assert (second, third) == ("  done", "  \\x1b[2J")
    assert read_log(tmp_path / "log.txt").ending is None


def test_flattened() -> None:
    value = {"a": {"b": [1, 2], "c": [{"d": 1}, 2], "e": {}}, "f": None}
    assert flattened(value) == {"a.b": [1, 2], "a.c[0].d": 1, "a.c[1]": 2, "a.e": {}, "f": None}


def test_differences_of_configs(tmp_path: Path) -> None:
    texts = ("seed: 1\nlr: 0.1\n", "seed: 2\nlr: 0.1\n", "seed: 1\nlr: 0.1\nnew: true\n")
    runs = [read_run(make_run(tmp_path / str(number), config=text)) for number, text in enumerate(texts)]
    assert config_differences(runs) == {"seed": [1, 2, 1], "new": [None, None, True]}
    assert config_differences(runs[:1]) == {}


def test_the_environment_is_written_once_and_compared(tmp_path: Path) -> None:
    import platform

    import torch

    assert write_environment(tmp_path) == {}
    found = json.loads((tmp_path / "environment.json").read_text())
    assert found["python"] == platform.python_version()
    assert found["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found.keys() == {*environment(), "folder", "folder_from_run"}
    (tmp_path / "environment.json").write_text(json.dumps({**found, "torch": "1.0"}))
    assert write_environment(tmp_path) == {"torch": ("1.0", torch.__version__)}
    assert json.loads((tmp_path / "environment.json").read_text())["torch"] == "1.0"


def test_the_state_of_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path) is None
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "x"]):
        (tmp_path / "file").write_text("1")
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    state = git_state(tmp_path)
    assert state is not None
    assert (len(state["commit"]), state["is_dirty"]) == (40, False)
    (tmp_path / "file").write_text("2")
    assert (git_state(tmp_path) or {})["is_dirty"] is True
    monkeypatch.setenv("PATH", "")
    assert git_state(tmp_path) is None


def test_pipes_and_links_out_of_a_run_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text('{"a": "secret"}')
    path = make_run(tmp_path / "a")
    for name in ("results.json", "environment.json", "log.txt"):
        (path / name).symlink_to(secret)
    (path / "config.yaml").unlink()
    (path / "config.yaml").symlink_to(secret)
    (path / "metrics.jsonl").unlink()
    (path / "metrics.jsonl").symlink_to(secret)
    run = read_run(path)
    assert len(run.problems) == 4
    assert all("it is a link to outside of" in it for it in run.problems)
    assert "secret" not in repr(run._replace(problems=[]))
    for name in ("run.lock", "metrics.jsonl", "config.yaml"):
        (path / name).unlink()
        os.mkfifo(path / name)
    run = read_run(path)
    assert sum("it is a pipe" in it for it in run.problems) == 2
    for name in ("config.yaml", "metrics.jsonl", "log.txt", "results.json", "environment.json"):
        (path / name).unlink()
        (path / name).symlink_to(name)
    problems = read_run(path).problems
    assert sum("Too many levels of symbolic links" in it for it in problems) == 4
    (linked := tmp_path / "b").symlink_to(make_run(tmp_path / "c"))
    assert read_run(linked).problems == []


def test_a_lock_is_a_file_of_the_run(tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("mine")
    path = make_run(tmp_path / "a")
    (path / "run.lock").unlink()
    (path / "run.lock").symlink_to(victim)
    with pytest.raises(RunDirError, match=r"run.lock: it is a link to outside of"):
        RunDir.open(path)
    assert victim.read_text() == "mine"
    (path / "run.lock").unlink()
    os.mkfifo(path / "run.lock")
    with pytest.raises(RunDirError, match=r"run.lock can't be opened: it is a pipe"):
        RunDir.open(path)


def test_what_a_run_goes_on_with_is_a_file_of_the_run(tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("mine\n")
    run = make_run(tmp_path / "run")
    (run / "metrics.jsonl").unlink()
    for name, write in (
        ("log.txt", lambda path: LogFile(path).write("text")),
        ("metrics.jsonl", lambda path: MetricsLog(path).append(LINE)),
        ("metrics.jsonl", lambda path: MetricsLog(path).cut_back(0)),
    ):
        (run / name).symlink_to(victim)
        with pytest.raises(RunDirError, match=f"{name} can't be"):
            write(run / name)
        assert victim.read_text() == "mine\n"
        (run / name).unlink()
        os.mkfifo(run / name)
        with pytest.raises(RunDirError, match=f"{name} can't be"):
            write(run / name)
        (run / name).unlink()


@pytest.mark.parametrize("name", ["model.safetensors", "results.json", "checkpoints", "data", "samples/a/b"])
def test_a_run_with_a_link_out_of_it_is_not_used(name: str, tmp_path: Path) -> None:
    (outside := tmp_path / "outside").mkdir()
    run = make_run(tmp_path / "run")
    (run / "samples" / "a").mkdir(parents=True)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(outside)
    for use in (RunDir.open, open_or_create, config_of, load_run):
        with pytest.raises(RunDirError, match=f"{name}: it is a link to outside of .*remove the link"):
            use(run)
    assert not [*outside.iterdir()]
    (run / name).unlink()
    (run / name).symlink_to("log.txt")  # inside
    (run / "wandb").mkdir()
    (run / "wandb" / "debug.log").symlink_to(outside)  # as Weights & Biases makes it
    (tmp_path / "linked").symlink_to(run)  # named by the user
    RunDir.open(tmp_path / "linked").close()


def test_evaluations_behind_a_link_are_not_read(tmp_path: Path) -> None:
    (outside := tmp_path / "outside").mkdir()
    (outside / "a.json").write_text('{"split": "valid", "values": {"loss": 1}}')
    run = make_run(tmp_path / "run")
    (run / "evaluations").symlink_to(outside)
    assert read_run(run).evaluations == []


def test_numbers_and_times_that_are_none_are_left_out(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a")
    (path / "results.json").write_text('{"values": {"valid": {"loss": 1%s, "accuracy": 2}}}' % ("0" * 400))
    (path / "log.txt").write_text("9999-99-99T99:99:99+00:00 starting at step 0 of 9\n")
    run = read_run(path)
    assert run.values == {"valid": {"accuracy": 2}}
    metrics = tmp_path / "metrics.jsonl"
    kept = json.dumps(LINE) + "\n"
    metrics.write_text(kept + '{"step": 1e999}\n' + "[" * 100_000 + "\n")
    MetricsLog(metrics).cut_back(1000)
    assert metrics.read_text() == kept


def test_more_metrics_than_a_page_can_show_are_left_out(tmp_path: Path) -> None:
    names = {f"m{number}": 1.0 for number in range(2000)}
    path = make_run(tmp_path / "a", [LINE, {**LINE, **names, "x" * 1000: 1.0}])
    run = read_run(path)
    assert len(run.lines[1]) == 4 + 500
    assert run.problems == ["metrics.jsonl: 1,502 metrics are left out; the first 500 can be shown"]
    many = [{**LINE, "split": f"s{number}"} for number in range(2000)]
    assert len(read_run(make_run(tmp_path / "b", many)).lines) == 500


@pytest.mark.parametrize(
    "setting",
    [
        *("core.fsmonitor", "filter.own.clean", "filter.own.process"),
        *(f"filter.o{end}wn.clean" for end in ("\u2028", "\r", "\f", "\x85")),
    ],
)
def test_no_program_of_a_repository_is_run(tmp_path: Path, setting: str) -> None:
    def git(*arguments: str) -> None:
        user = ["-c", "user.name=n", "-c", "user.email=e"]
        subprocess.run(["git", *user, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / ".gitattributes").write_text("*.txt filter=own\n")
    (tmp_path / "a.txt").write_text("a")
    git("add", ".")
    git("commit", "-qm", "m")
    program = tmp_path / ".git" / "hooks" / "post-index-change"
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path / 'ran'}'\ncat\n")
    program.chmod(0o755)
    os.utime(tmp_path / "a.txt", (1, 1))
    assert (git_state(tmp_path) or {})["is_dirty"] is False
    git("config", setting, str(program))
    state = git_state(tmp_path)
    assert state is not None
    assert len(state["commit"]) == 40
    assert state["is_dirty"] is None
    assert not (tmp_path / "ran").exists()


def test_a_repository_that_lacks_objects_brings_none(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=n", "-c", "user.email=e", *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    git("commit", "-qm", "m", "--allow-empty")
    (tmp_path / "a.txt").write_text("a")
    git("add", ".")
    git("commit", "-qm", "m")
    tree = git("rev-parse", "HEAD^{tree}")
    (tmp_path / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    settings = {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(tmp_path),
        "remote.origin.uploadPack": f"touch '{tmp_path / 'ran'}'; false",
        "protocol.allow": "always",
    }
    for name, value in settings.items():
        git("config", name, value)
    state = git_state(tmp_path)
    assert state == {"commit": git("rev-parse", "HEAD"), "is_dirty": None}
    assert not (tmp_path / "ran").exists()


def test_a_command_line_is_kept_without_secrets() -> None:
    command = [
        "burnlike",
        "train",
        "--set",
        "a.api_key=x",
        "--set=hf_token=x",
        "auth.Password=x=y",
        "max_tokens=3",
        "loggers=[{type: Own, 'api_key': x}]",
        "data={path: a:b}",
        "k",
    ]
    shown = [
        "burnlike",
        "train",
        "--set",
        "a.api_key=***",
        "--set=hf_token=***",
        "auth.Password=***",
        "max_tokens=3",
        "loggers=***",
        "data={path: a:b}",
        "k",
    ]
    assert masked(command) == shown


def test_runs_of_one_config_are_numbered_after_the_last(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    names = []
    for _ in range(3):
        run = RunDir.create_next(root, "gpt")
        names.append(run.path.name)
        run.close()
    assert names == ["gpt", "gpt-2", "gpt-3"]
    (root / "gpt-10").mkdir()
    (root / "gpt-old").mkdir()
    RunDir.create_next(root, "other").close()
    with_gap = RunDir.create_next(root, "gpt")
    assert with_gap.path.name == "gpt-11"
    with_gap.close()
    newest = RunDir.open_newest(root, "gpt")
    assert newest.path.name == "gpt-11"
    newest.close()


def test_an_empty_directory_becomes_a_run_but_nothing_is_overwritten(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b"
    RunDir.create(place).close()
    with pytest.raises(RunDirError, match="already holds a run; resume it with --resume"):
        RunDir.create(place)
    other = tmp_path / "other"
    other.mkdir()
    RunDir.create(other).close()
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").write_text("x")
    with pytest.raises(RunDirError, match="holds other files"):
        RunDir.create(full)
    with pytest.raises(CheckpointError, match="holds no run"):
        RunDir.open(full)
    assert os.listdir(full) == ["thesis.tex"]


def test_a_run_that_is_not_there_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no run at"):
        RunDir.open(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="there is no run of gpt in"):
        RunDir.open_newest(tmp_path / "runs", "gpt")


def test_only_one_process_works_on_a_run(tmp_path: Path) -> None:
    first = RunDir.create(tmp_path / "run")
    with pytest.raises(RunDirError, match=rf"another process \(id {os.getpid()}\) is working on"):
        RunDir.open(tmp_path / "run")
    first.close()
    RunDir.open(tmp_path / "run").close()


def test_a_killed_run_is_taken_up_as_soon_as_its_workers_have_ended(tmp_path: Path) -> None:
    program = f"""
import os, signal, time
from burnlike.train.runs.run_dir import RunDir
run = RunDir.create({str(tmp_path / "run")!r})
if os.fork() == 0:
    time.sleep(1)
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.call([sys.executable, "-c", program]) == -signal.SIGKILL
    RunDir.open(tmp_path / "run").close()


def test_clean_removes_half_written_files_only(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "run")
    for name in (".config.yaml.x7", ".metrics.jsonl.a", ".model.safetensors.9f.tmp", "config.yaml", ".mine"):
        (run.path / name).write_text("x")
    run.clean()
    assert sorted(os.listdir(run.path)) == [".mine", "config.yaml", "run.lock"]
    run.close()


def test_a_place_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunDirError, match="can't be made: Not a directory"):
        RunDir.create(tmp_path / "file" / "run")
    with pytest.raises(RunDirError, match=r"can't be made: .* choose a place for it with --run-dir"):
        RunDir.create_next(tmp_path / "file", "gpt")
