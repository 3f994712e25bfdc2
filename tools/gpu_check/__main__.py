"""Tells all that can be told of a GPU in nine minutes: `make gpu-check`, or `python -m tools.gpu_check`.

It needs an interpreter with torch for CUDA, a CUDA toolkit and a C++ compiler, and no network: see
docs/how_to/run_on_a_gpu.md. Each part is a process with a limit of its own, and writes what it finds at once. The exit
status is 0 only if all parts ran and nothing failed.
"""

import argparse
import signal
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from burnlike._atomic import make_directories, replace_file

from . import environment, page, processes, results
from .environment import ROOT
from .parts import BUILD_SHARE, NO_DEVICE, PARTS, PartOfCheck
from .results import CUT, FAILED, NOT_RUN, PASSED, RUNNING, PartResult

NAMES = ("build", *(it.name for it in PARTS))
NINE_MINUTES_S = 540
_GRACE_S = 4.0
_FACTS_S = 60.0


class Check:
    """One run of the check, in a folder of its own.

    Args:
        options: of the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.device: str = options.device
        self.started = time.monotonic()
        self.built: Path | None = options.libraries
        self.limit: float = options.limit
        self.part_limit: float = options.part_limit or options.limit
        self.names = [name for name in NAMES if not options.parts or name in ("build", *options.parts)]
        self.results: list[PartResult] = []
        self.commit = environment.commit()
        make_directories(environment.CACHE)
        moment = f"{datetime.now(UTC):%Y-%m-%dT%H%M%S.%f}"
        environment.put_on_path(ROOT)
        with tempfile.TemporaryDirectory() as name:
            log = Path(name) / "start.log"
            complaints = [*environment.install_wheels(options.wheels, log, 60)] if options.wheels else []
            # Facts are asked for with any limit: without them nothing can be said.
            self.facts = environment.facts(log, min(_FACTS_S, max(self.limit, 20.0)))
        is_there = self.facts.devices or self.device == "cpu"
        machine = (self.facts.folder or "unknown-machine") if is_there else "no-device"
        self.folder: Path = options.out / machine / f"gpu_check-{moment}"
        make_directories(self.folder)
        self.complaints = complaints

    def seconds_left(self) -> float:
        return self.limit - (time.monotonic() - self.started)

    def limit_of(self, share: int, shares_to_come: int) -> float:
        """Seconds of a part: its share of what is left, so that what a short part leaves goes to those after it."""
        return min(self.part_limit, max(0.0, self.seconds_left()) * share / shares_to_come)

    def run(self) -> int:
        """Run all; the exit status."""
        folder = self._build()
        shares = [it.share for it in PARTS if it.name in self.names]
        for place, part in enumerate(it for it in PARTS if it.name in self.names):
            limit = self.limit_of(part.share, sum(shares[place:]))
            self._keep(self._part(part, limit, folder))
        return 0 if page.is_passed(self.results, NAMES) and self.device != "cpu" else 1

    def _build(self) -> Path | None:
        result, started = PartResult("build"), time.monotonic()
        result.notes += self.complaints
        folder = None
        if self.facts.missing:
            result.status, result.reason = NOT_RUN, f"{', '.join(self.facts.missing)} missing; see WHEELS"
        else:
            share = BUILD_SHARE * max(1.0, self.limit / NINE_MINUTES_S)
            seconds = min(self.part_limit, self.seconds_left(), share)
            folder, how = environment.build(self.facts, self.device, self.folder / "build.log", seconds, self.built)
            if folder is None:
                result.status = CUT if "not done" in how else FAILED
                if result.status == CUT:
                    result.reason = how
                else:
                    result.fail(how)
            else:
                result.status = PASSED
                result.notes.append(how)
        result.seconds = round(time.monotonic() - started, 2)
        self._keep(result)
        return folder

    def _part(self, part: PartOfCheck, limit: float, libraries: Path | None) -> PartResult:
        if reason := self._missing(part, libraries):
            return PartResult(part.name, NOT_RUN, reason)
        device = self.device if self.device == "cpu" or self.facts.devices else "none"
        command = [sys.executable, "-m", "tools.gpu_check.parts", part.name, str(self.folder), device, f"{limit:.2f}"]
        variables = {"BURNLIKE_LIBRARY_DIR": str(libraries), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        log = self.folder / f"{part.name}.log"
        if limit <= 0:
            return PartResult(part.name, NOT_RUN, "no time was left")
        ended = processes.run(command, log, limit, variables, str(ROOT), _GRACE_S)
        result = results.read(self.folder, part.name) or PartResult(part.name)
        if result.status == RUNNING and ended.status is None:
            result.status, result.reason = CUT, f"it was ended after {ended.seconds:.0f} s"
        elif result.status == RUNNING or (ended.status == 0) != (result.status == PASSED):
            result.status = FAILED
            result.fail(f"its process ended with status {ended.status}: {processes.last_lines(log)}")
        if result.failures:
            result.status = FAILED
        result.seconds = round(ended.seconds, 2)
        return result

    def _missing(self, part: PartOfCheck, libraries: Path | None) -> str:
        """The thing that a part lacks; empty if it can be run."""
        if self.facts.missing:
            return f"{', '.join(self.facts.missing)} missing"
        if self.device != "cpu" and not self.facts.devices and not part.without_device:
            return NO_DEVICE
        if libraries is None:
            return "the libraries were not built" if self.facts.devices or self.device == "cpu" else NO_DEVICE
        if self.device != "cpu" and part.tool and environment.tool(part.tool) is None:
            return f"{part.tool} is not installed"
        return ""

    def _keep(self, result: PartResult) -> None:
        """Write a part's last state and the page, and print a line of it."""
        self.results.append(result)
        results.write(self.folder, result)
        reason = f": {result.reason}" if result.reason else ""
        print(f"{result.name:<10} {result.status}{reason} ({result.seconds:.1f} s)", flush=True)
        for line in result.failures[:3]:
            print(f"    {line}", flush=True)
        self.write_page()

    def write_page(self) -> Path:
        """Write the page of all parts; those to come are not run yet."""
        seen = {it.name for it in self.results}
        all_parts = [*self.results, *(PartResult(it, NOT_RUN, "not begun") for it in NAMES if it not in seen)]
        seconds = time.monotonic() - self.started
        path = self.folder / "gpu_check.txt"
        replace_file(path, page.text(self.facts, all_parts, self.commit, self.device, seconds).encode())
        return path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.gpu_check", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a rehearsal with tiny sizes")
    parser.add_argument("--limit", type=float, default=NINE_MINUTES_S, help="seconds of all together (default 540)")
    parser.add_argument("--part-limit", type=float, help="seconds of each part at most, of the build too")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="the folder of results")
    parser.add_argument("--wheels", type=Path, help="a folder of wheels of what the interpreter lacks, such as msgspec")
    parser.add_argument("--libraries", type=Path, help="a folder with both libraries, built elsewhere for this GPU")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(NAMES[1:])}; all by default")
    options = parser.parse_args()
    if unknown := sorted({*options.parts} - {*NAMES}):
        parser.error(f"unknown: {', '.join(unknown)}; the parts are {', '.join(NAMES[1:])}")
    for name in ("wheels", "libraries"):
        folder: Path | None = getattr(options, name)
        if folder and not folder.is_dir():
            parser.error(f"--{name}: expected a folder, got {folder}")
        setattr(options, name, folder and folder.absolute())
    options.out = options.out.absolute()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the part that runs is ended
    check = Check(options)
    try:
        status = check.run()
    finally:
        path = check.write_page()
        print(f"\n{path.read_text()}\nwritten to {path}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
