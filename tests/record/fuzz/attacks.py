"""Files that are made to take far more time or memory than their size lets expect; each tried reader once.

    python -m tests.record.fuzz.attacks FOLDER SCALE

prints a JSON object a line: the attack, the file's bytes, what became of it, seconds of a core and bytes of memory that
opening it took. Time, memory and sizes are those of the rule, times SCALE.
"""

import io
import json
import os
import struct
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

ENVELOPE = {"float": "f32", "int": "i32", "format": "x", "version": "0.21.0", "settings": "y"}
LAYOUT = {"a": {"$vec": "u64"}, "b": {"$vec": "unit"}, "c": {"$map": "unit"}}
Attack = Callable[[int], bytes]
"""The file of about so many parts (a million, times the scale)."""


def safetensors(header: str | bytes, data: bytes = b"") -> bytes:
    header = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(header)) + header + data


def entry(begin: int = 0, shape: str = "[0]", stop: int | None = None) -> str:
    return f'{{"dtype":"U8","shape":{shape},"data_offsets":[{begin},{begin if stop is None else stop}]}}'


def texts(**more: str) -> bytes:
    return safetensors(json.dumps({"__metadata__": {"burnlike.format": "2", **more}, "w": json.loads(entry())}))


def joined(count: int, part: Callable[[int], str]) -> str:
    return ",".join(map(part, range(count)))


def pickled(content: bytes, members: dict[str, bytes] | None = None) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as file:
        for name, data in {"archive/data.pkl": b"\x80\x02" + content + b".", **(members or {})}.items():
            file.writestr(zipfile.ZipInfo(name), data)
    return memory.getvalue()


def old_pickled(content: bytes) -> bytes:
    magic = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
    return magic + b"\x80\x02M\xe9\x03." + b"\x80\x02}." + b"\x80\x02" + content + b"."


def gzipped(head: bytes, chunk: bytes, count: int) -> bytes:
    """A gzip stream of `head` and `count` times `chunk`; nobody needs to pack it all."""

    def packed(data: bytes) -> bytes:
        packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        return packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH)

    return b"\x1f\x8b\x08" + bytes(6) + b"\xff" + packed(head) + packed(chunk) * count


def burnpack(metadata: bytes) -> bytes:
    head = b"NRUB\x01\x00" + struct.pack("<I", len(metadata)) + metadata
    return head + bytes(-len(head) % 256)


def cbor_text(text: str) -> bytes:
    return b"\x78" + bytes([len(text)]) + text.encode()


def burnpack_tensors(count: int) -> bytes:
    count = min(count, 99_999)
    descriptor = b"\xa3\x65dtype\x63F32\x65shape\x81\x00\x6cdata_offsets\x82\x00\x00"
    return burnpack(
        b"\xa1\x67tensors\xba"
        + struct.pack(">I", count)
        + b"".join(cbor_text(f"t{i}") + descriptor for i in range(count))
    )


MPK = b"\x82\xa8metadata"
JSON = f'{{"metadata":{json.dumps(ENVELOPE)},"item":'.encode()
BIN = b"".join(bytes([len(text)]) + text.encode() for text in ENVELOPE.values())
MANY = b"\xdd\xff\xff\xff\xff"
MILLION = 1_000_000

ATTACKS: dict[str, tuple[str, Attack]] = {
    "a name twice among many": (
        ".safetensors",
        lambda n: safetensors("{" + joined(n, lambda i: f'"a{i}":{entry()}') + f',"a{n - 1}":{entry()}}}'),
    ),
    "names of no tensors": (".safetensors", lambda n: safetensors("{" + joined(n, lambda i: f'"a{i}":1') + "}")),
    "300 dimensions": (".safetensors", lambda n: safetensors(f'{{"x":{entry(0, str([2**62] * 300), 4)}}}', bytes(4))),
    "very many dimensions": (
        ".safetensors",
        lambda n: safetensors(f'{{"x":{entry(0, str([2**62] * n), 4)}}}', bytes(4)),
    ),
    "dimensions of ones": (".safetensors", lambda n: safetensors(f'{{"x":{entry(0, str([1] * 10 * n), 1)}}}', b"1")),
    "shapes that all differ": (
        ".safetensors",
        lambda n: safetensors("{" + joined(2 * n, lambda i: f'"a{i}":{entry(0, f"[{i},0]")}') + "}"),
    ),
    "escaped names": (
        ".safetensors",
        lambda n: safetensors("{" + joined(2 * n, lambda i: f'"\\u0061{i}":{entry()}') + "}"),
    ),
    "one long name": (".safetensors", lambda n: safetensors(f'{{"{"a" * 30 * n}":{entry()}}}')),
    "lists in the header": (".safetensors", lambda n: safetensors('{"x":[' + joined(30 * n, lambda i: "[]") + "]}")),
    "lists for metadata": (
        ".safetensors",
        lambda n: safetensors('{"__metadata__":[' + joined(30 * n, lambda i: "[]") + "]}"),
    ),
    "maps in an entry": (
        ".safetensors",
        lambda n: safetensors('{"x":{"dtype":"U8","shape":[' + joined(30 * n, lambda i: "{}") + "]}}"),
    ),
    "very many texts": (
        ".safetensors",
        lambda n: safetensors('{"__metadata__":{' + joined(5 * n, lambda i: f'"{i}":""') + "}}"),
    ),
    "maps as values": (".safetensors", lambda n: texts(**{"burnlike.values": '{"x":[' + "{}," * 20 * n + "{}]}"})),
    "numbers as values": (".safetensors", lambda n: texts(**{"burnlike.values": '{"x":[' + "1," * 30 * n + "1]}"})),
    "names as values": (
        ".safetensors",
        lambda n: texts(**{"burnlike.values": "{" + joined(5 * n, lambda i: f'"{i}":0') + "}"}),
    ),
    "very many aliases": (
        ".safetensors",
        lambda n: texts(**{"burnlike.aliases": "{" + joined(5 * n, lambda i: f'"{i}":"w"') + "}"}),
    ),
    "ids of no tensors": (
        ".safetensors",
        lambda n: texts(**{"burnlike.ids": "{" + joined(3 * n, lambda i: f'"{i}":"0000000000000"') + "}"}),
    ),
    "a state very often": (".safetensors", lambda n: texts(**{"burnlike.states": '["w"' + ',"w"' * 15 * n + "]"})),
    "a vast layout": (
        ".safetensors",
        lambda n: texts(**{"burnlike.layout": '{"$tuple":["unit"' + ',"unit"' * 10 * n + "]}"}),
    ),
    "lists in an index": (".index.json", lambda n: b'{"x":[[]' + b",[]" * 30 * n + b'],"weight_map":{}}'),
    "lists of files in an index": (".index.json", lambda n: b'{"weight_map":[[]' + b",[]" * 30 * n + b"]}"),
    "names in an index": (
        ".index.json",
        lambda n: ('{"weight_map":{' + joined(5 * n, lambda i: f'"{i}":"x"') + "}}").encode(),
    ),
    "marks": (".pt", lambda n: pickled(b"(" * 30 * n)),
    "lists in lists": (".pt", lambda n: pickled(b"]" * 5 * n + b"a" * 5 * n)),
    "empty maps": (".pt", lambda n: pickled(b"}" * 20 * n)),
    "empty tuples in tuples": (".pt", lambda n: pickled(b")" + b"\x85" * 20 * n)),
    "references": (".pt", lambda n: pickled(b"}" + b"".join(b"r" + struct.pack("<I", i) for i in range(4 * n)))),
    "maps in a map": (
        ".pt",
        lambda n: pickled(b"}(" + b"".join(b"J" + struct.pack("<i", i) + b"}" for i in range(3 * n)) + b"u"),
    ),
    "one list again and again": (
        ".pt",
        lambda n: pickled(b"}X\x01\0\0\0a(]q\x00(" + b"K\x01" * n + b"e" + b"h\x00" * n + b"ts"),
    ),
    "calls": (".pt", lambda n: pickled(b"}X\x01\0\0\0a(ccollections\nOrderedDict\nq\x00" + b"h\x00)R" * 5 * n + b"ts")),
    "members of an archive": (".pt", lambda n: pickled(b"}", {f"archive/data/{i}": b"" for i in range(n // 4)})),
    "marks in an old file": (".pt", lambda n: old_pickled(b"(" * 30 * n)),
    "long lines in an old file": (".pt", lambda n: old_pickled(b"ca" + b"b" * 20 * n)),
    "arrays": (".mpk", lambda n: MPK + MANY + b"\x90" * 30 * n),
    "numbers": (".mpk", lambda n: MPK + MANY + b"\x01" * 30 * n),
    "texts": (".mpk", lambda n: MPK + MANY + b"\xa0" * 30 * n),
    "bytes": (".mpk", lambda n: MPK + MANY + b"\xc4\x00" * 20 * n),
    "keys": (
        ".mpk",
        lambda n: MPK + b"\xdf\xff\xff\xff\xff" + b"".join(b"\xa8%08d\x01" % i for i in range(3 * n)),
    ),
    "arrays in text": (".json", lambda n: JSON + b"[" + b"[]," * 10 * n),
    "numbers in text": (".json", lambda n: JSON + b"[" + b"1," * 15 * n),
    "a key twice among many in text": (
        ".json",
        lambda n: JSON + b"{" + b"".join(b'"k%d":1,' % i for i in range(n)) + b'"k1":1}}',
    ),
    "escapes": (".json", lambda n: JSON + b'"' + b"\\u0041" * 5 * n + b'"}'),
    "long numbers": (".json", lambda n: JSON + b"[" + (b"9" * 4000 + b",") * (n // 100)),
    "bytes as text": (".json", lambda n: JSON + b'{"w":{"bytes":[' + b"0," * 20 * n),
    "numbers of a layout": (".bin", lambda n: BIN + b"\xfc" + struct.pack("<I", 20 * n) + bytes(20 * n)),
    "nothing very often": (".bin", lambda n: BIN + b"\x00\xfd" + b"\xff" * 8),
    "names of nothing": (
        ".bin",
        lambda n: BIN + b"\x00\x00\xfc" + struct.pack("<I", 3 * n) + b"".join(b"\x08%08d" % i for i in range(3 * n)),
    ),
    "arrays of CBOR": (".bpk", lambda n: burnpack(b"\xa1\x61a\x9f" + b"\x80" * 20 * n + b"\xff")),
    "numbers of CBOR": (".bpk", lambda n: burnpack(b"\xa1\x61a\x9f" + b"\x00" * 20 * n + b"\xff")),
    "parts of a text of CBOR": (".bpk", lambda n: burnpack(b"\xa1\x61a\x7f" + b"\x60" * 20 * n + b"\xff")),
    "empty tensors": (".bpk", burnpack_tensors),
    "blanks": (".json.gz", lambda n: gzipped(b'{"metadata":', b" " * (1 << 20), 8 * n // 1000)),
    "nothing but zeros": (".json.gz", lambda n: gzipped(JSON + b'{"w":{"bytes":[', b"0," * (1 << 19), 4 * n // 1000)),
    "packed arrays": (".mpk.gz", lambda n: gzipped(MPK + MANY, b"\x90" * (1 << 20), n // 1000)),
    "a packed text": (".mpk.gz", lambda n: gzipped(MPK + b"\xdb\xff\xff\xff\xff", b"a" * (1 << 20), 4 * n // 1000)),
    "packed numbers of a layout": (
        ".bin.gz",
        lambda n: gzipped(BIN + b"\xfc" + b"\xff" * 4, bytes(1 << 20), n // 1000),
    ),
    "empty members": (".json.gz", lambda n: zlib.compress(b"", 9, wbits=31) * 2 * n),
    "members of a byte": (".json.gz", lambda n: zlib.compress(b" ", 9, wbits=31) * 2 * n),
    "empty blocks": (".json.gz", lambda n: b"\x1f\x8b\x08" + bytes(6) + b"\xff" + b"\0\0\0\xff\xff" * 4 * n),
}
"""Name -> extension, and what makes the file."""


def opened(path: str, scale: float) -> dict[str, object]:
    """What became of opening `path`, and what it took."""
    from benchmarks._memory import with_extra_bytes
    from burnlike.errors import RecordError
    from burnlike.record import ReadLimits, open_record

    def attempt() -> str:
        usual = ReadLimits()
        try:
            with ReadLimits(seconds=usual.seconds * scale, memory_bytes=usual.memory_bytes * scale):
                return f"{len(open_record(path, layout=LAYOUT if '.bin' in path else None).tensors)} tensors"
        except RecordError as error:
            return f"refused: {error!s:.300}"

    begin = time.process_time()
    outcome, extra_bytes = with_extra_bytes(attempt)
    return {"outcome": outcome, "seconds": time.process_time() - begin, "extra_bytes": extra_bytes}


def in_a_fork(path: str, scale: float) -> dict[str, object]:
    """As `opened`, in a process of its own, which has all that is imported and nothing that others left."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps(opened(path, scale)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        found = file.read()
    os.waitpid(child, 0)
    return json.loads(found)


def main(folder: str, scale: float) -> None:
    opened(os.fspath(Path(__file__)), scale)  # imports all that is needed
    for name, (extension, make) in ATTACKS.items():
        path = Path(folder, f"x{extension}")
        path.write_bytes(make(int(MILLION * scale)))
        size = path.stat().st_size
        print(json.dumps({"name": name, "bytes": size, **in_a_fork(os.fspath(path), scale)}), flush=True)
        path.unlink()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
