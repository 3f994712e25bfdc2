"""Damaged and hostile files, made of whole ones. Deterministic: a seed makes the same file again."""

import gzip
import io
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator

INTERESTING = (0x00, 0x01, 0x7F, 0x80, 0x90, 0xC0, 0xC4, 0xC6, 0xDB, 0xDD, 0xDF, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)
NUMBERS = (0, 1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
TEXTS = (
    *(b'"shape":[99999999999,99999999999]', b'"shape":[-1]', b'"shape":[0]', b'"dtype":"F64"', b'"dtype":"QFloat"'),
    *(b"[" * 200, b"{" * 200, b'{"a":' * 200, b"\x91" * 200, b"\x81\xa1a" * 200, b"\xa1aa" * 200, b"\x9f" * 200),
    *(
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b'"\\ud800"',
        b"1e999",
        b"-",
        b"NaN",
        b"Infinity",
        b'"id":"!"',
        b"../../etc/passwd",
    ),
    *(
        b"\xfb" + b"\xff" * 2,
        b"\xfc" + b"\xff" * 4,
        b"\xfd" + b"\xff" * 8,
        b"\xc6" + b"\xff" * 4,
        b"\xdd" + b"\xff" * 4,
    ),
)

Mutation = Callable[[random.Random, bytearray, list[bytes]], None]


def flip_bits(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def set_bytes(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    for _ in range(rng.choice((1, 1, 3))):
        data[rng.randrange(len(data))] = rng.choice(INTERESTING)


def put_number(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    size, order = rng.choice((2, 4, 8)), rng.choice("<>")
    at = rng.randrange(len(data))
    data[at : at + size] = struct.pack(f"{order}Q", rng.choice(NUMBERS))[: size if order == "<" else None][-size:]


def put_text(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    data[at : at + rng.choice((0, 1, 8, 32))] = rng.choice(TEXTS)


def put_digits(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    """Another number in the place of one that is written in digits."""
    at = next((at for at in range(rng.randrange(len(data)), len(data)) if 48 <= data[at] < 58), None)
    if at is not None:
        data[at : at + 1] = str(rng.choice((*NUMBERS, -1, 2**100))).encode()


def cut(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    del data[rng.randrange(len(data)) :]


def remove(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.choice((1, 2, 8, 64))]


def repeat(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    """A piece twice: duplicate keys, tensors that overlap."""
    at, count = rng.randrange(len(data)), rng.choice((1, 8, 64, 256))
    data[at:at] = data[at : at + count]


def splice(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    other = rng.choice(others)
    at = rng.randrange(len(data))
    begin = rng.randrange(len(other))
    data[at:] = other[begin:]


def swap(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    one, other, count = rng.randrange(len(data)), rng.randrange(len(data)), rng.choice((1, 4, 16))
    piece = data[one : one + count]
    data[one : one + count] = data[other : other + count]
    data[other : other + count] = piece


MUTATIONS: tuple[Mutation, ...] = (
    *(flip_bits, set_bytes, put_number, put_text, put_digits, cut, remove, repeat, splice, swap),
)


def archive(members: dict[str, bytes]) -> bytes:
    """A zip archive."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name), content)
    return memory.getvalue()


def mutated(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """A damaged copy; a compressed file or an archive is damaged inside or outside."""
    if data[:2] == b"PK" and rng.random() < 0.7:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            members = {name: file.read(name) for name in file.namelist()}
        name = rng.choice([*members, "archive/data.pkl", "archive/data.pkl"])
        return archive({**members, name: mutated(rng, members[name], others)})
    inside = data[:2] == b"\x1f\x8b" and rng.random() < 0.7
    found = bytearray(gzip.decompress(data) if inside else data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if found:
            rng.choice(MUTATIONS)(rng, found, others)
    return gzip.compress(bytes(found), 1, mtime=0) if inside else bytes(found)


def hostile() -> Iterator[bytes]:
    """Files made to do harm."""
    million = 1_000_000
    for opening in (b"[", b'{"a":', b"\x91", b"\x81\xa1a", b"\x81", b"\x9f", b"\xbf\x61a", b"\xa1\x61a"):
        yield opening * million
        yield b'{"metadata":' + opening * million
        yield b"\x83\xa8metadata" + opening * million
        yield struct.pack("<Q", len(opening) * million) + b"{" + opening * million
        yield b"NRUB\x01\x00" + struct.pack("<I", len(opening) * million) + opening * million
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join([packer.compress(bytes(1 << 20)) for _ in range(300)]) + packer.flush()
    yield bomb
    for head in (b'{"metadata":{', b"\x83\xa8metadata\x85", b'{"metadata":{}, "item":{"w":{"bytes":[' + b"0," * 10):
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        yield packer.compress(head) + b"".join([packer.compress(b" " * (1 << 20)) for _ in range(100)]) + packer.flush()
    for length in NUMBERS:
        yield struct.pack("<Q", length) + b"{}" + bytes(100)
        yield b"NRUB\x01\x00" + struct.pack("<Q", length)[:4] + bytes(300)
        yield b"\x83\xa8metadata\xc6" + struct.pack(">Q", length)[4:] + bytes(100)
        yield b"\x03f32\xfd" + struct.pack("<Q", length) + bytes(100)
    yield from (archive({"archive/data.pkl": b"\x80\x02" + content + b"."}) for content in _hostile_pickles())
    yield b""
    yield from (bytes([value]) for value in range(256))


def _hostile_pickles() -> Iterator[bytes]:
    """Pickles that take forever to hash, overflow the stack, or make much of little."""
    text = b"X\x01\x00\x00\x00"
    doubled = b")" + b"q\x00h\x00\x86" * 40  # a tuple of 2**40 tuples
    for item in (doubled, b")" + b"\x85" * 300_000):
        yield b"}" + item + b"K\x01s"  # as a key
        yield b"\x8f(" + item + b"\x90"  # in a set
        yield from (b"}" + text + b"a" + item + rest + b"s" for rest in (b"", b")R", b"Q", b")\x81", b"}b"))
    yield (
        b"}(" + b"".join(b"\x8a\x0b%bK\x01" % (it * (2**61 - 1)).to_bytes(11, "little") for it in range(100_000)) + b"u"
    )
    yield b"}" + text + b"a(c" + b"a" * 60_000 + b"\nb\nq\x00" + b"h\x00)R" * 200_000 + b"ts"
    yield b"}" + text + b"ac__builtin__\nbytearray\n\x8a\x05" + (1 << 36).to_bytes(5, "little") + b"\x85Rs"
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\n" + text + b"0X\x03\x00\x00\x00cpuK\x01tQ"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00))\x89NtR"
    for length in (4000, 1_000_000):  # of a name that many tensors' names begin with
        many = b"(" + tensor + b"q\x01" + b"h\x01" * 300_000 + b"t"
        yield b"}X" + struct.pack("<I", length) + b"a" * length + many + b"s"
    for count in NUMBERS:
        length = struct.pack("<Q", count)
        yield from (code + length for code in (b"\x95", b"X", b"\x8d", b"\x8e", b"\x8b", b"B", b"T", b"r", b"j"))
