"""Whatever fails, and whenever a process is killed: what was there is there, whole, or what was to be there is.

`make test-faults` makes each call of each action fail in each way, and has more losses of power.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ..record.crash.replay import Disk, read_journal
from ..record.crash.shimmed import EINTR, EIO, FULL, JOURNAL, KILL, SHORT, Shimmed
from .actions import ACTIONS, prepare, units, wrong_sets

FAILURES = {"full disk": FULL, "EIO": EIO, "short write": SHORT, "killed": KILL, "EINTR": EINTR}
_HARMLESS = (SHORT, EINTR)


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
        assert self(action, before=True)["error"] == ""
        return units(self.folder, ACTIONS[action])


@pytest.fixture(scope="module")
def doer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doer]:
    place = tmp_path_factory.mktemp("faults").resolve()
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


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("losses", [3, pytest.param(60, marks=pytest.mark.weekly)])
def test_everything_is_whole_after_a_loss_of_power(action: str, losses: int, doer: Doer) -> None:
    old = doer.reset(action)
    disk = Disk(doer.folder)
    doer.journal.unlink(missing_ok=True)
    assert doer(action, at=JOURNAL)["error"] == ""
    new = units(doer.folder, ACTIONS[action])
    disk.play(read_journal(doer.journal))
    for loss in range(losses):
        random = Random(f"{action} {loss}")
        at = disk.count if loss == 0 else random.randrange(disk.count)
        shutil.rmtree(doer.folder)
        disk.after_loss(at, random, doer.folder)
        expect_whole(doer, action, old, new, at)
        if loss == 0 and not ACTIONS[action].is_cache:
            assert units(doer.folder, ACTIONS[action]) == new
        assert doer(action)["error"] == "", at
        assert units(doer.folder, ACTIONS[action]) == new, at


def fail(doer: Doer, action: str, failure: int) -> None:
    """Let an action fail at each of its calls, and look at what there is."""
    old = doer.reset(action)
    answer = doer(action)
    assert answer["error"] == ""
    new = units(doer.folder, ACTIONS[action])
    assert answer["calls"] > 4
    for at in range(answer["calls"]):
        doer.reset(action)
        answer = doer(action, at=at, failure=failure)
        assert failure == KILL or not answer["error"].startswith("!!"), (at, answer)
        expect_whole(doer, action, old, new, at)
        if failure in _HARMLESS:
            assert answer["error"] == "", (at, answer)
        assert doer(action)["error"] == "", at  # the next one goes well
        assert units(doer.folder, ACTIONS[action]) == new, at


def expect_whole(doer: Doer, action: str, old: Any, new: Any, at: int) -> None:
    found = units(doer.folder, ACTIONS[action])
    if action == "mirror":
        assert wrong_sets(doer.folder) == [], at
        assert [it for it in found if it.startswith("big/step-") and it.endswith(".json")], at
        return
    for unit, files in found.items():
        assert files in (old.get(unit), new.get(unit)), (at, unit)
    assert found.keys() >= old.keys() & new.keys(), at
