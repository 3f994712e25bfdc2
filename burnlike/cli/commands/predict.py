"""`burnlike predict RUN FILES`: what the model of a run says of new inputs: CSV, JSON lines, a directory of masks."""

import argparse
import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from burnlike._outputs import Output
from burnlike.errors import ArgumentError, DataError, RunDirError

from ..options import add_force_option, add_run_options, opened, paths_in, place_of, show, warn

FILES = (".csv", ".jsonl")
Rows = Iterable[Mapping[str, Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(parser)
    text = "files or directories with inputs, as the run's data has them without targets; - reads standard input"
    parser.add_argument("sources", nargs="+", metavar="FILE", help=text)
    text = "where to write: FILE.csv, FILE.jsonl, or a directory for masks (default: CSV on standard output)"
    parser.add_argument("--out", metavar="PATH", help=text)
    add_force_option(parser, "--out FILE")
    parser.add_argument("--batch-size", type=int, metavar="N", help="inputs of a batch (default: as the training)")
    text = "compute with weights in 8 bits, of linear layers"
    parser.add_argument("--quantize", choices=["int8"], help=text)


def run(args: argparse.Namespace) -> int:
    if args.batch_size is not None and args.batch_size < 1:
        raise ArgumentError(f"--batch-size: expected at least 1, got {args.batch_size}")
    out = output_of(args.out, [place_of(args.place), *(it for it in args.sources if it != "-")], force=args.force)
    if missing := [source for source in args.sources if source != "-" and not Path(source).exists()]:
        raise ArgumentError(f"there is no file or directory {missing[0]}; check the path")
    sources = [sys.stdin if source == "-" else Path(source) for source in args.sources]
    loaded = opened(args)
    if out is not None:
        out.inputs += paths_in(loaded.config.to_dict())
    if args.quantize is not None:
        from burnlike.interop.quantize import quantize_

        quantize_(loaded.model, args.quantize)
    from burnlike.train.job.loaded_run import predictions

    left_out: list[str] = []
    count = write_predictions(out, predictions(loaded, sources, args.batch_size, left_out))
    if left_out:
        more = f"; and {len(left_out) - 1} more" if left_out[1:] else ""
        warn(f"left out {len(left_out)} of the inputs, as in the training: {left_out[0]}{more}")
    if args.out is not None:
        print(f"{count:,} predictions are in {args.out}")
    return 0


def output_of(place: str | None, inputs: Iterable[str | os.PathLike[str]], *, force: bool) -> Output | None:
    """The place of predictions that are computed of `inputs`; an ArgumentError if they can't be written there."""
    if place is None:
        return None
    if not _is_directory(place) and not place.endswith(FILES):
        raise ArgumentError(f"--out {place}: expected a file .csv or .jsonl, or a directory for masks, such as masks/")
    out = Output(place, "predict", inputs=inputs, force=force)
    out.check_directory() if _is_directory(place) else out.check_file()
    return out


def write_predictions(out: Output | None, rows: Rows, *, is_csv: bool = True) -> int:
    """Write all rows, whole or not at all; on standard output as they come, as CSV or as JSON lines. Gives how many
    there were.

    A mask where there is no directory for it, and a row with other columns than those before, are a DataError.
    """
    try:
        if out is None:
            return _write_lines(rows, is_csv=is_csv, say=partial(show, flush=not is_csv))
        if _is_directory(str(out)):
            with out.directory(marked=False) as folder:
                return _write_masks(rows, folder)
        with out.file() as file, open(file.descriptor, "w", encoding="utf-8", newline="", closefd=False) as sink:
            return _write_lines(rows, is_csv=str(out).endswith(".csv"), say=sink.write)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        if out is None:  # standard output, of which the program says what is wrong
            raise
        raise RunDirError(f"{out}: predictions can't be written: {error.strerror or error}") from error


def _is_directory(out: str) -> bool:
    return out.endswith("/") or (not Path(out).suffix and out != "-") or Path(out).is_dir()


def _write_lines(rows: Rows, *, is_csv: bool, say: Any) -> int:
    columns: list[str] = []
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007 - the last one counts
        if masks := [name for name, value in row.items() if _is_mask(value)]:
            raise DataError(f"{row['name']}: '{masks[0]}' is a mask: give a directory for them, such as --out masks/")
        if not is_csv:
            say(json.dumps(row, ensure_ascii=False) + "\n")
            continue
        if not columns:
            columns = [*row]
            say(_csv_line(columns))
        if unknown := [name for name in row if name not in columns]:
            raise DataError(
                f"{row['name']}: '{unknown[0]}' is no column of the predictions before: write .jsonl, whose lines may"
                " differ"
            )
        say(_csv_line([_cell(row.get(name)) for name in columns]))
    sys.stdout.flush()
    return count


def _csv_line(values: Iterable[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(map(_cell, values))  # fields with either character are quoted
    return text.getvalue().removesuffix("\r\n") + "\n"


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a text begins with that a spreadsheet would compute, as OWASP lists it ("CSV injection")."""


def _cell(value: Any) -> Any:
    """A cell of CSV: lists as JSON; a text that a spreadsheet would take for a formula behind an apostrophe."""
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False)
    is_formula = isinstance(value, str) and value.startswith(_FORMULA) and not _is_number(value)
    return f"'{value}" if is_formula else value


def _is_number(text: str) -> bool:
    try:
        return text.strip() == text and float(text) is not None
    except ValueError:
        return False


def _write_masks(rows: Rows, folder: Path) -> int:
    from burnlike.data.sources.images import pil_image

    image_type = pil_image()
    used: dict[str, str] = {}
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007 - the last one counts
        masks = {name: value for name, value in row.items() if _is_mask(value)}
        if not masks:
            raise DataError(f"{row['name']}: there is no mask to write into a directory; give --out FILE.csv")
        for column, mask in masks.items():
            stem = Path(str(row["name"])).stem
            name = f"{stem}.png" if len(masks) == 1 else f"{stem}.{column}.png"
            if name in used:
                raise DataError(f"{used[name]} and {row['name']} would both be written to {name}; predict them apart")
            used[name] = str(row["name"])
            array = mask.cpu().numpy()
            image = image_type.fromarray(array.astype("uint8" if array.max(initial=0) < 256 else "uint16"))
            image.save(folder / name)
    return count


def _is_mask(value: Any) -> bool:
    return hasattr(value, "dim") and value.dim() == 2
