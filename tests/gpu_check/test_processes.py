"""What the check starts ends with its limit, with all that it has started itself."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.gpu_check import processes

PARENT = """
import subprocess, sys, time
from pathlib import Path
child = subprocess.Popen([sys.executable, "-c", "import signal, time; {ignores}time.sleep(1000)"])
Path({path!r}).write_text(str(child.pid))
time.sleep({seconds})
"""


def is_running(process: int) -> bool:
    """True if there is such a process, and it is no zombie that nobody has asked for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(path: Path) -> int:
    deadline = time.monotonic() + 60
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return int(path.read_text())


@pytest.mark.parametrize("ignores", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN); "])
@pytest.mark.parametrize("seconds", [0, 1000])
def test_processes_of_a_process_end_with_it(tmp_path: Path, ignores: str, seconds: int) -> None:
    path = tmp_path / "child"
    code = PARENT.format(ignores=ignores, path=str(path), seconds=seconds)
    ended = processes.run([sys.executable, "-c", code], tmp_path / "log", 1.5, grace_s=0.2)
    assert ended.status == (None if seconds else 0)
    assert not is_running(wait_for(path))


def test_what_is_printed_is_in_the_log_and_the_status_is_that_of_the_process(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import os, sys; print('a'); print('b', file=sys.stderr); sys.exit(os.environ['NUMBER'] == '7')"
    ended = processes.run([sys.executable, "-c", code], log, 60, {"NUMBER": "7"})
    assert ended.status == 1
    assert sorted(processes.last_lines(log).split(" | ")) == ["a", "b"]


def test_an_interrupted_run_ends_what_it_has_started(tmp_path: Path) -> None:
    path = tmp_path / "child"
    code = f"""
import signal, sys
from pathlib import Path
from tools.gpu_check import processes
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
inner = {PARENT.format(ignores="", path=str(path), seconds=1000)!r}
processes.run([sys.executable, "-c", inner], Path({str(tmp_path / "log")!r}), 1000)
"""
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        child = wait_for(path)
        assert is_running(child)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 3
    assert not is_running(child)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "compiling\n/usr/bin/ld: cannot find -lcudart\nTraceback\nCalledProcessError",
            "/usr/bin/ld: cannot find -lcudart",
        ),
        ("a.cu(7): warning\nburnlike: BURNLIKE_CUDA=1, but no nvcc.\n", "burnlike: BURNLIKE_CUDA=1, but no nvcc."),
        ("first\nlast\n\n", "last"),
        ("", ""),
    ],
)
def test_the_line_that_says_why_a_build_failed(text: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text)
    assert processes.first_error(tmp_path / "log") == line
