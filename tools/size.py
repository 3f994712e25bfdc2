"""Prints the lines of burnlike/ by part beside the bounds in docs/architecture.md, and fails above them.

`python -m tools.size`, which `make lint` calls. The page's table of sizes has a row for each part: its bound, and what
came and what left for what is above 92,000 lines in all.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "burnlike"
PAGE = ROOT / "docs" / "architecture.md"
_ROW = re.compile(r"^\| `(?P<part>[a-z_.*]+/?)` \| (?P<bound>[\d,]+) \|", re.MULTILINE)
OTHERS = "*.py"
"""The row of the files beside the parts."""


def lines_of(files: list[Path]) -> int:
    """The lines of source files together."""
    return sum(path.read_bytes().count(b"\n") for path in files)


def sizes(package: Path = PACKAGE) -> dict[str, int]:
    """The lines of each folder of the package, by its name with a slash, and of the files beside them."""
    parts = {f"{folder.name}/": [*folder.rglob("*.py")] for folder in sorted(package.iterdir()) if folder.is_dir()}
    return {name: lines_of(files) for name, files in parts.items() if files} | {
        OTHERS: lines_of([*package.glob("*.py")])
    }


def bounds(page: str) -> dict[str, int]:
    """The bound of each part in the page's section of sizes."""
    section = page.partition("\n## Size\n")[2].partition("\n## ")[0]
    return {row["part"]: int(row["bound"].replace(",", "")) for row in _ROW.finditer(section)}


def problems(counted: dict[str, int], allowed: dict[str, int]) -> list[str]:
    """Parts above their bound, parts without a row, and rows without a part."""
    above = [
        f"{name}: {count:,} lines, {allowed[name]:,} are allowed: take out what isn't needed, or say in the table of"
        " docs/architecture.md what came and what left for it"
        for name, count in counted.items()
        if name in allowed and count > allowed[name]
    ]
    return [
        *above,
        *(f"{name}: has no row in the table of sizes" for name in counted.keys() - allowed.keys()),
        *(f"{name}: is in the table of sizes, and no part" for name in allowed.keys() - counted.keys()),
    ]


def main() -> int:
    """Print the table and the problems; the status is 1 if there are any."""
    counted, allowed = sizes(), bounds(PAGE.read_text("utf-8"))
    for name, count in counted.items():
        print(f"{name:<16}{count:>8,} of {allowed.get(name, 0):>8,}")
    print(f"{'in all':<16}{sum(counted.values()):>8,} of {sum(allowed.values()):>8,}")
    wrong = problems(counted, allowed)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
