"""Pages of figures, drawn of benchmarks/results: bars of each row on each machine, and its ratio over the runs."""

import ast
import statistics
from collections.abc import Sequence

from benchmarks import _results
from benchmarks._results import Comparison, Key, Run
from burnlike.train.view.report.chart import Axis, Html, tag, value_axis
from tools.pages import DOCS, table

_WIDTH, _HEIGHT, _MARGIN = 240, 48, 6
TITLES = {
    "models.step": "A training step",
    "models.generate": "Generation",
    "ops.attention": "Attention",
    "ops.cross_entropy": "Cross entropy",
    "ops.half_products": "Products in 16 bits",
    "ops.rms_norm": "RMS normalization",
    "ops.swiglu": "SwiGLU",
    "optim.kernel_optimizers": "Optimizer steps",
    "tensor.overhead": "Typed tensors, one operation",
}
HEADLINES = (
    ("models.step", "llama eager float32", "a training step of transformers' Llama after `fuse`, float32"),
    ("models.step", "llama eager bfloat16", "the same in bfloat16"),
    ("models.generate", "generate eager float32, batch 1", "64 tokens of a Llama of 14 M, float32"),
    ("ops.cross_entropy", "cross_entropy 1024 x 32000 float32", "cross entropy, 1024 x 32000"),
    ("ops.rms_norm", "rms_norm 4096 x 1024 float32", "RMS normalization, 4096 x 1024"),
    ("ops.attention", "attention 4 x 6 x 512 x 64 bfloat16", "attention, 4 x 6 x 512 x 64, bfloat16"),
    ("ops.swiglu", "swiglu 4096 x 2816 bfloat16", "SwiGLU, 4096 x 2816, bfloat16"),
    ("optim.kernel_optimizers", "Adam, 300 x 64 values", "Adam, 300 tensors of 64 values"),
    ("optim.kernel_optimizers", "Adam, 67.1 M values", "Adam, 67.1 M values"),
    ("ops.half_products", "linear 1024 x 384 x 1024 bfloat16", "a linear layer in bfloat16, without such instructions"),
    ("tensor.overhead", "Cpu: x + y", "one sum of two typed tensors of 8 values"),
)
"""The rows that the page of all figures draws: what is most used, and what is slower."""
_MEMORY = ", MB for ms"
"""How the name of a row ends whose numbers are megabytes."""
_HOW = """
Both sides of a row run in one process, alternating call by call; a figure is the median of its calls. The ratio is the
other side's time divided by ours: above 1 ours is faster. Goals are target ratios; missed goals are marked.
Nothing was measured on a GPU yet.
"""
_RUN = """
On your machine, `make bench` measures all (an hour), and `make bench NAMES="ops.swiglu models.step"` some; each run
writes a file to `benchmarks/results`, and `make docs-site` draws it. `make bench-check` fails where a row has
fallen below 0.95 of its last value on the same kind of machine.
"""


def pages(runs: Sequence[Run] | None = None) -> dict[str, str]:
    """The pages by their place in the site, of runs in the order of their times."""
    runs = _results.read_all(_results.FOLDER) if runs is None else runs
    names = dict.fromkeys(name for run in runs for name in run.rows)
    found = {f"figures/{name}.md": _page(name, runs) for name in names}
    return found | {"figures/index.md": _overview([*names], runs)}


def _machines(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.machine for run in reversed(runs)))


def _about(name: str) -> str:
    """What the file of a benchmark says of it."""
    file = DOCS.parent / "benchmarks" / f"{name.replace('.', '/')}.py"
    return (ast.get_docstring(ast.parse(file.read_text())) or "") if file.exists() else ""


def _overview(names: Sequence[str], runs: Sequence[Run]) -> str:
    parts = ["# Figures\n", _HOW]
    for number, machine in enumerate(_machines(runs)):
        last = _results.last_values(runs, machine)
        parts.append(f"\n## {machine}\n\n")
        if drawn := _headlines(last):
            parts.append(f"```{{raw}} html\n{drawn}\n```\n\n")
        rows = []
        for name in names:
            if found := [row for (benchmark, _, _), (row, _) in last.items() if benchmark == name]:
                bars = [row for row in found if row.bar is not None]
                reached = f"{sum(row.ratio >= (row.bar or 0) for row in bars)} of {len(bars)}" if bars else "-"
                ratios = [row.ratio for row in found]
                spread = f"{min(ratios):.2f}x to {max(ratios):.2f}x"
                link = f"[{TITLES.get(name, name)}]({name}.md)"
                rows.append(("", link, f"{len(found)}", f"{statistics.median(ratios):.2f}x", spread, reached))
        heads = ("benchmark", "rows", "median ratio", "from, to", "goals reached")
        parts.append(table("", heads, rows))
        if number == 0:
            parts.append(_RUN)
    return "".join(parts)


def _headlines(last: dict[Key, tuple[Comparison, Run]]) -> Html | None:
    """One picture of the ratios of `HEADLINES`; None where none of them was measured."""
    by_name: dict[tuple[str, str], tuple[Comparison, Run]] = {}
    for (benchmark, name, _), it in last.items():
        by_name.setdefault((benchmark, name), it)
    found = [(told, *by_name[benchmark, name]) for benchmark, name, told in HEADLINES if (benchmark, name) in by_name]
    if not found:
        return None
    longest = max(row.ratio for _, row, _ in found)
    rows: list[Html] = []
    for told, row, _ in found:
        width = f"width: {row.ratio / longest * 100:.1f}%"
        bar = tag("span", class_=f"bar {'ours' if row.ratio >= 1 else 'theirs'}", style=width)
        against = tag("small", f"{row.ours_ms:.3g} ms, {row.theirs} {row.theirs_ms:.3g} ms")
        rows += [tag("dt", told.replace("`", ""), against), tag("dd", bar, tag("span", f"{row.ratio:.2f}x"))]
    versions = "; ".join(dict.fromkeys(_at(run) for _, _, run in found))
    told = tag("figcaption", tag("b", "How many times as fast, of what is most used"), tag("small", versions))
    return tag("figure", told, tag("dl", *rows), class_="speed headlines")


def _page(name: str, runs: Sequence[Run]) -> str:
    title = TITLES.get(name, name)
    parts = [f"# {title}\n\n{_about(name)}\n{_HOW}\nOn your machine: `make bench NAMES={name}`.\n"]
    for machine in _machines(runs):
        last = {key: it for key, it in _results.last_values(runs, machine).items() if key[0] == name}
        here = [run for run in runs if run.machine == machine]
        if last:
            drawn = "\n".join(_figures(last, here))
            parts.append(f"\n## {machine}\n\n```{{raw}} html\n{drawn}\n```\n")
    return "".join(parts)


def _figures(rows: dict[Key, tuple[Comparison, Run]], runs: Sequence[Run]) -> list[Html]:
    """A figure for each name, with the pairs of bars of all that it is compared with."""
    names = dict.fromkeys(name for _, name, _ in rows)
    found = []
    for name in names:
        here = {key: it for key, it in rows.items() if key[1] == name}
        longest = max(max(row.ours_ms, row.theirs_ms) for row, _ in here.values())
        pairs = [
            _pair(row, longest, [(it, it.by_key[key]) for it in runs if key in it.by_key])
            for key, (row, _) in here.items()
        ]
        last = {_at(run): None for _, run in here.values()}
        threads = next(row.threads for row, _ in here.values())
        told = tag(
            "figcaption", tag("b", name.removesuffix(_MEMORY)), tag("small", f"{'; '.join(last)}; {threads} threads")
        )
        found.append(tag("figure", told, *pairs, class_="speed"))
    return found


def _at(run: Run) -> str:
    versions = f"torch {run.versions['torch']}, Python {run.versions['python']}"
    return f"{versions}, commit {run.commit[:8]}, {run.time[:10]}"


def _pair(row: Comparison, longest: float, history: Sequence[tuple[Run, Comparison]]) -> Html:
    missed = row.bar is not None and row.ratio < row.bar
    bar = "" if row.bar is None else f"goal {row.bar:.3g}x{', missed' if missed else ''}"
    ratio = tag(
        "p",
        tag("b", f"{row.ratio:.2f}x", class_="missed" if missed else None),
        tag("small", bar),
        tag("small", row.note) if row.note else None,
    )
    unit = "MB" if row.name.endswith(_MEMORY) else "ms"
    ours = _side("burnlike", row.ours_ms, unit, longest, "ours")
    bars = tag("dl", *ours, *_side(row.theirs, row.theirs_ms, unit, longest, "theirs"))
    return tag("div", bars, ratio, _plot(history) if len(history) > 1 else None)


def _side(name: str, value: float, unit: str, longest: float, kind: str) -> list[Html]:
    length = tag("span", class_=f"bar {kind}", style=f"width: {max(0.5, value / longest * 100):.1f}%")
    return [tag("dt", name), tag("dd", length, tag("span", f"{value:.3g} {unit}"))]


def _plot(history: Sequence[tuple[Run, Comparison]]) -> Html:
    values = [row.ratio for _, row in history]
    bar = history[-1][1].bar
    axis = value_axis([*values, *([] if bar is None else [bar])], may_be_log=False, from_zero=True)
    across = Axis(0.0, float(max(len(history) - 1, 1)))
    places = [(across.place(number) * _WIDTH, _y(axis, value)) for number, value in enumerate(values)]
    path = " ".join(f"{'L' if number else 'M'}{x:.1f} {y:.1f}" for number, (x, y) in enumerate(places))
    said = [tag("title", f"{run.commit[:8]}, {run.time[:10]}: {row.ratio:.2f}x") for run, row in history]
    dots = [tag("circle", it, cx=f"{x:.1f}", cy=f"{y:.1f}", r=3) for it, (x, y) in zip(said, places, strict=True)]
    line = None if bar is None else tag("line", x1=0, x2=_WIDTH, y1=_y(axis, bar), y2=_y(axis, bar), class_="goal")
    told = f"ratios of {len(values)} runs: " + ", ".join(f"{it:.2f}" for it in values)
    view = f"0 0 {_WIDTH} {_HEIGHT}"
    return tag("svg", line, tag("path", d=path), *dots, viewBox=view, role="img", aria_label=told)


def _y(axis: Axis, value: float) -> float:
    return _HEIGHT - _MARGIN - axis.place(value) * (_HEIGHT - 2 * _MARGIN)
