"""Curves: which there are, and how few points are drawn."""

from pathlib import Path

from burnlike.train import read_run
from burnlike.train.view.report.chart import curves_of, thinned

from ...runs.test_run_files import make_run


def test_thinned_curves_keep_their_ends_and_extremes() -> None:
    points = [(float(x), float(x % 7)) for x in range(10_000)]
    points[1234] = 1234.0, 1e6
    points[4321] = 4321.0, -1e6
    found = thinned(points, 100)
    assert len(found) <= 100
    assert found == sorted(found)
    assert {points[0], points[-1], points[1234], points[4321]} <= set(found)
    assert set(found) <= set(points)
    assert thinned(points[:100], 100) == points[:100]


def line(step: int, split: str, **values: float | None) -> dict[str, object]:
    return {"step": step, "epoch": 0, "split": split, **values}


def test_metrics_come_in_the_order_that_people_look_at_them(tmp_path: Path) -> None:
    lines = [
        line(1, "test", accuracy=1.0),
        line(1, "train", lr=0.1, items_per_s=5.0, loss=2.0),
        line(2, "valid", accuracy=1.0, loss=None),
        line(1, "valid", loss=3.0),
    ]
    found = curves_of([read_run(make_run(tmp_path / "a", lines)), read_run(make_run(tmp_path / "b", lines[1:2]))])
    assert [(it.name, it.title, it.unit) for it in found] == [
        ("loss", "loss", ""),
        ("accuracy", "accuracy", ""),
        ("lr", "learning rate", ""),
        ("items_per_s", "throughput", "items/s"),
    ]
    assert [(it.run, it.split, it.points) for it in found[0].series] == [
        (0, "train", [(1, 2.0)]),
        (0, "valid", [(1, 3.0)]),
        (1, "train", [(1, 2.0)]),
    ]
    assert [it.split for it in found[1].series] == ["valid", "test"]


def test_noisy_curves_of_the_training_are_also_smoothed(tmp_path: Path) -> None:
    lines = [line(step, "train", loss=5.0 + (-1) ** step, lr=1.0) for step in range(1, 601)]
    lines += [line(step, "valid", loss=1.0) for step in range(1, 601)]
    loss, lr = curves_of([read_run(make_run(tmp_path / "a", lines))])
    train, valid = loss.series
    assert all(4.8 < value < 5.2 for _, value in train.smooth[20:])
    assert {value for _, value in train.points} == {4.0, 6.0}
    assert valid.smooth == lr.series[0].smooth == []
