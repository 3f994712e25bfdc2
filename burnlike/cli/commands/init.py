"""`burnlike init DIR` copies the shipped configs, to start from; `burnlike init --from DATA` writes a job for data."""

import argparse
import json
import os
from pathlib import Path

import burnlike.config.registry as registry
from burnlike._atomic import make_directories
from burnlike._outputs import Output
from burnlike.config.shipped import shipped_configs, shipped_jobs
from burnlike.errors import ArgumentError

from ..options import add_force_option, add_shared, say, shell_word


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Look at data and write a job that trains a first model of it; or copy the configs that come with burnlike into"
        " a directory, to start from, with the JSON Schemas by which editors complete and check them."
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("directory", nargs="?", metavar="DIR", help="where copies go; `.` is the current directory")
    text = "a table, texts, words with tags, pairs or conversations in a file; a folder of photos, or of .txt"
    which.add_argument("--from", dest="data", type=Path, metavar="DATA", help=text)
    text = "with --from: the column to predict; for several columns of numbers, say --target for each"
    parser.add_argument("--target", action="append", metavar="COLUMN", help=text)
    text = "with --from: the job's file (default: the name of DATA, in the current directory)"
    parser.add_argument("--out", type=Path, metavar="FILE", help=text)
    add_force_option(parser)
    add_shared(parser, "--import")


def run(args: argparse.Namespace) -> int:
    if args.data is not None:
        return _draft(args)
    for option, value in (("--target", args.target), ("--out", args.out), ("--force", args.force or None)):
        if value is not None:
            raise ArgumentError(f"{option} is for --from DATA; DIR gets copies of the shipped configs")
    return _copy(args)


def _draft(args: argparse.Namespace) -> int:
    """Write a job for data, and the files that it needs; nothing is written if one of them may not be."""
    data: Path = args.data
    whole = Path(os.path.abspath(data))
    job = args.out or Path(f"{whole.stem if data.is_file() else whole.name}.yaml")
    out = Output(job, "init", inputs=[data], force=args.force)
    out.check_file()  # before the data is read, which may take a while
    from burnlike.train.drafts.drafting import drafted
    from burnlike.train.drafts.writing import Place, job_text, table_text

    targets: list[str] = args.target or []
    draft = drafted(Place(data, job), targets)
    name = shell_word(str(job))
    options = "".join(f" --target {shell_word(target)}" for target in targets)
    words = {"run": shell_word(job.stem), "data": shell_word(str(data))}
    steps = [f"burnlike train {name}", *(step.format(**words) for step in draft.next_steps)]
    head = [f"{data.name}: {draft.title}. Written by `burnlike init --from {shell_word(str(data))}{options}`.", ""]
    text = job_text(draft, [*head, *(f"  {step}" for step in steps)])
    files = {job.parent / key: content for key, content in draft.files.items()}
    outputs = {path: Output(path, "init", inputs=[data], force=args.force) for path in files}
    for output in outputs.values():
        output.check_file()
    for path, output in outputs.items():
        make_directories(path.parent)
        output.write(files[path])
    out.write(text.encode())
    for line in (*table_text(draft.seen), "", *draft.notes):
        say(line)
    for path in (*files, job):
        say(f"wrote {path}")
    say(f"next: {steps[0]}")
    return 0


def _copy(args: argparse.Namespace) -> int:
    """Copy the shipped configs, and write the schemas that their first lines name."""
    from burnlike.config import ModuleConfig
    from burnlike.config.json_schema import json_schema
    from burnlike.train.job.configs import TrainConfig

    roots = {"train.schema.json": TrainConfig, "model.schema.json": ModuleConfig}
    registry.import_modules(args.imports)
    copies = {path.name: path for path in shipped_configs().values()}
    outputs = {name: Output(Path(args.directory, name), "init", "DIR") for name in (*copies, *roots)}
    for output in outputs.values():
        output.check_file()
    schemas = {name: json.dumps(json_schema(root)) for name, root in roots.items()}
    make_directories(args.directory)
    for name, output in outputs.items():
        output.write(copies[name].read_bytes() if name in copies else f"{schemas[name]}\n".encode())
        say(str(output))
    last = Path(args.directory, [*shipped_jobs().values()][-1].name)
    say(f"edit one, then: burnlike check {last} && burnlike train {last}")
    return 0
