"""The page of a report, its axes and curves: whole, safe against any text, and right in its numbers."""

import base64
import hashlib
import json
import math
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies

from burnlike.train import read_run
from burnlike.train.runs.logs import write_results
from burnlike.train.view.report.chart import Axis, curves_of, thinned, value_axis
from burnlike.train.view.report.page import report_page

from ...runs.test_run_files import make_run

EVIL = "</script></pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'><!--"
VOID = ("meta", "img", "path", "line")


class Page(HTMLParser):
    """The elements of a page, their attributes and their text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def text_of(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]

    def all(self, tag: str, class_: str = "") -> list[dict[str, str | None]]:
        found = [it for name, it in self.elements if name == tag]
        return [it for it in found if not class_ or class_ in str(it.get("class")).split(" ")]


def line(step: int, split: str, **values: Any) -> dict[str, Any]:
    return {"step": step, "epoch": (step - 1) // 10, "split": split, **values}


def lines(steps: int = 20, start: float = 2.0) -> list[dict[str, Any]]:
    found = []
    for step in range(1, steps + 1):
        found.append(line(step, "train", loss=start - step / 20, lr=0.1))
        if step % 10 == 0:
            found.append(line(step, "valid", loss=start - step / 40, accuracy=step * 2.0))
    return found


def test_the_page_of_a_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "mine", lines(), "seed: 7\n")
    write_results(run, {"valid": {"loss": 1.625}}, {"bigram": 2.5, "sample": "to be\nor not" * 10})
    text = report_page([read_run(run)])
    page = Page(text)
    assert page.text_of("h1") == ["mine "]
    assert page.text_of("h2") == ["Curves", "Values", "Samples", "Config"]
    assert [it for it in page.text_of("b") if not it[0].isdigit()] == ["loss", "accuracy", "learning rate"]
    cells = page.text_of("td")
    place = cells.index("validation")
    assert cells[place : place + 7] == ["validation", "loss", "1.7500", "1.5000", "1.5000 (2)", "1.7500 (1)", "1.6250"]
    assert "seed: 7\n" in page.text_of("pre")
    assert "to be\nor not" * 10 in page.text_of("pre")


def test_curves_go_through_their_points(tmp_path: Path) -> None:
    found = [line(step, "train", loss=value) for step, value in ((1, 1.0), (50, 3.0), (100, 2.0))]
    page = Page(report_page([read_run(make_run(tmp_path / "a", found))]))
    (path,) = page.all("path")
    numbers = [float(it) for it in re.findall(r"[\d.]+", str(path["d"]))]
    # x from 0 to 100; y from 0.9 to 3.1, downwards
    assert numbers == pytest.approx([10, 954.5, 500, 45.5, 1000, 500], abs=0.1)
    data = json.loads(page.text_of("script")[0])
    (series,) = data["charts"][0]["series"]
    assert [point[:2] for point in series["points"]] == [[1, 1.0], [50, 3.0], [100, 2.0]]
    assert [point[3] for point in series["points"]] == ["1.0000", "3.0000", "2.0000"]


def test_it_needs_nothing_else_and_runs_only_its_own_script(tmp_path: Path) -> None:
    text = report_page([read_run(make_run(tmp_path / "a", lines()))])
    page = Page(text)
    (policy,) = [str(it["content"]) for it in page.all("meta") if it.get("http-equiv")]
    _, script = page.text_of("script")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    assert not [it for _, it in page.elements if {"src", "href", "srcset", "action"} & it.keys()]
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    assert "@import" not in text


def hostile_run(path: Path) -> Path:
    found = [line(step, EVIL, **{EVIL: 1.0, "loss": 1.0}) for step in (1, 2)]
    run = make_run(path, [*lines(), *found], f"seed: {json.dumps(EVIL)}\n{json.dumps(EVIL)}: 1\n")
    write_results(run, {EVIL: {EVIL: 1.0}}, {EVIL: EVIL, "long": EVIL * 10, "right to left": "\u202egnp.exe\x1b[2J"})
    evaluation = {"split": EVIL, "time": EVIL, "step": EVIL, "weights": EVIL, "values": {EVIL: 1.0, "loss": 1.0}}
    (run / "evaluations").mkdir()
    (run / "evaluations" / "a.json").write_text(json.dumps(evaluation))
    (run / "environment.json").write_text(json.dumps({EVIL: EVIL, "git": {"commit": EVIL}, "command": [EVIL]}))
    (run / "log.txt").write_text(
        f"2026-01-01T10:00:00+00:00 starting at step 0 of 9\n2026-01-01T10:00:00+00:00 failed: {EVIL}\n"
    )
    (run / "samples").mkdir()
    (run / "samples" / "a.txt").write_text(EVIL)
    (run / "samples" / "fake.png").write_text("<svg onload=alert(1)>")
    checkpoint = run / "checkpoints" / "step-00000001"
    checkpoint.mkdir(parents=True)
    return run


@pytest.mark.parametrize("count", [1, 2])
def test_text_of_a_run_stays_text(tmp_path: Path, count: int) -> None:
    name = "<script>alert(1)<"
    runs = [read_run(hostile_run(tmp_path / f"{name}{number}")) for number in range(count)]
    page = Page(report_page(runs))
    assert len(page.all("script")) == 2
    assert page.all("img") == []
    known = {"class", "style", "id", "title", "d", "x1", "x2", "y1", "y2", "viewbox", "preserveaspectratio", "role"}
    known |= {"aria-label", "data-chart", "scope", "lang", "charset", "http-equiv", "content", "name", "type", "open"}
    assert {key for _, it in page.elements for key in it} <= known
    assert EVIL in page.text_of("pre")
    assert json.loads(page.text_of("script")[0])["charts"]
    texts = "".join(text for _, text in page.texts)
    assert texts.count(EVIL) > 10
    assert "\u202e" not in texts
    assert "\\u202egnp.exe\\x1b[2J" in texts


def test_several_runs_are_compared(tmp_path: Path) -> None:
    configs = ("seed: 1\nlr: 0.1\n", "seed: 2\nlr: 0.1\n")
    starts = {"net-a": 2.0, "net-b": 1.5}
    runs = [
        read_run(make_run(tmp_path / name, lines(start=start), config))
        for (name, start), config in zip(starts.items(), configs, strict=True)
    ]
    page = Page(report_page(runs))
    assert page.text_of("h1") == ["2 runs"]
    assert page.text_of("li") == ["net-a", "net-b"]
    assert "1.0000 (2)" in page.text_of("b")  # the best of both
    assert "1.5000 (2)" in page.text_of("td")
    assert "seed" in page.text_of("code")
    assert "lr" not in page.text_of("code")
    assert [it["title"] for it in page.all("span", "end")][:2] == ["a", "b"]
    assert len(page.all("path", "second")) == 2


def test_what_is_damaged_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", lines(), "a: [\n")
    with open(run / "metrics.jsonl", "a") as file:
        file.write("half a li\n" + json.dumps(line(21, "train", loss=1.0))[:-5])
    page = Page(report_page([read_run(run)]))
    first, second = page.text_of("li")
    assert first == " metrics.jsonl: line 23 can't be read and left out"
    assert second.startswith(" config.yaml is damaged")


@pytest.mark.parametrize(
    "found",
    [
        [],
        [line(1, "train", loss=1.0)],
        [line(5, "valid", loss=-1e308), line(6, "valid", loss=1e308)],
        [line(1, "train", loss=0.0), line(2, "train", loss=0.0)],
        [line(1, "train", loss=None)],
        [line(2**53 - 1, "train", loss=5e-324)],
    ],
)
def test_any_values_make_a_page(tmp_path: Path, found: list[dict[str, Any]]) -> None:
    text = report_page([read_run(make_run(tmp_path / "a", found))])
    page = Page(text)
    assert len(page.all("figure", "chart")) == sum(bool(it.get("loss") is not None) for it in found[:1])
    assert "nan" not in "".join(str(it.get("d")) + str(it.get("style")) for _, it in page.elements)
    assert "Infinity" not in page.text_of("script")[0]


def test_images_of_samples_are_in_the_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", lines())
    (run / "samples").mkdir()
    data = b"\x89PNG\r\n\x1a\n" + b"x" * 20
    (run / "samples" / "step <1>.png").write_bytes(data)
    (run / "samples" / "large.png").write_bytes(data + bytes(4_000_001))
    (image,) = Page(report_page([read_run(run)])).all("img")
    assert image["src"] == f"data:image/png;base64,{base64.b64encode(data).decode()}"
    assert image["alt"] == "step <1>"


def test_long_runs_make_small_pages_soon(tmp_path: Path) -> None:
    found = [line(step, "train", loss=1 + 1 / step, lr=0.1, items_per_s=5.0) for step in range(1, 50_001)]
    run = read_run(make_run(tmp_path / "a", found))
    started = time.process_time()
    size = len(report_page([run]))
    assert size < 200_000
    assert time.process_time() - started < 10


FINITE = strategies.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("axis", "labels"),
    [
        (Axis(0, 3000), ["0", "1k", "2k", "3k"]),
        (Axis(0.87, 4.6), ["1", "2", "3", "4"]),
        (Axis(0, 0.0031), ["0", "0.001", "0.002", "0.003"]),
        (Axis(-1.2, 1.2), ["-1", "-0.5", "0", "0.5", "1"]),
        (Axis(0, 2.5e6), ["0", "500k", "1M", "1.5M", "2M", "2.5M"]),
        (Axis(1e-4, 20, True), ["1e-4", "0.001", "0.01", "0.1", "1", "10"]),
        (Axis(0.3, 8, True), ["0.5", "1", "2", "5"]),
    ],
)
def test_ticks_are_few_and_round(axis: Axis, labels: list[str]) -> None:
    assert [axis.label(it) for it in axis.ticks()] == labels


def test_places() -> None:
    assert [Axis(0, 10).place(it) for it in (0, 2.5, 10, -1, 11)] == [0, 0.25, 1, 0, 1]
    log = Axis(0.01, 100, True)
    assert [log.place(it) for it in (0.01, 1, 100)] == pytest.approx([0, 0.5, 1])
    assert log.place(0) == 0


def test_a_logarithm_is_taken_where_it_helps() -> None:
    assert value_axis([0.1, 10.0], may_be_log=True, from_zero=False).is_log
    assert not value_axis([0.1, 4.0], may_be_log=True, from_zero=False).is_log
    assert not value_axis([0.1, 10.0], may_be_log=False, from_zero=False).is_log
    assert not value_axis([0.0, 10.0], may_be_log=True, from_zero=False).is_log
    assert value_axis([5.0, 6.0], may_be_log=False, from_zero=True).low == 0


@given(strategies.lists(FINITE, min_size=1, max_size=5), strategies.booleans(), strategies.booleans())
def test_any_values_have_an_axis(values: list[float], may_be_log: bool, from_zero: bool) -> None:
    axis = value_axis(values, may_be_log=may_be_log, from_zero=from_zero)
    assert axis.low < axis.high
    places = [axis.place(it) for it in values]
    assert all(0 <= it <= 1 for it in places)
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 12
    assert all(math.isfinite(it) and axis.label(it) for it in ticks)


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


def line_of_epoch_0(step: int, split: str, **values: float | None) -> dict[str, object]:
    return {"step": step, "epoch": 0, "split": split, **values}


def test_metrics_come_in_the_order_that_people_look_at_them(tmp_path: Path) -> None:
    lines = [
        line_of_epoch_0(1, "test", accuracy=1.0),
        line_of_epoch_0(1, "train", lr=0.1, items_per_s=5.0, loss=2.0),
        line_of_epoch_0(2, "valid", accuracy=1.0, loss=None),
        line_of_epoch_0(1, "valid", loss=3.0),
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
    lines = [line_of_epoch_0(step, "train", loss=5.0 + (-1) ** step, lr=1.0) for step in range(1, 601)]
    lines += [line_of_epoch_0(step, "valid", loss=1.0) for step in range(1, 601)]
    loss, lr = curves_of([read_run(make_run(tmp_path / "a", lines))])
    train, valid = loss.series
    assert all(4.8 < value < 5.2 for _, value in train.smooth[20:])
    assert {value for _, value in train.points} == {4.0, 6.0}
    assert valid.smooth == lr.series[0].smooth == []
