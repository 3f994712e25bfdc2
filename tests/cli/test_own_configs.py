"""Configs of the user's own in YAML: one import, and no call that registers anything."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import burnlike as bl
from burnlike.cli.commands import check
from burnlike.config import roles

from .commands import run

MODELS = """
import burnlike as bl


class RoomConfig(bl.Config):
    width: int
    inner: bl.ModuleConfig | None = None


class MineConfig(bl.ModuleConfig, tag="Mine"):
    width: int = 3

    def init(self, device=None):
        import torch

        return torch.nn.Linear(self.width, self.width, device=device)


class ForgottenConfig(bl.config.ModuleConfig):
    width: int = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models_of_mine.py").write_text(MODELS)
    return tmp_path


def python(*arguments: str) -> str:
    """The output of a program of the user's."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return done.stdout + done.stderr


def test_the_base_classes_are_at_the_top() -> None:
    assert bl.ModuleConfig is bl.config.ModuleConfig is roles.ModuleConfig
    assert issubclass(bl.ModuleConfig, bl.Config)


def test_a_program_imports_its_classes_and_loads(folder: Path) -> None:
    (folder / "room.yaml").write_text("width: 4\ninner: {type: Mine, width: '${width}'}")
    program = "import models_of_mine as own; print(own.RoomConfig.load('room.yaml'))"
    assert python("-c", program) == "RoomConfig(width=4, inner=MineConfig(width=4))\n"


def test_check_with_import(folder: Path) -> None:
    (folder / "mine.yaml").write_text("type: Mine\nwidth: 5")
    (folder / "room.yaml").write_text("width: 4\ninner: {type: Mine, widht: 5}")
    (folder / "forgotten.yaml").write_text("type: Forgotten")
    command = ("-m", "burnlike", "check", "--import", "models_of_mine")
    assert python(*command, "mine.yaml") == "mine.yaml: ok (Mine)\n"
    assert python(*command, "room.yaml", "--root", "RoomConfig") == (
        "room.yaml:2:21: inner.widht: unknown key 'widht'; did you mean 'width'?\n1 mistake in 1 file of 1\n"
    )
    assert python(*command, "forgotten.yaml") == (
        "forgotten.yaml:1:7: type: ForgottenConfig has no tag; write `class ForgottenConfig(ModuleConfig, "
        'tag="Forgotten")`\n1 mistake in 1 file of 1\n'
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("type: CosineAnnealing\ninitial_lr: 0.1", "ok (CosineAnnealing)"),
        ("type: Sgd\nmomentun: 3", "f.yaml:2:1: momentun: unknown key 'momentun'; did you mean 'momentum'?"),
        ("type: Linear\nd_input: 2\nd_output: 3", "ok (Linear, initializer KaimingUniform)"),
        ("type: Linaer", "f.yaml:1:7: type: unknown type 'Linaer'; did you mean 'Linear'?"),
        ("type: 3", "missing key 'data'"),
    ],
)
def test_a_file_of_any_type_is_checked_as_what_it_names(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.yaml").write_text(text)
    assert run(check, "f.yaml") == (0 if "ok" in words else 2)
    assert words in capsys.readouterr().out


def test_nothing_in_a_file_runs_or_imports(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "models_of_mine.py").write_text("raise SystemExit('imported')")
    for text in (
        "type: models_of_mine.MineConfig",
        "import: models_of_mine\ntype: Linear\nd_input: 2\nd_output: 3",
        "defaults: models_of_mine.py",
        "type: ${models_of_mine:MineConfig}",
        "!!python/object/apply:models_of_mine.MineConfig {}",
    ):
        (folder / "f.yaml").write_text(text)
        assert run(check, "f.yaml") == 2
    assert "models_of_mine" not in sys.modules
