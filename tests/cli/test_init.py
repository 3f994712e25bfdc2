"""`burnlike init`: copies to start from."""

import json
import re
from pathlib import Path

import pytest

from burnlike.cli.commands import check, init
from burnlike.config import ModuleConfig
from burnlike.config.document import parse_plain
from burnlike.config.json_schema import json_schema
from burnlike.config.shipped import shipped_configs
from burnlike.errors import ArgumentError
from burnlike.train.job.configs import TrainConfig

from ..config.schema_validator import is_valid
from .commands import run


def test_copies_are_configs_that_check_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(init, tmp_path / "new" / "folder") == 0
    copies = sorted((tmp_path / "new" / "folder").iterdir())
    schemas = {path.name: json.loads(path.read_text()) for path in copies if path.suffix == ".json"}
    assert schemas == {
        "train.schema.json": json_schema(TrainConfig),
        "model.schema.json": json_schema(ModuleConfig),
    }
    copies = [path for path in copies if path.suffix == ".yaml"]
    assert [path.name for path in copies] == [path.name for path in shipped_configs().values()]
    assert [path.read_text() for path in copies] == [path.read_text() for path in shipped_configs().values()]
    assert all(str(path) in capsys.readouterr().out for path in copies[:1])
    assert run(check, *copies) == 0


def test_it_ends_with_what_to_run_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(init, tmp_path)
    *_, line = capsys.readouterr().out.splitlines()
    *_, command, path = line.split()
    assert (command, "training:" in Path(path).read_text()) == ("train", True)


def test_every_config_names_the_schema_beside_it_and_is_valid(tmp_path: Path) -> None:
    assert run(init, tmp_path) == 0
    schemas = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    for name in shipped_configs():
        path = tmp_path / f"{name}.yaml"
        found = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", path.read_text().splitlines()[0])
        assert found, f"{path.name} lacks the line by which editors find the schema"
        schema = schemas[found[1]]
        value = parse_plain(path.read_text(), path.name)
        assert is_valid(value, schema, schema)
        assert not is_valid(value | {"modle": 1}, schema, schema)


def test_the_schema_has_classes_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "classes_of_mine.py").write_text(
        "import burnlike as bl\n\nclass InitMineConfig(bl.ModuleConfig, tag='InitMine'):\n    width: int\n"
    )
    assert run(init, "folder", "--import", "classes_of_mine") == 0
    for name in ("train.schema.json", "model.schema.json"):
        assert "InitMineConfig" in json.loads((tmp_path / "folder" / name).read_text())["definitions"]


def test_nothing_is_overwritten_and_nothing_half_done(tmp_path: Path) -> None:
    last = list(shipped_configs().values())[-1].name
    (tmp_path / last).write_text("mine")
    with pytest.raises(ArgumentError, match=rf"{last}: is there already"):
        run(init, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [last]
    assert (tmp_path / last).read_text() == "mine"
