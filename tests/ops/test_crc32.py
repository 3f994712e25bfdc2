"""Checksums are those of zlib, on every instruction set: of any length, at any address, going on from any other."""

import random
import sys
import threading
import zlib
from collections.abc import Iterator

import pytest
import torch

from burnlike.ops import crc32, force_cpu_isa, native_status

from .test_library import run_python

raw = torch.ops.burnlike.crc32.default
DATA = bytearray(random.Random(0).randbytes(3_000_000))
TENSOR = torch.frombuffer(DATA, dtype=torch.uint8)


@pytest.fixture(params=native_status().isas)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    with force_cpu_isa(request.param):
        yield request.param


def test_value_of_the_catalogue(isa: str) -> None:
    assert raw(torch.frombuffer(bytearray(b"123456789"), dtype=torch.uint8), 0) == 0xCBF43926  # the "check" of CRC-32


def test_every_short_length_at_every_address(isa: str) -> None:
    for count in range(301):
        for first in (0, 1, 7, 15):
            assert raw(TENSOR[first : first + count], 0) == zlib.crc32(DATA[first : first + count]), (first, count)


def test_random_lengths_addresses_and_starts(isa: str) -> None:
    choice = random.Random(1)
    for _ in range(300):
        first, count, start = choice.randrange(5000), choice.randrange(40_000), choice.randrange(2**32)
        assert raw(TENSOR[first : first + count], start) == zlib.crc32(DATA[first : first + count], start)
    for start in (0, 1, 2**31, 2**32 - 1):
        assert raw(TENSOR[:100], start) == zlib.crc32(DATA[:100], start)


@pytest.mark.parametrize("fill", [0, 0xFF])
def test_bytes_of_one_value(fill: int, isa: str) -> None:
    data = bytearray([fill]) * 100_003
    assert raw(torch.frombuffer(data, dtype=torch.uint8), 5) == zlib.crc32(data, 5)


@pytest.mark.parametrize("count", [0, 1, 8191, 8192, 1_000_001, len(DATA)])
def test_function_is_that_of_zlib(count: int, isa: str) -> None:
    assert crc32(memoryview(DATA)[:count], 3) == zlib.crc32(DATA[:count], 3)
    assert crc32(memoryview(bytes(DATA))[:count]) == zlib.crc32(DATA[:count]), "bytes that can't be written"
    parts = crc32(memoryview(DATA)[count:], crc32(memoryview(DATA)[:count]))
    assert parts == zlib.crc32(DATA)


def test_function_of_long_bytes_is_the_native_one_where_it_is_fast(isa: str) -> None:
    before = native_status().calls["crc32"]
    crc32(memoryview(DATA))
    assert native_status().calls["crc32"] == before + (isa != "default")
    with torch.device("meta"):
        assert crc32(memoryview(DATA)) == zlib.crc32(DATA)


def test_without_the_native_library_zlib_is_called(tmp_path: object) -> None:
    code = "from burnlike.ops import crc32; print(crc32(memoryview(bytearray(100_000)), 7))"
    assert run_python(code, BURNLIKE_LIBRARY_DIR=str(tmp_path)).stdout == f"{zlib.crc32(bytes(100_000), 7)}\n"


def test_other_threads_run_meanwhile() -> None:
    data, asked, calls, most = torch.zeros(16 << 20, dtype=torch.uint8), threading.Event(), 0, 1000

    def work() -> None:
        nonlocal calls
        while calls < most and not asked.is_set():
            raw(data, 0)
            calls += 1

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)  # no thread is made to hand over: only one that lets go does
    try:
        worker = threading.Thread(target=work)
        worker.start()
        asked.set()
        worker.join()
    finally:
        sys.setswitchinterval(interval)
    assert calls < most
