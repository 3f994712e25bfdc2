"""`python -m tools.pictures`: writes the pictures of docs/images, all or some by name."""

import argparse
import importlib
import sys
from pathlib import Path

from .bars import TABLES, draw_table

IMAGES = Path(__file__).parents[2] / "docs/images"
_OTHERS = ("__init__", "__main__", "svg", "bars", "recorded")
NAMES = sorted([*TABLES, *(it.stem for it in Path(__file__).parent.glob("*.py") if it.stem not in _OTHERS)])


def drawn(name: str) -> str:
    """The text of a picture."""
    if name in TABLES:
        return draw_table(*TABLES[name]).svg()
    return importlib.import_module(f"tools.pictures.{name}").draw().svg()


def main(arguments: list[str] | None = None) -> int:
    """Write the pictures, or with `--check` compare them; returns 1 if one is stale."""
    parser = argparse.ArgumentParser(prog="python -m tools.pictures", description="Write the pictures of docs/images.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--check", action="store_true", help="change nothing; exit status 1 if a picture is stale")
    args = parser.parse_args(arguments)
    stale = False
    for name in args.names or NAMES:
        path, text = IMAGES / f"{name}.svg", drawn(name)
        if not args.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale = True
            print(f"{path.name} is stale; run `python -m tools.pictures`", file=sys.stderr)
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
