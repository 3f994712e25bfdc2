"""`burnlike diff A B`: shows the differences between two records, whatever their formats."""

import argparse
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...errors import RecordError
from ...record.metadata import to_json
from ..options import add_shared, printable, say, say_json, shortened
from ..record_options import add_layout_options, layout_of, model_of, open_file

if TYPE_CHECKING:
    from ...record.tools.comparison import Comparison, TensorDifference

EQUAL, DIFFERENT = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Compare two records: names, ids, shapes, types, values. Exit status: 0 if they are equal, 1 if they differ,"
        " 2 if one can't be read."
    )
    parser.add_argument("a", metavar="A", help="a record of any format")
    parser.add_argument("b", metavar="B", help="another one; the formats need not be the same")
    add_shared(parser, "--json")
    text = "let values be apart by X, absolutely or relative to the larger, and types be of another width"
    parser.add_argument("--tolerance", metavar="X", help=text)
    parser.add_argument("--ignore-ids", action="store_true", help="do not compare ids")
    add_layout_options(parser)


def run(args: argparse.Namespace) -> int:
    """Print what differs; 0 if the records are equal, 1 if they differ."""
    tolerance = None
    if args.tolerance is not None:
        with suppress(ValueError):
            tolerance = float(args.tolerance)
        if tolerance is None or not 0 <= tolerance < math.inf:
            raise RecordError(f"--tolerance {args.tolerance}: expected a number from 0 on, such as 1e-3")
    layout = layout_of(args, model_of(args))
    one, other = open_file(args.a, layout), open_file(args.b, layout)
    from ...record.tools.comparison import compare

    comparison = compare(one, other, tolerance, ids=not args.ignore_ids)
    if args.json:
        say_json(_summary(args, comparison, tolerance))
    else:
        say("\n".join(_lines(printable(args.a), printable(args.b), comparison)))
    return EQUAL if comparison.is_equal else DIFFERENT


def _lines(a: str, b: str, comparison: "Comparison") -> Iterator[str]:
    if comparison.other_ids_only:
        others = sum(it.ids is not None for it in comparison.tensors)
        count = f"{others} of {comparison.compared} tensors have other ids"
        yield f"equal but for ids: {count} (--ignore-ids leaves them out)"
        return
    for only, names in ((a, comparison.extra), (b, comparison.missing)):
        yield from (f"{printable(name)}: only in {only}" for name in names)
    for tensor in comparison.tensors:
        yield f"{printable(tensor.name)}: {'; '.join(_parts(tensor))}"
    for path, (one, other) in comparison.values.items():
        yield f"value {printable(path)}: {_shown(one)} and {_shown(other)}"
    different = sum(not it.is_equal for it in comparison.tensors)
    if comparison.is_equal:
        within = ", within the tolerance" if comparison.tensors else ""
        yield f"equal{within}: {comparison.compared} tensors"
    else:
        yield (
            f"different: {different} of {comparison.compared} tensors in both, {len(comparison.extra)} only in {a},"
            f" {len(comparison.missing)} only in {b}, {len(comparison.values)} plain values"
        )


def _parts(tensor: "TensorDifference") -> Iterator[str]:
    if tensor.ids is not None:
        yield f"id {tensor.ids[0] or 'none'} and {tensor.ids[1] or 'none'}"
    if tensor.tied_to is not None:
        yield f"stored as {printable(tensor.tied_to[0])} and as {printable(tensor.tied_to[1])}"
    if tensor.dtypes is not None:
        yield f"type {tensor.dtypes[0]} and {tensor.dtypes[1]}"
    if tensor.shapes is not None:
        yield f"shape {list(tensor.shapes[0])} and {list(tensor.shapes[1])}"
    if (values := tensor.values) is not None:
        yield f"{values.count} of {values.elements} values differ" if values.count else "values within the tolerance"
        yield f"by at most {values.largest_absolute:.6g}, relatively {values.largest_relative:.6g}"
        if values.not_finite:
            yield f"{values.not_finite} are nan or infinite on one side"


def _shown(value: Any) -> str:
    from ...record.tools.comparison import MISSING

    return "nothing" if value is MISSING else shortened(to_json(value, "values"))


def _summary(args: argparse.Namespace, comparison: "Comparison", tolerance: float | None) -> dict[str, Any]:
    from ...record.tools.comparison import MISSING

    tensors: list[dict[str, Any]] = []
    for tensor in comparison.tensors:
        pairs = (("id", tensor.ids), ("dtype", tensor.dtypes), ("shape", tensor.shapes), ("stored_as", tensor.tied_to))
        summary: dict[str, Any] = {"path": tensor.name, "equal": tensor.is_equal}
        summary |= {name: {"a": pair[0], "b": pair[1]} for name, pair in pairs if pair is not None}
        if (values := tensor.values) is not None:
            names = ("largest_absolute", "largest_relative", "not_finite")
            summary["values"] = {"different": values.count, "of": values.elements}
            summary["values"] |= {name: getattr(values, name) for name in names}
        tensors.append(summary)
    return {
        "a": args.a,
        "b": args.b,
        "equal": comparison.is_equal,
        "tolerance": tolerance,
        "compared": comparison.compared,
        "only_in_a": comparison.extra,
        "only_in_b": comparison.missing,
        "tensors": tensors,
        "values": {
            path: {side: to_json(it, path) for side, it in zip("ab", pair, strict=True) if it is not MISSING}
            for path, pair in comparison.values.items()
        },
    }
