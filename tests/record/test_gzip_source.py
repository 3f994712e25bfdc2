"""Bytes inside gzip streams, read by position."""

import gzip
import random
import threading
import tracemalloc
import zlib

import pytest

from burnlike.errors import RecordFormatError
from burnlike.record.bytes.source import BytesSource, Cursor, GzipSource, is_gzip

LENGTH = 3_000_000


@pytest.fixture(scope="module")
def plain() -> bytes:
    numbers = random.Random(0)
    return b"".join(
        numbers.choice([numbers.randbytes(1000), bytes(1000), b"burn" * 250]) for _ in range(LENGTH // 1000)
    )


@pytest.fixture(scope="module")
def packed(plain: bytes) -> bytes:
    return gzip.compress(plain, 1)


def source_of(data: bytes) -> GzipSource:
    return GzipSource(BytesSource(data, "x.gz"))


def test_any_ranges_in_any_order_are_those_of_the_unpacked_data(plain: bytes, packed: bytes) -> None:
    source, numbers = source_of(packed), random.Random(1)
    for _ in range(60):
        start = numbers.randrange(LENGTH)
        count = min(numbers.choice([0, 1, 16, 70_000, 600_000]), LENGTH - start)
        assert source.has(start, count)
        assert source.read(start, count) == plain[start : start + count]


def test_the_end_is_known_whatever_was_read_before(plain: bytes, packed: bytes) -> None:
    for before in (0, 1, LENGTH):
        source = source_of(packed)
        source.read(0, before)
        assert source.has(LENGTH - 1, 1)
        assert source.has(LENGTH, 0)
        assert not source.has(LENGTH, 1)
        assert not source.has(LENGTH + 5, 0)
        assert not source.has(10**18, 10**18)
        assert source.has(0, LENGTH)
        assert not source.has(0, LENGTH + 1)
        with pytest.raises(RecordFormatError, match="truncated"):
            source.read(LENGTH - 10, 11)
        assert source.read(LENGTH - 10, 10) == plain[-10:]


def test_reading_forward_through_windows_takes_one_pass(plain: bytes, packed: bytes) -> None:
    source = source_of(packed)
    cursor = Cursor(source)
    found = b""
    while not cursor.at_end():
        found += cursor.take(min(997, LENGTH - cursor.position))
    assert found == plain
    assert source.restarts == 0


def test_looking_ahead_does_not_lose_the_place(plain: bytes, packed: bytes) -> None:
    source = source_of(packed)
    for start in range(0, LENGTH - (1 << 16), 50_000):
        assert source.has(start, 1 << 16)
        assert source.read(start, 8) == plain[start : start + 8]
    assert source.restarts == 0


def test_going_back_unpacks_again(plain: bytes, packed: bytes) -> None:
    source = source_of(packed)
    source.read(LENGTH - 1, 1)
    assert source.read(0, 4) == plain[:4]
    assert source.restarts == 1


def test_streams_that_follow_each_other_are_one(plain: bytes) -> None:
    parts = [plain[:1_000_000], b"", plain[1_000_000:1_000_001], plain[1_000_001:]]
    source = source_of(b"".join(map(gzip.compress, parts)))
    assert source.read(0, LENGTH) == plain
    assert not source.has(LENGTH, 1)
    assert source_of(gzip.compress(b"") * 3).has(0, 0)
    assert not source_of(gzip.compress(b"") * 3).has(0, 1)


def test_many_empty_streams_take_little_time_each() -> None:
    source = source_of(gzip.compress(b"") * 50_000 + gzip.compress(b"end"))
    assert source.read(0, 3) == b"end"


@pytest.mark.parametrize("behind", [b"\0", b"garbage", b"\x1f", b"\x1f\x8b\x09"])
def test_bytes_behind_the_stream_are_refused(packed: bytes, behind: bytes) -> None:
    source = source_of(packed + behind)
    with pytest.raises(RecordFormatError, match=r"behind its compressed data|damaged|truncated"):
        source.has(LENGTH, 1)


@pytest.mark.parametrize("cut", [1, 4, 7, 8, 9, 1000, 300_000])
def test_a_stream_that_is_cut_is_refused(packed: bytes, cut: int) -> None:
    with pytest.raises(RecordFormatError, match="truncated within its compressed data"):
        source_of(packed[:-cut]).has(LENGTH, 1)


@pytest.mark.parametrize("place", [-1, -6, -1000, 12])
def test_damage_is_an_error_once_the_end_is_read(packed: bytes, place: int) -> None:
    data = bytearray(packed)
    data[place] ^= 0xFF
    with pytest.raises(RecordFormatError, match="damaged"):
        source_of(bytes(data)).has(LENGTH, 1)


def test_every_cut_of_a_small_stream_is_an_error() -> None:
    data = gzip.compress(b"some data, some data")
    for length in range(2, len(data)):
        with pytest.raises(RecordFormatError):
            source_of(data[:length]).has(20, 1)


def test_a_bomb_takes_no_memory() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join(packer.compress(bytes(1 << 20)) for _ in range(100)) + packer.flush()
    source = source_of(data)
    tracemalloc.start()
    try:
        assert source.has(0, 100 << 20)
        assert not source.has(0, (100 << 20) + 1)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


def test_several_threads_get_what_they_asked_for(plain: bytes, packed: bytes) -> None:
    source = source_of(packed)
    wrong: list[int] = []

    def read(seed: int) -> None:
        numbers = random.Random(seed)
        for _ in range(10):
            start = numbers.randrange(LENGTH - 100_000)
            if source.read(start, 100_000) != plain[start : start + 100_000]:
                wrong.append(start)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_gzip_is_told_by_its_first_bytes(packed: bytes) -> None:
    assert is_gzip(BytesSource(packed))
    assert not is_gzip(BytesSource(b"\x1f"))
    assert not is_gzip(BytesSource(b"{}"))
