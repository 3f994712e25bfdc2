"""Kept memory: in processes of their own, as the settings are the process's and can't be taken back."""

import subprocess
import sys

import pytest

CHAIN = """
import resource, torch
def faults_of_a_chain():
    x = torch.rand(1 << 24)
    faults = []
    for _ in range(12):  # the first ones grow the heap to its peak
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        ((x + 1) * 2 - 3).exp().neg()
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return min(faults)
"""


def run(program: str) -> list[int]:
    done = subprocess.run([sys.executable, "-c", CHAIN + program], capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the settings are glibc's")
def test_freed_memory_is_used_again() -> None:
    before, after = run(
        """
import burnlike
print(faults_of_a_chain())
assert burnlike.keep_freed_memory()
print(faults_of_a_chain())
"""
    )
    # A result of 64 MiB is 16,384 pages of 4 KiB.
    assert before > 10_000
    assert after < 100


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the settings are glibc's")
def test_the_train_command_makes_the_settings() -> None:
    (after,) = run(
        """
from burnlike.cli.main import main
assert main(["train", "no-such-file.yaml"]) != 0
print(faults_of_a_chain())
"""
    )
    assert after < 100
