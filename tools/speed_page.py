"""A page of the benchmarks' history, drawn of benchmarks/results: `python -m tools.speed_page speed.html`.

For each row of each benchmark its ratio over the runs on one machine, with the bar that it has to reach, and the times
of the last run. One file, which loads nothing.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import _results
from benchmarks._results import Comparison, Key, Run
from burnlike.train.view.report import chart
from burnlike.train.view.report.chart import Axis, Html, grid, tag, value_axis

_WIDTH, _HEIGHT, _MARGIN = 240, 48, 6
_STYLE = """
.plot { width: 240px; height: 48px; overflow: visible; display: block }
.plot .bar { stroke: var(--soft); stroke-dasharray: 3 4; vector-effect: non-scaling-stroke }
.plot path { fill: none; stroke: var(--c0); stroke-width: 1.75 } .plot circle { fill: var(--c0) }
.missed { color: var(--failed) } td { vertical-align: middle }
"""


def page(runs: Sequence[Run]) -> str:
    """The page, of runs in the order of their times."""
    machines = list(dict.fromkeys(run.machine for run in runs))
    parts = [_of_machine(name, [run for run in runs if run.machine == name]) for name in machines]
    style = Path(chart.__file__).with_name("report.css").read_text(encoding="utf-8") + _STYLE
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", "burnlike: speed"),
        tag("style", Html(style)),
    )
    told = "The other side's time divided by ours, both measured in one run, medians; above 1 ours is faster."
    header = tag("header", tag("h1", "Speed over commits"), tag("p", told))
    return f"<!DOCTYPE html>\n{tag('html', head, tag('body', tag('main', header, *parts)), lang='en')}\n"


def _of_machine(name: str, runs: Sequence[Run]) -> Html:
    last = _results.last_values(runs, name)
    benchmarks = list(dict.fromkeys(benchmark for benchmark, _, _ in last))
    tables = [_of_benchmark(it, {key: row for key, row in last.items() if key[0] == it}, runs) for it in benchmarks]
    return tag("section", tag("h2", name), *tables)


def _of_benchmark(name: str, rows: dict[Key, tuple[Comparison, Run]], runs: Sequence[Run]) -> Html:
    lines: list[list[object]] = []
    for key, (row, run) in rows.items():
        history = [(it, it.by_key[key]) for it in runs if key in it.by_key]
        missed = row.bar is not None and row.ratio < row.bar
        ratio = tag("b", f"{row.ratio:.2f}x", class_="missed" if missed else None)
        bar = None if row.bar is None else tag("small", f"bar {row.bar:g}x{', missed' if missed else ''}")
        times = f"{row.ours_ms:.3g} ms, {row.theirs} {row.theirs_ms:.3g} ms"
        at = f"{run.commit[:8]}, {run.time[:10]}, torch {run.versions['torch']}"
        lines.append([row.name, tag("td", ratio, bar), tag("td", times, tag("small", at)), _plot(history)])
    return tag("details", tag("summary", name), grid(["row", "ratio", "last times", "over runs"], lines), open="")


def _plot(history: Sequence[tuple[Run, Comparison]]) -> Html:
    values = [row.ratio for _, row in history]
    bar = history[-1][1].bar
    axis = value_axis([*values, *([] if bar is None else [bar])], may_be_log=False, from_zero=True)
    across = Axis(0.0, float(max(len(history) - 1, 1)))
    places = [(across.place(number) * _WIDTH, _y(axis, value)) for number, value in enumerate(values)]
    path = " ".join(f"{'L' if number else 'M'}{x:.1f} {y:.1f}" for number, (x, y) in enumerate(places))
    said = [tag("title", f"{run.commit[:8]}, {run.time[:10]}: {row.ratio:.2f}x") for run, row in history]
    dots = [tag("circle", it, cx=f"{x:.1f}", cy=f"{y:.1f}", r=3) for it, (x, y) in zip(said, places, strict=True)]
    line = None if bar is None else tag("line", x1=0, x2=_WIDTH, y1=_y(axis, bar), y2=_y(axis, bar), class_="bar")
    told = f"ratios of {len(values)} runs: " + ", ".join(f"{it:.2f}" for it in values)
    view = f"0 0 {_WIDTH} {_HEIGHT}"
    return tag("svg", line, tag("path", d=path), *dots, viewBox=view, role="img", aria_label=told, class_="plot")


def _y(axis: Axis, value: float) -> float:
    return _HEIGHT - _MARGIN - axis.place(value) * (_HEIGHT - 2 * _MARGIN)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tools.speed_page FILE.html")
    runs = _results.read_all(_results.FOLDER)
    Path(sys.argv[1]).write_text(page(runs), encoding="utf-8")
    print(f"{sys.argv[1]}: {len(runs)} runs")


if __name__ == "__main__":
    main()
