"""The history of speed: files of results, rows that fall, and the page that is drawn of them."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from benchmarks import _results, check
from benchmarks._results import Comparison, Run
from tools.site import figures

ROW = Comparison("swiglu 8 x 8", 2.0, 4.0, "torch", 2.0, 1.5, 10, 2, "")
OTHER = replace(ROW, name="swiglu <b>")


def run_of(*rows: Comparison, time: str = "2026-01-01T00:00:00+00:00", machine: str = "a CPU") -> Run:
    return Run(machine, {"torch": "2.13", "python": "3.11"}, "c" * 40, False, time, {"ops.swiglu": [*rows]})


def files_of(folder: Path, *runs: Run) -> list[Path]:
    paths = [folder / "machine" / f"{number}.json" for number in range(len(runs))]
    paths[0].parent.mkdir()
    for path, run in zip(paths, runs, strict=True):
        path.write_bytes(msgspec.json.encode(run))
    return paths


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = _results.write(tmp_path, {"ops.swiglu": [ROW], "of another device": []})
    (run,) = _results.read_all(tmp_path)
    assert path.parent.parent == tmp_path
    assert run.machine == _results.machine()
    assert run.rows == {"ops.swiglu": [ROW]}
    assert run.versions["torch"]
    assert run.time


@pytest.mark.parametrize(("ratio", "status"), [(1.91, 0), (1.89, 1), (2.5, 0)])
def test_a_row_below_95_hundredths_of_its_last_value_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ratio: float, status: int
) -> None:
    times = [f"2026-01-0{day}T00:00:00+00:00" for day in (1, 2, 3)]
    elsewhere = replace(ROW, ratio=9.0)
    *_, measured = files_of(
        tmp_path,
        run_of(replace(ROW, ratio=3.0), OTHER, time=times[0]),
        run_of(ROW, replace(OTHER, name="gone"), time=times[1]),
        run_of(elsewhere, time=times[1], machine="another"),
        run_of(replace(ROW, ratio=ratio), OTHER, time=times[2]),
    )
    assert check.main(["--results", str(tmp_path), "--measured", str(measured)]) == status
    printed = capsys.readouterr().out
    assert f"2 rows have a last value, 0 are new, {status} have fallen" in printed
    assert ("fallen: ops.swiglu / swiglu 8 x 8 / torch: 1.89x, 0.94 of 2.00x at cccccccc" in printed) == (status == 1)
    assert printed.count("no longer measured") == 1
    assert "no longer measured: ops.swiglu / gone" in printed


def test_a_fallen_row_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files_of(tmp_path, run_of(ROW, OTHER, machine=_results.machine()))
    asked: list[list[str]] = []
    ratios = iter([(1.0, 1.0), (1.0, 2.0), (1.0, 2.0), (2.0, 1.0)])

    def measured(repeats: int, names: list[str]) -> dict[str, list[Comparison]]:
        asked.append([*names])
        return {"ops.swiglu": [replace(it, ratio=ratio) for it, ratio in zip((ROW, OTHER), next(ratios), strict=True)]}

    monkeypatch.setattr(check, "run", measured)
    assert check.main(["--results", str(tmp_path)]) == 1  # one of the two was below twice
    assert check.main(["--results", str(tmp_path)]) == 0  # each of the two once
    assert asked == [[], ["ops.swiglu"]] * 2


def test_the_page_has_every_row_of_every_machine() -> None:
    runs = [run_of(ROW), run_of(replace(ROW, ratio=1.25), OTHER), run_of(ROW, machine="another")]
    pages = figures.pages(runs)
    page = pages["figures/ops.swiglu.md"]
    assert page.count("<figure") == 3
    assert page.count('<svg viewBox="0 0 240 48"') == 1  # one row was measured twice
    assert page.count("<circle") == 2
    assert "## a CPU\n" in page
    assert "## another\n" in page
    assert "swiglu &lt;b&gt;" in page
    assert '<b class="missed">1.25x</b><small>goal 1.5x, missed</small>' in page
    assert "| [SwiGLU](ops.swiglu.md) | 2 | 1.62x | 1.25x to 2.00x | 1 of 2 |" in pages["figures/index.md"]


def test_what_the_first_page_draws_was_measured() -> None:
    keys = {key[:2] for run in _results.read_all(_results.FOLDER) for key in run.by_key}
    assert [it for it in figures.HEADLINES if it[:2] not in keys] == []
    assert figures.pages()["figures/index.md"].count('class="bar') == len(figures.HEADLINES)
