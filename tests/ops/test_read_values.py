"""Values of a file are read into tensors of other types rounded once, on every instruction set."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from burnlike.ops import can_read_values, force_cpu_isa, native_status, read_values_, read_values_reference

from .op_case import FLOATS, rounded_to

COUNT = 300_001  # more than one piece of native code, and no multiple of a vector
SKIPPED = 6

Read = Callable[[Tensor, int, int, torch.dtype], int]


@pytest.fixture(params=native_status().isas)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    with force_cpu_isa(request.param):
        yield request.param


def written(path: Path, source: torch.dtype) -> Tensor:
    """Values of all sizes, which are in the file behind some other bytes."""
    values = torch.randn(COUNT, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(source)
    values[:6] = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), 1e-7, 60000.0]).to(source)
    path.write_bytes(b"x" * SKIPPED + values.view(torch.uint8).numpy().tobytes())
    return values


@pytest.mark.parametrize(("source", "target"), list(itertools.product(FLOATS, FLOATS)), ids=str)
def test_values_are_converted_bit_for_bit(source: torch.dtype, target: torch.dtype, isa: str, tmp_path: Path) -> None:
    values = written(tmp_path / "x", source)
    found = torch.empty(COUNT, dtype=target)
    with (tmp_path / "x").open("rb") as file:
        assert read_values_(found, file.fileno(), SKIPPED, source) == COUNT * source.itemsize
    by_float32 = source == torch.float64 and target.itemsize == 2
    expected = rounded_to(target, values) if by_float32 else values.to(target)
    assert torch.equal(found.view(torch.uint8), expected.view(torch.uint8))


@pytest.mark.parametrize("read", [read_values_, read_values_reference])
@pytest.mark.parametrize("target", [torch.bfloat16, torch.float32])
def test_file_that_ends_before_gives_what_it_has(read: Read, target: torch.dtype, tmp_path: Path) -> None:
    values = written(tmp_path / "x", torch.bfloat16)
    found = torch.zeros(COUNT, dtype=target)
    with (tmp_path / "x").open("rb") as file:
        os.truncate(tmp_path / "x", SKIPPED + 20_000)
        assert read(found, file.fileno(), SKIPPED, torch.bfloat16) == 20_000
        assert read(found[:100], file.fileno(), SKIPPED, torch.bfloat16) == 200
    assert torch.equal(found[:100], values[:100].to(target))


@pytest.mark.parametrize("read", [read_values_, read_values_reference])
def test_failed_read_is_an_os_error(read: Read, tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="directory"):
            read(torch.empty(3), descriptor, 0, torch.bfloat16)
    finally:
        os.close(descriptor)


def test_only_plain_floats_on_the_cpu_are_read_natively() -> None:
    assert can_read_values(torch.empty(3), torch.bfloat16)
    assert not can_read_values(torch.empty(3, dtype=torch.int32), torch.bfloat16)
    assert not can_read_values(torch.empty(3), torch.float8_e5m2)
    assert not can_read_values(torch.empty(3, 2).T, torch.float32)
    assert not can_read_values(torch.empty(3, device="meta"), torch.float32)
