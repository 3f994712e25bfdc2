"""Whatever fails, and whenever a process is killed: what was there is there, whole, or what was to be there is.

`make test-faults` makes each call of each action fail in each way, and has more losses of power.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ..cli.test_outputs import ROWS
from ..record.crash.replay import Disk, NothingMore, read_journal
from ..record.crash.shimmed import EINTR, EIO, FILLED, FULL, JOURNAL, KILL, SHORT, Shimmed
from .actions import ACTIONS, units, wrong_sets
from .prepared import prepare

FAILURES = {
    "full disk": FULL,
    "disk that stays full": FILLED,
    "EIO": EIO,
    "short write": SHORT,
    "killed": KILL,
    "EINTR": EINTR,
}
ELSEWHERE = {
    "verify-resume": "trains in processes of its own, as `train` does",
    "generate": "writes the rows of texts as `predict` does, which is here",
    "init --from": "writes by the Output of `init`, which is here",
}
"""Rows of commands that write, of which no action is here, and why."""
_HARMLESS = (SHORT, EINTR)
_HITS = {
    SHORT: {"write"},
    EINTR: {"write", "byte", "create"},
    FILLED: {"write", "byte", "create", "mkdir", "allocate"},
}
"""The calls that a failure can hit, if not all."""
_MEMORY = "/dev/shm"
_KILLS, _FAULTS = 1000, 5000


class Doer(Shimmed):
    """The process that acts, and its folder."""

    def __init__(self, place: Path, folder: Path) -> None:
        super().__init__(place, folder, "tests.faults.worker", str(place), str(folder))
        self.place = place

    def __call__(self, action: str, **order: Any) -> dict[str, Any]:
        return self.ask(action=action, **order)

    def reset(self, action: str) -> dict[str, dict[str, str]]:
        """Make the folder as it is before the action."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        before = self.place / "before" / action
        if not before.exists():
            assert self(action, before=True)["error"] == ""
            shutil.copytree(self.folder, before, symlinks=True)
        else:
            shutil.copytree(before, self.folder, symlinks=True, dirs_exist_ok=True)
        return units(self.folder, ACTIONS[action])

    def calls(self, action: str) -> list[str]:
        """The names of the calls of an action that goes well; `byte` for a write of at most one, which has no half."""
        self.log.write_text("")
        answer = self(action)
        assert answer["error"] == "", answer
        lines = (line.split(maxsplit=3) for line in self.log.read_text().splitlines())
        return ["byte" if name == "write" and int(count) < 2 else name for _, name, count, _ in lines]


@pytest.fixture(scope="module")
def doer() -> Iterator[Doer]:
    # In memory the calls are the same, and a sync costs nothing, which is ten times faster.
    with tempfile.TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None) as temporary:
        place = Path(temporary).resolve()
        prepare(place)
        (place / "folder").mkdir()
        found = Doer(place, place / "folder")
        yield found
        found.kill()


@pytest.mark.weekly
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("action", ACTIONS)
def test_everything_is_whole_after_a_failure_at_each_call(action: str, failure: str, doer: Doer) -> None:
    """`make test-faults` runs it."""
    fail(doer, action, FAILURES[failure])


@pytest.mark.weekly
def test_a_thousand_kills_and_five_thousand_faults(doer: Doer, capsys: pytest.CaptureFixture[str]) -> None:
    counts = {}
    for action in ACTIONS:
        doer.reset(action)
        calls = doer.calls(action)
        counts[action] = [len(points(calls, it)) for it in FAILURES.values()]
    counts["sum"] = [*map(sum, zip(*counts.values(), strict=True))]
    with capsys.disabled():
        print("\n", *(f"{it:>21}" for it in FAILURES), sep="")
        for action, numbers in counts.items():
            print(*(f"{it:>21}" for it in numbers), f"  {action}", sep="")
    kills = counts["sum"][[*FAILURES].index("killed")]
    assert kills > _KILLS
    assert sum(counts["sum"]) > _FAULTS


@pytest.mark.slow
@pytest.mark.parametrize(
    "action",
    [
        pytest.param(name, marks=pytest.mark.weekly if name == "export onnx" else ())  # takes seconds
        for name, action in ACTIONS.items()
        if action.is_replayed
    ],
)
@pytest.mark.parametrize("losses", [3, pytest.param(60, marks=pytest.mark.weekly)])
def test_everything_is_whole_after_a_loss_of_power(action: str, losses: int, doer: Doer) -> None:
    old = doer.reset(action)
    disk = Disk(doer.folder)
    doer.journal.unlink(missing_ok=True)
    assert doer(action, at=JOURNAL)["error"] == ""
    new = units(doer.folder, ACTIONS[action])
    disk.play(read_journal(doer.journal))
    for loss in range(losses):
        at = disk.count if loss == 0 else Random(f"{action} {loss}").randrange(disk.count)
        random = (Random if loss % 3 else NothingMore)(f"{action} {loss}")
        shutil.rmtree(doer.folder)
        disk.after_loss(at, random, doer.folder)
        expect_whole(doer, action, old, new, at)
        if loss == 0 and not ACTIONS[action].is_cache:
            assert units(doer.folder, ACTIONS[action]) == new
        assert doer(action)["error"] == "", at
        assert units(doer.folder, ACTIONS[action]) == new, at


def test_metrics_survive_where_the_checkpoint_of_their_step_does(doer: Doer) -> None:
    doer.reset("train")
    doer.journal.unlink(missing_ok=True)
    assert doer("train", at=JOURNAL)["error"] == ""
    unsynced: list[int] = []
    checkpoints = []
    for change in read_journal(doer.journal):
        name = Path(change.target).name
        if Path(change.path).name == "metrics.jsonl":
            unsynced += [json.loads(change.data)["step"]] if change.operation == "W" else []
            unsynced = [] if change.operation == "S" else unsynced
        if change.operation == "R" and name.startswith("step-"):
            checkpoints.append(int(name.removeprefix("step-")))
            assert checkpoints[-1] < min(unsynced, default=9)
    assert checkpoints == [1, 2, 3]


def test_each_command_that_writes_is_made_to_fail() -> None:
    assert {*ROWS} == {*ACTIONS, *ELSEWHERE} & {*ROWS}
    assert not {*ACTIONS} & {*ELSEWHERE}


def points(calls: list[str], failure: int) -> list[int]:
    """The numbers of the calls that a failure can hit."""
    return [at for at, name in enumerate(calls) if name in _HITS.get(failure, {name})]


def fail(doer: Doer, action: str, failure: int) -> None:
    """Let an action fail at each of its calls, and look at what there is."""
    old = doer.reset(action)
    calls = doer.calls(action)
    new = units(doer.folder, ACTIONS[action])
    assert len(calls) > 4
    for at in points(calls, failure):
        doer.reset(action)
        answer = doer(action, at=at, failure=failure)
        assert not answer["error"].startswith("!!"), (at, answer)
        expect_whole(doer, action, old, new, at)
        if failure in _HARMLESS:
            assert answer["error"] == "", (at, answer)
        if failure != KILL and answer["error"] == "" and not ACTIONS[action].is_cache:
            assert units(doer.folder, ACTIONS[action]) == new, (at, "a loss that nothing tells")
        assert doer(action)["error"] == "", at  # the next one goes well
        assert units(doer.folder, ACTIONS[action]) == new, at


def expect_whole(doer: Doer, action: str, old: Any, new: Any, at: int) -> None:
    found = units(doer.folder, ACTIONS[action])
    if action.startswith("mirror"):
        assert wrong_sets(doer.folder) == [], at
        assert [it for it in found if it.startswith("big/step-") and it.endswith(".json")], at
        return
    for unit, files in found.items():
        assert files in (old.get(unit), new.get(unit)), (at, unit)
    assert found.keys() >= old.keys() & new.keys(), at
