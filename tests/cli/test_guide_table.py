"""docs/guide/table.md from an empty folder: its config, and its commands one after the other."""

import csv
import random
import re
from datetime import date, timedelta
from pathlib import Path

import pytest

from burnlike.cli.main import main

from .guides import DOCS, commands_of, run_commands, yaml_of

GUIDE = (DOCS / "table.md").read_text()


def _row(number: int, drawn: random.Random) -> dict[str, str]:
    color, income = drawn.choice(["red", "green", "blue", ""]), drawn.gauss(3000, 500)
    born = date(1950, 1, 1) + timedelta(days=drawn.randrange(20_000))
    buys = (color == "red") or (income > 3200 and born.year > 1970)
    return {
        "id": str(number),
        "color": color,
        "born": str(born),
        "income": "" if drawn.random() < 0.2 else f"{income:.2f}",
        "member": drawn.choice(["yes", "no"]),
        "bought": "yes" if buys else "no",
    }


def _write(name: str, rows: list[dict[str, str]]) -> None:
    with Path(name).open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.slow
def test_the_guide_runs_from_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    drawn = random.Random(0)
    rows = [_row(number, drawn) for number in range(400)]
    new = [_row(number, drawn) for number in range(100)]
    _write("people.csv", rows)
    _write("new.csv", [{name: it for name, it in row.items() if name != "bought"} for row in new])
    text = yaml_of(GUIDE, "people.yaml")
    Path("people.yaml").write_text(text)
    said = {line.split()[1]: it for line, it in run_commands(commands_of(GUIDE), monkeypatch, capsys).items()}
    assert "color   category, 3 different: blue, green, red; " in said["data"]
    with Path("bought.csv").open() as file:
        found = [*csv.DictReader(file)]
    assert [*found[0]] == re.findall(r"^(name,class.*)$", GUIDE, re.MULTILINE)[0].split(",")
    assert found[0]["name"] == "new.csv:2"
    right = [one["class"] == other["bought"] for one, other in zip(found, new, strict=True)]
    assert sum(right) >= 80
    # The error of the guide, for a config without the rules.
    Path("people.yaml").write_text(re.sub(r"  columns:\n(    .*\n)+", "", text))
    assert main(["train", "people.yaml"]) == 2
    assert "people.csv:2:" in (message := capsys.readouterr().err)
    assert "data.columns.color" in message
