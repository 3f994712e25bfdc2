"""What a command that imports and builds leaves to the search for garbage."""

import subprocess
import sys

PROGRAM = """
import gc
from burnlike._memory import collections_paused

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


def test_objects_of_torchs_import_are_never_searched() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
