"""A table that can't be read says all keys that it needs, and can be read with them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from burnlike.cli.main import main
from burnlike.config import DatasetConfig
from burnlike.errors import DataError, TableError

ROWS = [
    (
        f"K{it:04}",
        f"{it % 28 + 1:02}.0{it % 9 + 1}.2021",
        f"{it / 4:.2f}".replace(".", ","),
        it if it % 9 else "k.A.",
        "Süd" if it % 3 else "",
        "ja" if it % 2 else "nein",
        "yes" if it % 5 else "no",
        "" if it == 7 else "ab"[it % 2],
    )
    for it in range(40)
]
HEAD = ("id", "since", "price", "calls", "region", "paper", "member", "y")


def write(path: Path, delimiter: str = ";", encoding: str = "cp1252") -> None:
    lines = [delimiter.join(map(str, it)) for it in (HEAD, *ROWS)]
    path.write_bytes("\n".join(lines).encode(encoding))


def remedies(config: dict[str, Any]) -> dict[str, Any]:
    """The keys that the error of such a table says."""
    with pytest.raises(TableError) as error:
        DatasetConfig.from_dict(config).init()
    return yaml.safe_load(str(error.value).partition("\n")[2])


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    write(tmp_path / "t.csv")
    return {"type": "Csv", "path": str(tmp_path / "t.csv"), "target": "y"}


def test_all_keys_are_said_at_once(config: dict[str, Any]) -> None:
    assert remedies(config) == {
        "encoding": "cp1252",
        "delimiter": ";",
        "decimal": ",",
        "missing_values": ["k.A."],
        "exclude": ["id"],
        "columns": {
            "since": {"kind": "date", "format": "%d.%m.%Y"},
            "calls": {"missing": "median"},
            "region": {"kind": "category", "missing": "flag"},
            "paper": "category",
            "member": "boolean",
            "y": {"missing": "drop"},
        },
    }


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"delimiter": ";", "encoding": "cp1252"},
        {"columns": {"since": "date", "paper": "boolean"}, "exclude": ["member"]},
        {"features": ["id", "price", "region"]},
        {"categories": ["region", "since"], "missing_values": ["-"]},
    ],
)
def test_the_table_can_be_read_with_the_keys(config: dict[str, Any], keys: dict[str, Any]) -> None:
    data: Any = DatasetConfig.from_dict({**config, **keys, **remedies({**config, **keys})}).init()
    assert len(data.train) + len(data.valid) == len(ROWS) - 1


def test_check_and_data_say_the_same(
    tmp_path: Path, config: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    job = {"data": config, "model": {"type": "Mlp", "sizes": [9, 2]}, "task": {"type": "Classification"}}
    job |= {"optimizer": {"type": "AdamW"}, "lr_scheduler": {"type": "ConstantLr", "lr": 0.1}}
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump({**job, "training": {"epochs": 1, "batch_size": 8}}))
    blocks: list[list[str]] = []
    for command in ("check", "data", "train"):
        assert main([command, str(file)]) == 2
        said = "".join(capsys.readouterr())
        blocks.append([it for it in said.splitlines() if it.startswith("  ")])
    assert blocks[0] == blocks[1] == blocks[2]
    assert "    since: {kind: date, format: '%d.%m.%Y'}  # dates as %d.%m.%Y" in blocks[0]


def test_an_encoding_and_a_delimiter_that_fit_stay(tmp_path: Path, config: dict[str, Any]) -> None:
    write(tmp_path / "t.csv", "#", "latin-1")
    keys = remedies({**config, "delimiter": "#", "encoding": "latin-1"})
    assert not keys.keys() & {"delimiter", "encoding"}


def test_the_keys_fit_the_file_that_validates_too(tmp_path: Path, config: dict[str, Any]) -> None:
    (tmp_path / "t.csv").write_text("x;y\n1,5;a\n2,5;b\n")
    (tmp_path / "v.csv").write_bytes("x;y\n1,5;ä\n2,5;b".encode("cp1252"))
    keys = remedies({**config, "validation_path": str(tmp_path / "v.csv")})
    assert keys == {"delimiter": ";", "encoding": "cp1252", "decimal": ","}


def test_a_table_without_rows_has_its_message_alone(tmp_path: Path, config: dict[str, Any]) -> None:
    (tmp_path / "t.csv").write_text("x;y\n")
    with pytest.raises(DataError, match=r"expected at least one row, got none$"):
        DatasetConfig.from_dict(config).init()


def test_a_table_without_such_a_remedy_has_its_message_alone(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1,x\n1e300,z\n")
    with pytest.raises(DataError, match="largest of float32") as error:
        DatasetConfig.from_dict(
            {"type": "Csv", "path": str(tmp_path / "t.csv"), "target": "z"} | {"target": "y"}
        ).init()
    assert "\n" not in str(error.value) or "exclude" in str(error.value)
