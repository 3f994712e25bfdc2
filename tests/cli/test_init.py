"""`burnlike init`: copies to start from."""

from pathlib import Path

import pytest

from burnlike.cli import check, init
from burnlike.config.shipped import shipped_configs
from burnlike.errors import ConfigIOError

from .commands import run


def test_copies_are_configs_that_check_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(init, tmp_path / "new" / "folder") == 0
    copies = sorted((tmp_path / "new" / "folder").iterdir())
    assert [path.name for path in copies] == [path.name for path in shipped_configs().values()]
    assert [path.read_text() for path in copies] == [path.read_text() for path in shipped_configs().values()]
    assert all(str(path) in capsys.readouterr().out for path in copies[:1])
    assert run(check, *copies) == 0


def test_it_ends_with_what_to_run_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(init, tmp_path)
    *_, line = capsys.readouterr().out.splitlines()
    *_, command, path = line.split()
    assert (command, "training:" in Path(path).read_text()) == ("train", True)


def test_nothing_is_overwritten_and_nothing_half_done(tmp_path: Path) -> None:
    last = list(shipped_configs().values())[-1].name
    (tmp_path / last).write_text("mine")
    with pytest.raises(ConfigIOError, match=rf"{last}: is there already"):
        run(init, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [last]
    assert (tmp_path / last).read_text() == "mine"
