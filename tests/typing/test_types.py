"""What type checkers say of programs with typed tensors: pyright's strict mode and mypy --strict, over the same files.

The programs in right/ assert the type of each result, and nothing may be reported in them, nor in the example of a
backend. In those of wrong/ every line marked `# error` must be reported and no other. A mark `# error: pyright` (or
mypy) is for what only one of the two can see; the program says why.
"""

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ..marks import slow, weekly
from ..processes import HANGS_S
from .every_type import EXPRESSIONS, IMPORTS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = sorted([*HERE.glob("right/*.py"), *HERE.glob("wrong/*.py"), ROOT / "examples/recording_backend.py"])
MARK = re.compile(r"#\s*error(?::\s*(\w+))?")

# Strict, less what basedpyright adds to pyright's strict mode, and less style: a program in wrong/ computes things only
# to have them looked at.
PYRIGHT = {
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "extraPaths": [str(ROOT)],
    "reportUnusedExpression": "none",
    "reportUnusedCallResult": "none",
    "reportUnusedVariable": "none",
    "reportUnusedImport": "none",
    "reportUnusedFunction": "none",
    "reportPrivateUsage": "none",
    "reportAny": "none",
    "reportExplicitAny": "none",
    "reportMissingTypeStubs": "none",
}


class Finding(NamedTuple):
    """One complaint of a type checker."""

    line: int
    message: str


PACKAGES = [
    "burnlike",
    *(
        f"burnlike.{name}"
        for name in (
            *(
                "backend",
                "config",
                "data",
                "func",
                "interop",
                "mlax",
                "module",
                "nn",
                "ops",
                "optim",
                "record",
                "tensor",
            ),
            "train",
        )
    ),
]


def every_public_name(folder: Path) -> Path:
    """A program that imports each public name of the packages."""
    lines = [
        f"from {package} import {name} as {package.replace('.', '_')}_{name}"
        for package in PACKAGES
        for name in importlib.import_module(package).__all__
    ]
    assert len(lines) > 400
    program = folder / "every_public_name.py"
    program.write_text("\n".join(lines) + "\n")
    return program


def every_expression(folder: Path) -> Path:
    """A program that asserts the type of each expression of `every_type.py`."""
    lines = [IMPORTS]
    for number, (arguments, text) in enumerate(EXPRESSIONS.items()):
        lines.append(f"def expressions_{number}({arguments}) -> None:")
        result = ""
        for line in map(str.strip, text.splitlines()):
            if line.endswith(":"):
                result = line.removesuffix(":")
            else:
                lines += [f"    assert_type({each.strip()}, {result})" for each in line.split(";") if each.strip()]
    assert len(lines) > 390
    program = folder / "every_expression.py"
    program.write_text("\n".join(lines) + "\n")
    return program


def made_programs(folder: Path) -> list[Path]:
    return [every_public_name(folder), every_expression(folder)]


def run_pyright(folder: Path) -> Iterator[tuple[Path, Finding]]:
    config = folder / "pyrightconfig.json"
    config.write_text(json.dumps(PYRIGHT | {"include": [str(it) for it in (*PROGRAMS, *made_programs(folder))]}))
    command = ["-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(config)]
    for found in json.loads(output_of(command))["generalDiagnostics"]:
        if found["severity"] in ("error", "warning"):
            message = f"{found['message']} [{found.get('rule')}]"
            yield Path(found["file"]), Finding(found["range"]["start"]["line"] + 1, message)


def run_mypy(folder: Path) -> Iterator[tuple[Path, Finding]]:
    # The package's own sources are basedpyright's to check (`make types`): silent.
    options = ["--strict", "--follow-imports=silent", "--output=json", "--config-file=", "--explicit-package-bases"]
    cache = ["--cache-dir", str(ROOT / ".cache" / "mypy")]
    programs = map(str, [*PROGRAMS, *made_programs(folder)])
    for line in output_of(["-m", "mypy", *options, *cache, *programs]).splitlines():
        found: dict[str, Any] = json.loads(line)
        if found["severity"] == "error":
            yield ROOT / found["file"], Finding(found["line"], f"{found['message']} [{found['code']}]")


def output_of(arguments: list[str]) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=HANGS_S)
    assert done.returncode in (0, 1), f"{arguments[1]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


CHECKERS = {"pyright": run_pyright, "mypy": run_mypy}


def marked_lines(program: Path, checker: str) -> set[int]:
    """The lines of a program that `checker` has to complain about."""
    lines = enumerate(program.read_text().splitlines(), 1)
    marks = ((number, MARK.search(line)) for number, line in lines)
    return {number for number, mark in marks if mark is not None and mark[1] in (None, checker)}


@pytest.mark.parametrize("checker", [*slow("pyright"), *weekly("mypy")])
def test_exactly_the_marked_lines_are_reported(checker: str, tmp_path: Path) -> None:
    """All programs in one call, as most of a checker's time is for reading torch."""
    reported: dict[Path, list[Finding]] = {program: [] for program in PROGRAMS}
    for path, finding in CHECKERS[checker](tmp_path):
        reported.setdefault(path, []).append(finding)
    wrong: list[str] = []
    for path, findings in reported.items():
        marked = marked_lines(path, checker) if path in PROGRAMS else set[int]()
        wrong += [f"{path}:{it.line}: {it.message}" for it in findings if it.line not in marked]
        missed = sorted(marked - {it.line for it in findings})
        wrong += [f"{path}:{line}: marked, but not reported" for line in missed]
    assert not wrong, "\n".join(["", *wrong])


def test_programs_are_marked_as_their_folder_says() -> None:
    for program in PROGRAMS:
        marked = any(marked_lines(program, checker) for checker in CHECKERS)
        assert marked == (program.parent.name == "wrong"), program
