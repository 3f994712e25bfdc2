"""Formulas for torch's counter of operations, before and after it is imported."""

import subprocess
import sys

PROGRAM = """
import sys
import torch
import burnlike.ops
from burnlike._torch_compat.flop_counter import register_flop_formula

op, other = torch.ops.aten.cumsum, torch.ops.aten.cumprod
register_flop_formula(op, lambda shape, *_, **__: 10 * shape[0])
assert "torch.utils.flop_counter" not in sys.modules, "it imports triton"

from torch.utils.flop_counter import FlopCounterMode

register_flop_formula(other, lambda shape, *_, **__: 1000 * shape[0])
with FlopCounterMode(display=False) as counter:
    torch.ones(3).cumsum(0)
    torch.ones(3).cumprod(0)
    burnlike.ops.linear(torch.ones(2, 4), torch.ones(8, 4))
assert counter.get_total_flops() == 30 + 3000 + 2 * 2 * 4 * 8, counter.get_flop_counts()
"""


def test_register_flop_formula() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
