"""What a command that imports and builds leaves to the search for garbage."""

import subprocess
import sys

import pytest

PROGRAM = """
import gc
from burnlike._memory import collections_paused, process_of_a_command

process_of_a_command()
with collections_paused():
    assert not gc.isenabled()
    import json
assert gc.isenabled() and gc.get_freeze_count() == 0, "a block without torch"
with collections_paused():
    import torch
frozen = gc.get_freeze_count()
assert frozen > 100_000, frozen
with collections_paused():
    loop = []
    loop.append(loop)
assert gc.get_freeze_count() == frozen, "garbage of a later block is searched for"
"""


IN_A_PROGRAM = """
import gc
import weakref
from burnlike.cli.main import main

class Loop:
    def __init__(self):
        self.loop = self

loop = Loop()
of_loop = weakref.ref(loop)
assert main(["check", "char_gpt_tiny"]) == 0
assert gc.get_freeze_count() == 0
del loop
gc.collect()
assert of_loop() is None, "garbage of the program stays"
"""

WITH_TRITON = """
import atexit
import gc
import os
import sys
from types import ModuleType
from burnlike._memory import collections_paused, process_of_a_command

atexit.register(lambda: gc.get_freeze_count() and os._exit(1))  # after what the next line registers
process_of_a_command()
with collections_paused():
    import torch
sys.modules.setdefault("triton", ModuleType("triton"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [PROGRAM, IN_A_PROGRAM, WITH_TRITON], ids=["command", "program", "triton"])
def test_only_a_commands_own_process_never_searches_what_torchs_import_leaves(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
