"""The page of a report: one file that needs nothing else."""

import base64
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .... import __version__
from ...runs.run_files import RunFiles
from ..formats import format_elapsed
from ..summary import LearnerSummary
from . import sections
from .chart import Axis, Names, chart, chart_data
from .curves import curves_of
from .markup import Html, tag


def report_page(runs: list[RunFiles]) -> str:
    """A page about one run, or about several beside one another.

    It loads nothing, and its policy lets a browser run no script but its own: text of a run can't become one.

    Args:
        runs: at least one.
    """
    names = _names(runs)
    summaries = [LearnerSummary.of(run.lines) for run in runs]
    is_single = len(runs) == 1
    title = names[0] if is_single else f"{len(runs)} runs"
    charts, data = _charts(runs, Names(names))
    parts = [
        _header(runs, title),
        sections.problems(runs, names),
        sections.tiles(summaries[0]) if is_single else sections.comparison(runs, names, summaries),
        sections.section("Curves", charts, id_="curves"),
        *_per_run("Values", runs, names, [_listed(sections.values(*it)) for it in zip(runs, summaries, strict=True)]),
        *_per_run("Samples", runs, names, [sections.samples(run) for run in runs]),
        sections.section("Config", *sections.configs(runs, names), id_="config"),
        sections.section("Environment", sections.environments(runs, names), id_="environment"),
        sections.section("Checkpoints", sections.checkpoints(runs, names), id_="checkpoints"),
        tag("footer", f"burnlike {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
    ]
    body = tag("body", tag("main", *parts), _data(data), tag("script", Html(_asset("report.js"))))
    return f"<!DOCTYPE html>\n{tag('html', _head(title), body, lang='en')}\n"


def _head(title: str) -> Html:
    script = base64.b64encode(hashlib.sha256(_asset("report.js").encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{script}'"
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(_asset("report.css"))),
    )


def _header(runs: list[RunFiles], title: str) -> Html:
    if len(runs) > 1:
        return tag("header", tag("h1", title))
    (run,) = runs
    epochs = max((line["epoch"] + 1 for line in run.lines), default=0)
    said = [f"{run.steps:,} steps", f"{epochs} epoch{'s' * (epochs != 1)}"]
    said += [] if run.seconds is None else [format_elapsed(run.seconds)]
    started = str(run.environment.get("started", ""))[:16].replace("T", " ")
    said += [f"started {started} UTC"] if started else []
    return tag("header", tag("h1", title, " ", sections.badge(run)), tag("p", " · ".join(said)))


def _charts(runs: list[RunFiles], names: Names) -> tuple[Html | None, dict[str, Any]]:
    found = curves_of(runs)
    if not found:
        return None, {}
    all_steps = [x for curves in found for series in curves.series for x, _ in series.points]
    steps = Axis(0.0, max(*all_steps, 1.0))
    drawn = [chart(curves, names, steps, number) for number, curves in enumerate(found)]
    legend = None
    if not names.is_single:
        items = [tag("li", sections.swatch(place), name) for place, name in enumerate(names.runs)]
        legend = tag("ul", *items, class_="legend")
    note = (
        None
        if names.is_single
        else tag("p", "Pale curves are of the training, full ones of the validation.", class_="note")
    )
    data = {"low": steps.low, "high": steps.high, "charts": [chart_data(curves, names) for curves in found]}
    return tag("div", legend, note, tag("div", *drawn, class_="charts")), data


def _data(data: dict[str, Any]) -> Html:
    """The data for the script: JSON, in which no `<` can end the element."""
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return tag("script", Html(text), type="application/json", id="data")


def _per_run(title: str, runs: list[RunFiles], names: list[str], found: list[list[Html]]) -> list[Html | None]:
    """A section with a part for each run that has one, folded where there are several."""
    if len(runs) == 1:
        return [sections.section(title, *found[0], id_=title.lower())]
    parts = [tag("details", tag("summary", name), *it) for name, it in zip(names, found, strict=True) if it]
    return [sections.section(title, *parts, id_=title.lower())]


def _listed(content: Html | None) -> list[Html]:
    return [] if content is None else [content]


def _names(runs: list[RunFiles]) -> list[str]:
    """The names of the directories, or the paths where two have the same name."""
    names = [run.name for run in runs]
    return [name if names.count(name) == 1 else str(run.path) for name, run in zip(names, runs, strict=True)]


def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
