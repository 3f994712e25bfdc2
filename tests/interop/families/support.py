"""Writes docs/fuse_support.md: what `fuse` does to a tiny model of every family of transformers, and what it changes.

`python -m tests.interop.families.support [--speed FOLDER] [FAMILY ...]`, which is `make fuse-support`. With names it
makes the rows of these alone and keeps the others; FOLDER has what `benchmarks.models.families --results` wrote.
"""

import argparse
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
import transformers

from benchmarks import _results
from benchmarks._results import Run
from burnlike.interop import FuseReport

from .comparing import NOT_IN_BFLOAT16, compare
from .tiny_transformers import NotTiny, families, tiny_model

PAGE = Path(__file__).parents[3] / "docs" / "fuse_support.md"
FAMILIES = PAGE.parent / "fuse_support" / "families.md"
OF_MACHINES = ("linear", "convolution", "dropout", "batch_norm", "channels_last")
"""Ops that are put in by what the CPU is: the page leaves them out."""

_TEMPLATES = [Path(__file__).with_name(it) for it in ("support.md", "support_families.md")]


def _not_tiny() -> dict[str, str]:
    """The families without a tiny model, each with the reason; the file says a reason, then the families."""
    found: dict[str, str] = {}
    reason = ""
    for line in (Path(__file__).parent / "not_tiny.txt").read_text().splitlines():
        if line.startswith("# "):
            reason = line.removeprefix("# ")
        else:
            found |= dict.fromkeys(line.split(), reason)
    return found


NOT_TINY = _not_tiny()


def ops_of(report: FuseReport) -> str:
    """The ops of a report, each with the number of modules that call it."""
    counts = Counter(op for it in report.fused for op in it.ops if op not in OF_MACHINES)
    return ", ".join(f"{op} {count}" for op, count in sorted(counts.items())) or "none"


def rows_of(page: str) -> dict[str, str]:
    """By family, its ops on the page, or why there is no tiny model."""
    rows = dict(re.findall(r"^\| `([\w.-]+)` \| ([^|]+) \| [^|]* \| [^|]* \|$", page, re.MULTILINE))
    for reason, names in re.findall(r"^\* \*\*(.+?)\*\*: (.+)$", page, re.MULTILINE):
        rows |= dict.fromkeys(re.findall(r"`([\w.-]+)`", names), reason) if reason in NOT_TINY.values() else {}
    return rows


def row(family: str) -> str:
    """The line of a family in the table."""
    report, apart = compare(*tiny_model(family), bfloat16=family not in NOT_IN_BFLOAT16)
    if apart.fused is None or apart.stock is None:
        in_bfloat16 = "the stock model raises"
    else:
        in_bfloat16 = f"{apart.fused:.1g}, stock {apart.stock:.1g}"
    return f"| `{family}` | {ops_of(report)} | {apart.float32:.0e} | {in_bfloat16} |"


def speed_of(runs: Sequence[Run]) -> str:
    """The table of the most used families, of the last that was measured of each."""
    last = {row.name: row for run in runs for row in run.rows.get("models.families", ())}
    found: dict[str, list[str]] = {}
    for name, it in last.items():
        family = name.partition(", ")[0]
        found.setdefault(family, []).extend((f"{it.ours_ms:.1f} ms", f"{it.theirs_ms:.1f} ms", f"{it.ratio:.2f}x"))
    lines = [f"| `{family}` | {' | '.join(cells)} |" for family, cells in found.items()]
    head = "| family | float32, fused | stock | ratio | bfloat16, fused | stock | ratio |"
    return "\n".join([head, "| --- | --- | --- | --- | --- | --- | --- |", *lines])


def written(rows: dict[str, str], speed: str) -> list[str]:
    """The pages: those that are used most, and every family."""
    without: dict[str, list[str]] = {}
    for family, reason in NOT_TINY.items():
        without.setdefault(reason, []).append(f"`{family}`")
    others = [f"* **{reason}**: {', '.join(sorted(names))}" for reason, names in without.items()]
    values = {
        "count": len(families()),
        "version": transformers.__version__,
        "speed": speed,
        "rows": "\n".join(rows[family] for family in families() if family in rows),
        "others": "\n".join(others),
    }
    return [it.read_text().format_map(values) for it in _TEMPLATES]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="FAMILY")
    parser.add_argument("--speed", type=Path)
    arguments = parser.parse_args()
    page = "\n".join(it.read_text() for it in (PAGE, FAMILIES) if it.exists())
    rows = {
        name: line
        for line in page.splitlines()
        for name in re.findall(r"^\| `([\w.-]+)` \|(?=[^|]*\|[^|]*\|[^|]*\|$)", line)
    }
    speed = (re.findall(r"^\| family \| float32, fused.*?(?=\n\n)", page, re.MULTILINE | re.DOTALL) or [""])[0]
    failed = 0
    for family in arguments.names or ([] if arguments.speed else families()):
        begin = time.monotonic()
        try:
            rows[family] = row(family)
            print(f"{rows[family]} {time.monotonic() - begin:.1f} s", flush=True)
        except NotTiny as error:
            rows.pop(family, None)
            if NOT_TINY.get(family) != str(error):
                print(f"{family}: not tiny, as it {error}: not_tiny.txt says otherwise", flush=True)
            failed += family not in NOT_TINY or NOT_TINY[family] != str(error)
        except Exception as error:  # of a foreign model; its row stays as it was
            failed += 1
            print(f"{family}: FAILED {type(error).__name__}: {str(error)[:400]}", flush=True)
    if arguments.speed:
        speed = speed_of(_results.read_all(arguments.speed))
    for file, text in zip((PAGE, FAMILIES), written(rows, speed), strict=True):
        file.write_text(text)
    return 1 if failed else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.exit(main())
