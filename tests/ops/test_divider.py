"""The division of csrc/cuda/divider.h, by a product and a shift."""

import ctypes
import subprocess
from pathlib import Path

import torch

from .cuda_emulation import ROOT, build_flags


def test_quotients_are_those_of_whole_numbers(tmp_path: Path) -> None:
    target = tmp_path / "divider.so"
    source = str(Path(__file__).with_name("divider.cpp"))
    subprocess.run([*build_flags(), "-O1", "-shared", source, "-o", str(target)], check=True, cwd=ROOT)
    torch.manual_seed(0)
    powers = 2 ** torch.arange(40)
    edges = torch.cat([powers - 1, powers, powers + 1, torch.arange(300)])
    divisors = torch.cat([edges, torch.randint(2**31, (700,))]).clamp(min=1)
    numbers = torch.cat([edges, edges * 1000003, torch.randint(2**31, (500,))])
    divisors = divisors.repeat_interleave(len(numbers))
    numbers = numbers.repeat(len(divisors) // len(numbers))
    multiples = numbers % 1000 * divisors
    numbers = torch.cat([numbers, multiples, (multiples - 1).clamp(min=0)])
    divisors = divisors.repeat(3)
    results = torch.empty_like(numbers)
    arguments = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (numbers, divisors, results)]
    ctypes.CDLL(str(target)).quotients(*arguments, ctypes.c_int64(len(numbers)))
    assert torch.equal(results, numbers // divisors)
