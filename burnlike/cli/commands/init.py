"""`burnlike init DIR`: copies the shipped configs, to start from, and writes the schemas that editors read."""

import argparse
import json
from pathlib import Path

import burnlike.config.registry as registry
from burnlike._atomic import make_directories
from burnlike._outputs import Output
from burnlike.config.shipped import shipped_configs, shipped_jobs

from ..options import add_shared
from ..tables import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Copy the configs that come with burnlike into a directory, to start from, and write the JSON Schemas beside"
        " them by which editors complete and check them."
    )
    parser.add_argument("directory", metavar="DIR", help="where to; made where it is missing, `.` is the current one")
    add_shared(parser, "--import")


def run(args: argparse.Namespace) -> int:
    from burnlike.config import ModuleConfig
    from burnlike.config.json_schema import json_schema
    from burnlike.train.job.configs import TrainConfig

    # The schemas that the first lines of the shipped configs name, and the classes that they are of.
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
