"""`burnlike show CONFIG`: a model as a tree, and as a drawing."""

import argparse
import re
from pathlib import Path

from burnlike._outputs import Output
from burnlike._terminal import one_line
from burnlike.config.shipped import config_file
from burnlike.errors import ConfigError, ConfigIOError

from ..options import add_force_option, add_shared, read_model, say

_MARK = re.compile(
    rb'\A<svg xmlns="http://www\.w3\.org/2000/svg" width="\d+" height="\d+" viewBox="0 0 \d+ \d+"'
    rb' font-family="Helvetica, Arial, sans-serif">\s*<rect width="100%" height="100%" fill="#ffffff"/>'
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config", type=config_file, metavar="CONFIG", help="a YAML file of a model or a training, or a shipped config"
    )
    parser.add_argument("--depth", type=int, metavar="N", help="levels of the tree below the model (default: all)")
    parser.add_argument("--svg", metavar="FILE", help="draw the layers and what flows between them into an SVG file")
    add_force_option(parser, "--svg")
    add_shared(parser, "--input", "--set", "--import")


def run(args: argparse.Namespace) -> int:
    from ...module.printing.tree import branch_of, tree_lines

    drawing = None
    if args.svg is not None:
        drawing = Output(args.svg, "show", "--svg", inputs=[args.config], force=args.force, mark=_MARK)
        drawing.check_file()
    model = read_model(args.config, args.imports, args.overrides)
    try:
        module = model.build()
    except (RuntimeError, NotImplementedError) as error:
        raise ConfigError(f"{args.config}: the model can't be built without values: {error}") from error
    shapes: dict[str, str] = {}  # of what layers give, by their paths; none where no inputs are known
    if inputs := args.inputs or [*model.inputs]:
        from ...models.views.shapes import trace

        traced = trace(module, inputs)
        if traced.failed is not None and args.inputs:
            raise ConfigError(f"--input: {traced.failed.path or 'the model'}: {traced.message}")
        shapes = {call.path: call.output for call in reversed(traced.calls) if call.output}
    if drawing is not None:
        from ...models.views.drawing import Drawn, flow_of, svg

        count = sum(parameter.numel() for parameter in module.parameters())
        title = f"{Path(args.config).stem}: {type(module).__name__}, {count:,} parameters"
        try:
            drawing.write(svg(flow_of(Drawn(model.config, module, shapes)), title).encode())
        except OSError as error:
            raise ConfigIOError(f"{drawing}: can't be written: {error.strerror or error}") from error
    for line in tree_lines(branch_of(module), args.depth):
        say(one_line(line))
    if drawing is not None:
        say(f"the drawing is in {drawing}")
    return 0
