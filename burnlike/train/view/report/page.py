"""The page of a report, one file that needs nothing else; of several processes also what each did."""

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from .... import __version__
from ...._regular_file import read_regular
from ...runs.run_files import RunFiles, config_differences, evaluated_on
from ..formats import RATE, LearnerSummary, MetricSummary, format_bytes, format_elapsed, format_value, is_quality
from .chart import COLORS, Axis, Html, Names, chart, chart_data, curves_of, grid, split_name, tag

_PEAKS = {
    r"A100(-(SXM4|PCIE)-\d+GB| 80GB PCIe)": 312.0,
    r"A10": 125.0,
    r"A10G": 70.0,
    r"L4": 121.0,
    r"L40": 181.0,
    r"L40S": 362.0,
    r"H100 80GB HBM3": 989.0,
    r"H100 PCIe": 756.0,
    r"H(100|200) NVL": 835.0,
    r"H200|GH200 .*": 989.0,
    r"B200": 2250.0,
}
"""TFLOP/s of dense products in 16 bits, as NVIDIA's data sheets say, by whole names of devices: a part of one (MIG) is
none of them."""
_NOTE = (
    "Waiting: the share of a step between the beginning of an exchange here and that of the last process, as torch's"
    " flight recorder notes them; the time that the data take is not in it."
)
_WORK_NOTE = (
    " TFLOP/s: the products of the model's forward and backward pass, divided equally among the processes. Attention"
    " counts whole, with what a mask hides; what activation_checkpointing computes again does not count, nor gradients"
    " of what is not trained (PaLM, Chowdhery et al. 2022, appendix B)."
)


class Work(NamedTuple):
    """Floating-point operations of a training, and the peak rate of a device.

    Attributes:
        flops: of a process in a step; None where it is not known.
        peak_tflops: of one device; None where it is not known.
        problem: why the operations are not known.
    """

    flops: float | None
    peak_tflops: float | None = None
    problem: str = ""


def peak_tflops_of(run: RunFiles) -> float | None:
    """The TFLOP/s of a device of the run in 16 bits; None for other trainings and devices."""
    values, devices = run.config.get, run.environment.get("devices")
    types = values("training.precision"), values("distributed.precision.params"), values("model.dtype")
    is_16_bits = any(it in ("bfloat16", "float16") for it in types) and not values("training.float8.recipe")
    if not is_16_bits or values("device") == "cpu" or not isinstance(devices, list) or not devices:
        return None
    name = str(devices[0]).removeprefix("NVIDIA ")
    return next((peak for pattern, peak in _PEAKS.items() if re.fullmatch(pattern, name)), None)


def count_of(run: RunFiles) -> int:
    """The number of processes of a run in its last part."""
    return len(run.ranks[-1].get(_rates(run), ()))


def _rates(run: RunFiles) -> str:
    return next((name for name in run.ranks[-1] if name.endswith(RATE)), "")


def processes(run: RunFiles, work: Work | None) -> list[Html]:
    """A row for each process of the run's last part; nothing of a single one."""
    if not run.ranks:
        return []
    rates, count = _rates(run), count_of(run)
    looks = [it for it in run.ranks if len(it.get(rates, ())) == len(it.get("waiting", ())) == count]
    if not count or not looks:
        return []
    hosts = looks[-1].get("host", ())
    times = [look["seconds_per_step"] for look in looks if "seconds_per_step" in look]
    done: list[object] = []
    note = _NOTE
    heads: list[object] = ["rank", "host", f"{rates.removesuffix(RATE)}/s", "waiting"]
    if work is not None and work.problem:
        note += f" FLOPs are not known: {work.problem}"
    if work is not None and work.flops is not None and times:
        tflops = work.flops / fmean(times) / 1e12
        done = [f"{tflops:.3g}", *([] if work.peak_tflops is None else [f"{tflops / work.peak_tflops:.1%}"])]
        heads += ["TFLOP/s", "MFU"][: len(done)]
        note += _WORK_NOTE
        if work.peak_tflops is not None:
            note += f" MFU: their share of {work.peak_tflops:g} TFLOP/s."
    rows: list[list[object]] = []
    for rank in range(count):
        rate, wait = (fmean(look[name][rank] or 0.0 for look in looks) for name in (rates, "waiting"))
        host = hosts[rank] if rank < len(hosts) else "-"
        rows.append([str(rank), host, format_value(rate), f"{wait:.1%}", *done])
    return [grid(heads, rows, class_="numbers"), tag("p", note, class_="note")]


_LONGEST_TEXT = 50_000
_MOST_IMAGES, _LARGEST_IMAGE = 24, 4_000_000
_IMAGES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}
"""The types of images, by how their files begin."""
SAMPLES_NAME = "samples"


def section(title: str, *content: Html | None, id_: str) -> Html | None:
    parts = [it for it in content if it]
    return tag("section", tag("h2", title), *parts, id=id_) if parts else None


def badge(run: RunFiles) -> Html:
    return tag("span", run.state, class_=f"badge {run.state}", title=run.reason or None)


def swatch(place: int) -> Html:
    return tag("i", class_=f"dot b{place % COLORS}")


def problems(runs: list[RunFiles], names: list[str]) -> Html | None:
    messages = [(name, text) for run, name in zip(runs, names, strict=True) for text in run.problems]
    messages += [(name, f"failed: {it.reason}") for it, name in zip(runs, names, strict=True) if it.state == "failed"]
    if not messages:
        return None
    return tag(
        "ul", *(tag("li", tag("b", name), " ", text) for name, text in messages), class_="problems", role="alert"
    )


def tiles(summary: LearnerSummary) -> Html:
    measured = [metric for metric in summary.metrics if metric.split == "valid" and is_quality(metric.name)]
    shown = [(it.best.value, f"best validation {it.name}, epoch {it.best.epoch}") for it in measured[:4]]
    if (loss := summary.find("train", "loss")) is not None:
        shown.append((loss.last, "training loss, last epoch"))
    rates = [metric for metric in summary.metrics if metric.name.endswith(RATE)]
    shown += [(rate.last, f"{rate.name.removesuffix(RATE)} per second") for rate in rates[:1]]
    boxes = [tag("div", tag("b", format_value(value)), tag("span", text), class_="tile") for value, text in shown]
    return tag("div", *boxes, class_="tiles")


def comparison(runs: list[RunFiles], names: list[str], summaries: list[LearnerSummary]) -> Html:
    metrics = [*dict.fromkeys(it.name for summary in summaries for it in summary.metrics if is_quality(it.name))]
    best: dict[str, float] = {}
    for name in metrics:
        shown = [metric for it in summaries if (metric := _shown(it, name)) is not None]
        best[name] = (min if shown[0].low_is_good else max)(metric.best.value for metric in shown)
    rows: list[list[object]] = []
    for place, (run, summary) in enumerate(zip(runs, summaries, strict=True)):
        time = "-" if run.seconds is None else format_elapsed(run.seconds)
        row: list[object] = [tag("td", swatch(place), names[place]), badge(run), f"{run.steps:,}", time]
        for name in metrics:
            metric = _shown(summary, name)
            if metric is None:
                row.append("-")
                continue
            text = str(metric.best)
            value = tag("b", text) if len(runs) > 1 and metric.best.value == best[name] else tag("span", text)
            row.append(tag("td", value, tag("small", f"last {format_value(metric.last)}")))
        rows.append(row)
    heads: list[object] = ["run", "state", "steps", "time", *(f"best {name}" for name in metrics)]
    note = "In brackets: the epoch. Below: the value of the last epoch."
    return tag("div", grid(heads, rows, class_="numbers"), tag("p", note, class_="note"), class_="top")


def _shown(summary: LearnerSummary, name: str) -> MetricSummary | None:
    return summary.find("valid", name) or next((metric for metric in summary.metrics if metric.name == name), None)


def values(run: RunFiles, summary: LearnerSummary) -> Html | None:
    """First, last, lowest and highest value of each metric, and the final measurement."""
    if not summary.metrics:
        return None
    heads: list[object] = ["split", "metric", "first", "last", "lowest (epoch)", "highest (epoch)", "at the end"]
    rows: list[list[object]] = []
    for metric in summary.metrics:
        end = run.values.get(metric.split, {}).get(metric.name)
        of_epochs = format_value(metric.first), format_value(metric.last), str(metric.lowest), str(metric.highest)
        rows.append([split_name(metric.split), metric.name, *of_epochs, format_value(end)])
    in_metrics = {(it.split, it.name) for it in summary.metrics}
    for split, measured in run.values.items():
        for name in (it for it in measured if (split, it) not in in_metrics):
            rows.append([split_name(split), name, "-", "-", "-", "-", format_value(measured[name])])
    return grid(heads, rows, class_="numbers")


def evaluations(run: RunFiles) -> Html | None:
    """The results of `burnlike evaluate`, a row for each time it ran."""
    if not run.evaluations:
        return None
    names = [*dict.fromkeys(name for evaluation in run.evaluations for name in evaluation["values"])]
    about = ["time", "split", "step", "weights"]
    rows: list[list[object]] = [
        [
            *(str(evaluation.get(name)) for name in about),
            evaluated_on(evaluation) or "the run's",
            *(format_value(evaluation["values"].get(name)) for name in names),
        ]
        for evaluation in run.evaluations
    ]
    return grid([*about, "data", *names], rows, class_="numbers")


def samples(run: RunFiles) -> list[Html]:
    parts: list[Html] = []
    short = {label: note for label, note in run.task_notes.items() if not (isinstance(note, str) and len(note) > 60)}
    if short:
        shown = [[label, format_value(it) if isinstance(it, float) else str(it)] for label, it in short.items()]
        parts.append(grid(["", ""], [[*row] for row in shown], class_="plain"))
    for label, text in run.task_notes.items():
        if label not in short:
            parts.append(tag("figure", tag("figcaption", label), tag("pre", _cut(text)), class_="sample"))
    return [*parts, *_sample_files(run.path)]


def _sample_files(run: Path) -> list[Html]:
    try:
        files = sorted(path for path in (run / SAMPLES_NAME).iterdir() if path.is_file())
    except OSError:
        return []
    texts: list[Html] = []
    images: list[Html] = []
    for file in files:
        try:
            data = read_regular(file, _LARGEST_IMAGE + 1, run)
        except OSError:
            continue
        kind = next((name for head, name in _IMAGES.items() if data.startswith(head)), None)
        if kind is not None and len(data) <= _LARGEST_IMAGE and len(images) < _MOST_IMAGES:
            source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
            images.append(
                tag("figure", tag("img", src=source, alt=file.stem, loading="lazy"), tag("figcaption", file.stem))
            )
        elif file.suffix == ".txt":
            text = data.decode("utf-8", "replace")
            texts.append(tag("figure", tag("figcaption", file.stem), tag("pre", _cut(text)), class_="sample"))
    return [*texts, *([tag("div", *images, class_="images")] if images else [])]


def configs(runs: list[RunFiles], names: list[str]) -> list[Html]:
    parts: list[Html] = []
    if len(runs) > 1:
        differing = config_differences(runs)
        rows = [[tag("code", name), *("-" if it is None else str(it) for it in row)] for name, row in differing.items()]
        parts.append(grid(["field", *names], rows) if rows else tag("p", "The configs are the same."))
    for run, name in zip(runs, names, strict=True):
        if run.config_text:
            title = "config.yaml" if len(runs) == 1 else name
            is_open = "" if len(runs) == 1 else None
            parts.append(tag("details", tag("summary", title), tag("pre", _cut(run.config_text)), open=is_open))
    return parts


def environments(runs: list[RunFiles], names: list[str]) -> Html | None:
    shown = [_environment(run) for run in runs]
    fields = dict.fromkeys(name for it in shown for name in it)
    values: dict[str, list[object]] = {name: [it.get(name, "-") for it in shown] for name in fields}
    common: list[list[object]] = [[name, it[0]] for name, it in values.items() if all(one == it[0] for one in it)]
    others: list[list[object]] = [[name, *it] for name, it in values.items() if any(one != it[0] for one in it)]
    tables = [grid(["", *names], others)] if others else []
    tables += [grid(["", ""], common, class_="plain")] if common else []
    return tag("div", *tables, class_="stack") if tables else None


def _environment(run: RunFiles) -> dict[str, object]:
    shown: dict[str, object] = {}
    for name, value in run.environment.items():
        if name == "command" and isinstance(value, list):
            shown[name] = tag("code", shlex.join(map(str, value)))
        elif name == "git" and isinstance(value, dict):
            changed = " with changed files" if value.get("is_dirty") else ""
            shown[name] = tag("code", f"{str(value.get('commit'))[:12]}{changed}")
        elif isinstance(value, list):
            shown[name] = ", ".join(map(str, value)) or "-"
        else:
            shown[name] = "-" if value is None else str(value)
    return shown


def checkpoints(runs: list[RunFiles], names: list[str]) -> Html | None:
    rows: list[list[object]] = [
        [name, f"{it.step:,}", tag("code", f"{run.path}/checkpoints/{it.name}"), format_bytes(it.size)]
        for run, name in zip(runs, names, strict=True)
        for it in run.checkpoints
    ]
    first = int(len(runs) == 1)  # the name of the only run is left out
    heads: list[object] = ["run", "step", "directory", "size"]
    return grid(heads[first:], [row[first:] for row in rows]) if rows else None


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}\n... ({len(text):,} characters)"


def report_page(runs: list[RunFiles], works: Sequence[Work | None] = ()) -> str:
    """A page about one run, or about several beside one another; `works` say what each computes for one value.

    It loads nothing, and its policy lets a browser run no script but its own: text of a run can't become one.
    """
    names = [run.name for run in runs]  # of the directories, or the paths where two have the same name
    names = [name if names.count(name) == 1 else str(run.path) for name, run in zip(names, runs, strict=True)]
    summaries = [LearnerSummary.of(run.lines, run.directions) for run in runs]
    is_single = len(runs) == 1
    title = names[0] if is_single else f"{len(runs)} runs"
    header = tag("header", tag("h1", title))
    if is_single:
        (run,) = runs
        epochs = max((line["epoch"] + 1 for line in run.lines), default=0)
        facts = [f"{run.steps:,} steps", f"{epochs} epoch{'s' * (epochs != 1)}"]
        facts += [] if run.seconds is None else [format_elapsed(run.seconds)]
        started = str(run.environment.get("started", ""))[:16].replace("T", " ")
        facts += [f"started {started} UTC"] if started else []
        header = tag("header", tag("h1", title, " ", badge(run)), tag("p", " · ".join(facts)))
    charts, data = _charts(runs, Names(names))
    parts = [
        header,
        problems(runs, names),
        tiles(summaries[0]) if is_single else comparison(runs, names, summaries),
        section("Curves", charts, id_="curves"),
        *_per_run("Values", runs, names, [[*filter(None, [values(*it)])] for it in zip(runs, summaries, strict=True)]),
        *_per_run("Processes", runs, names, [processes(*it) for it in zip_longest(runs, works)]),
        *_per_run("Evaluations", runs, names, [[*filter(None, [evaluations(run)])] for run in runs]),
        *_per_run("Samples", runs, names, [samples(run) for run in runs]),
        section("Config", *configs(runs, names), id_="config"),
        section("Environment", environments(runs, names), id_="environment"),
        section("Checkpoints", checkpoints(runs, names), id_="checkpoints"),
        tag("footer", f"burnlike {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
    ]
    # JSON for the script, in which no `<` of a run's text can end the element.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    plotted = tag("script", Html(text), type="application/json", id="data")
    body = tag("body", tag("main", *parts), plotted, tag("script", Html(_asset("report.js"))))
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
        tag("meta", name="generator", content="burnlike report"),  # the next report may replace it
        tag("title", title),
        tag("style", Html(_asset("report.css"))),
    )


def _charts(runs: list[RunFiles], names: Names) -> tuple[Html | None, dict[str, Any]]:
    all_curves = curves_of(runs)
    if not all_curves:
        return None, {}
    all_steps = [x for curves in all_curves for series in curves.series for x, _ in series.points]
    steps = Axis(0.0, max(*all_steps, 1.0))
    drawn = [chart(curves, names, steps, number) for number, curves in enumerate(all_curves)]
    legend = note = None
    if not names.is_single:
        items = [tag("li", swatch(place), name) for place, name in enumerate(names.runs)]
        legend = tag("ul", *items, class_="legend")
        note = tag("p", "Pale curves are of the training, full ones of the validation.", class_="note")
    data = {"low": steps.low, "high": steps.high, "charts": [chart_data(curves, names) for curves in all_curves]}
    return tag("div", legend, note, tag("div", *drawn, class_="charts")), data


def _per_run(title: str, runs: list[RunFiles], names: list[str], contents: list[list[Html]]) -> list[Html | None]:
    """A section with a part for each run that has one, folded where there are several."""
    if len(runs) == 1:
        return [section(title, *contents[0], id_=title.lower())]
    parts = [tag("details", tag("summary", name), *it) for name, it in zip(names, contents, strict=True) if it]
    return [section(title, *parts, id_=title.lower())]


def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
