"""The page of the command line, from its parsers."""

import argparse
import re
import textwrap
from collections.abc import Iterator

from burnlike.cli.main import COMMANDS, parsers
from tools.pages import table

_INTRODUCTION = """# The command line

`burnlike COMMAND --help` prints what is here. Each command gives 0 for success, 2 for bad input or usage (one line says
what and where), and 130 when interrupted; those that compare give 1 where things differ. `--debug` shows the traceback
of an error. [What to do about an error](errors.md) is a page of its own.
"""


def pages() -> dict[str, str]:
    """The page by its place in the site."""
    found = parsers([it.name for it in COMMANDS])[1]
    parts = [
        _INTRODUCTION,
        table("", ("command", "what it does"), [("", f"[`{it.name}`](#{it.name})", it.help) for it in COMMANDS]),
    ]
    for command in COMMANDS:
        parser = found[command.name]
        usage = _usage(parser)
        parts.append(f"\n## {command.name}\n\n{command.help[0].upper()}{command.help[1:]}.\n\n```text\n{usage}\n```\n")
        parts.append(table("", ("argument", "what it is"), _rows(parser)))
        if parser.epilog:
            parts.append(f"\n{parser.epilog}\n")
    return {"reference/command_line.md": "".join(parts)}


def _usage(parser: argparse.ArgumentParser) -> str:
    """The usage in lines that fit the page, each option with its value in one."""
    words = " ".join(parser.format_usage().removeprefix("usage: ").split())
    glued = re.sub(r"\[(?:[^\[\]]|\[[^\]]*\])*\]", lambda it: it[0].replace(" ", "\0"), words)
    lines = textwrap.wrap(glued, 84, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
    return "\n".join(lines).replace("\0", " ")


def _rows(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, str]]:
    formatter = parser.formatter_class(parser.prog)
    for action in parser._actions:
        if action.help is argparse.SUPPRESS or action.dest in ("help", "debug"):
            continue
        shown = [f"`{it}`" for it in action.option_strings or [action.metavar or action.dest]]
        if action.option_strings and action.nargs != 0:
            shown[-1] = f"{shown[-1][:-1]} {formatter._format_args(action, action.dest.upper())}`"
        yield "", ", ".join(shown), " ".join(formatter._expand_help(action).split()) if action.help else ""
