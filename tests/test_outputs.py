"""Outputs that take the place of earlier ones: after a kill at any step the old or the new one is there, whole."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burnlike import _outputs
from burnlike._outputs import MARKER, Output

CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "ctypes.dlsym", "fcntl.flock")
"""Events of Python before something changes on the disk, beside files that are opened to be written."""
OLD, NEW = {"a": "old", "sub/b": "old"}, {"a": "new", "c": "new"}


def write_directory(place: Path, files: dict[str, str]) -> None:
    with Output(place, "export").directory() as folder:
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)


def write_files(place: Path, files: dict[str, str]) -> None:
    with Output(place, "export", force=True).files() as folder:
        (folder / place.name).write_text(str(files))


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Do the work in a process that ends, as if killed, before one of its changes; False if there was no such step."""
    child = os.fork()
    if child == 0:
        left = step

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal left
            left -= event in CHANGES or (event == "open" and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR)))
            if left < 0:
                os._exit(9)

        sys.addaudithook(count)
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9


def files_in(place: Path) -> dict[str, str]:
    files = {it.relative_to(place).as_posix(): it.read_text() for it in place.rglob("*") if it.is_file()}
    assert files.pop(MARKER)
    return files


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of a fork beside threads
def test_a_kill_at_any_step_leaves_the_old_or_the_new_directory(tmp_path: Path) -> None:
    place, step, seen = tmp_path / "out", 0, set[str]()
    write_directory(place, OLD)
    while killed_at(step, lambda: write_directory(place, NEW)):
        files = files_in(place)
        assert files in (OLD, NEW), step
        seen.add(files["a"])
        if files == NEW:
            write_directory(place, OLD)  # which takes away what the killed process left
        step += 1
    assert step > 8
    assert seen == {"old", "new"}
    assert files_in(place) == NEW
    write_directory(place, OLD)
    assert [*tmp_path.iterdir()] == [place]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_kill_at_any_step_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    place, step = tmp_path / "out.pt2", 0
    write_files(place, OLD)
    while killed_at(step, lambda: write_files(place, NEW)):
        assert place.read_text() in (str(OLD), str(NEW)), step
        step += 1
    assert step > 4
    assert place.read_text() == str(NEW)
    write_files(place, NEW)
    assert [*tmp_path.iterdir()] == [place]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_without_an_exchange_of_names_a_kill_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_outputs, "_exchange", lambda *_: False)
    place, step = tmp_path / "out", 0
    write_directory(place, OLD)
    while killed_at(step, lambda: write_directory(place, NEW)):
        aside = [*tmp_path.glob(".earlier-*")]
        assert files_in(place if place.exists() else aside[0]) in (OLD, NEW), step
        for path in aside:
            if not place.exists():
                path.rename(place)
        step += 1
    assert files_in(place) == NEW


def test_files_of_one_output_replace_none(tmp_path: Path) -> None:
    place = tmp_path / "model.onnx"

    def write(text: str) -> None:
        with Output(place, "export", force=True).files() as folder:
            (folder / place.name).write_text(text)
            (folder / "model.onnx.data").write_text(text)

    write("old")
    with pytest.raises(ValueError, match=r"the output has 2 files, and .* is there already"):
        write("new")
    assert {it.read_text() for it in tmp_path.iterdir()} == {"old"}


def test_what_comes_meanwhile_stays(tmp_path: Path) -> None:
    place, thesis = tmp_path / "out", tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match=r"holds thesis\.txt, which"), Output(place, "export").directory():
        shutil.copytree(thesis, place)
    with pytest.raises(ValueError, match="is there already"), Output(tmp_path / "x.csv", "predict").file():
        (tmp_path / "x.csv").write_text("years of work")
    assert (place / "thesis.txt").read_text() == (tmp_path / "x.csv").read_text() == "years of work"
    assert sorted(it.name for it in tmp_path.iterdir()) == ["out", "thesis", "x.csv"]
