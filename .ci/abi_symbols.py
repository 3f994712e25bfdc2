#!/usr/bin/env python3
"""Fails if a native library needs a C++ symbol of torch, or one of Python: it would work with one release only.

Usage: abi_symbols.py LIBRARY...; without arguments those of the package are checked.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.resolve()


def forbidden_symbols(library: Path) -> list[str]:
    """The undefined symbols of `library`, demangled, that tie it to one release of torch or of Python."""
    command = ["nm", "-D", "-C", "--undefined-only", str(library)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    symbols = [line.split(maxsplit=1)[1] for line in lines if line.strip()]
    return [name for name in symbols if re.search(r"\b(at|c10|torch|caffe2|pybind11)::|^_?Py[A-Z_]", name)]


def main(arguments: list[str]) -> int:
    """Check the libraries; 0 if they are clean."""
    libraries = [Path(name) for name in arguments] or sorted((ROOT / "burnlike").glob("*.abi3.so"))
    if not libraries:
        print("abi-symbols: no library was found; build with `make build`", file=sys.stderr)
        return 1
    status = 0
    for library in libraries:
        found = forbidden_symbols(library)
        print(f"{library.name}: {'needs ' + ', '.join(found) if found else 'needs no C++ symbol of torch'}")
        status |= bool(found)
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
