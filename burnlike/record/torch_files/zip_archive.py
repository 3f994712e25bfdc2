"""The uncompressed members of a zip archive, as `torch.save` writes it. Imports no torch.

https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3: the list of members stands at the end.
"""

import struct
from typing import NamedTuple

from ...errors import RecordFormatError
from ..bytes.budget import TensorCost
from ..bytes.source import Source

ZIP_MAGIC = b"PK\x03\x04"

_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_MOST_COMMENT = 0xFFFF
_UNKNOWN = 0xFFFFFFFF  # stands in an extra field, as 64 bits
_MEMBER = TensorCost(memory=600, steps=140, file_bytes=128)
_ENCRYPTED, _UTF8 = 0x1, 0x800


class ArchiveMember(NamedTuple):
    """A file in the archive: offset of its first byte, size, and checksum, None where there is none."""

    start: int
    size: int
    crc32: int | None


def members(source: Source) -> dict[str, ArchiveMember]:
    """The members by name."""
    listed = _list_of(source)
    source.budget.add_header(len(listed))
    found: dict[str, ArchiveMember] = {}
    at = 0
    while at < len(listed):
        source.budget.take(_MEMBER.memory, _MEMBER.steps)
        if at + _ENTRY.size > len(listed) or not listed.startswith(b"PK\x01\x02", at):
            raise _damaged(source, "its list of members is cut or overwritten")
        _, _, _, flags, method, _, _, crc, packed, count, *lengths, _, _, _, start = _ENTRY.unpack_from(listed, at)
        name_end = at + _ENTRY.size + lengths[0]
        name = listed[at + _ENTRY.size : name_end].decode("utf-8" if flags & _UTF8 else "cp437", "replace")
        extra, extra_at = listed[name_end : name_end + lengths[1]], 0
        while _UNKNOWN in (count, packed, start) and extra_at + 4 <= len(extra):  # 4.5.3
            kind, size = struct.unpack_from("<HH", extra, extra_at)
            extra_at += 4
            if kind == 1:
                values = iter(struct.unpack_from(f"<{min(size, len(extra) - extra_at) // 8}Q", extra, extra_at))
                count, packed, start = (next(values, it) if it == _UNKNOWN else it for it in (count, packed, start))
                break
            extra_at += size
        if name in found:
            raise RecordFormatError(f"{source.path}: the name '{name[:80]}' comes twice in its zip archive")
        if method != 0 or flags & _ENCRYPTED or count != packed:
            raise RecordFormatError(f"{source.path}: '{name[:80]}' is compressed or encrypted, torch.save does neither")
        head = source.read(start, 30)
        if head[:4] != ZIP_MAGIC:
            raise RecordFormatError(f"{source.path}: '{name[:80]}' is not where the zip archive says")
        start += 30 + sum(struct.unpack_from("<HH", head, 26))
        found[name] = ArchiveMember(start, count, crc)
        source.require(start, count)
        if count:
            source.budget.add_tensor(_MEMBER)
        at = name_end + lengths[1] + lengths[2]
    if not any(it.crc32 for it in found.values()):  # as torch.serialization.set_crc32_options(False) leaves them
        return {name: it._replace(crc32=None) for name, it in found.items()}
    return found


def _list_of(source: Source) -> bytes:
    size = source.stored_bytes
    tail_at = max(size - _END.size - _MOST_COMMENT, 0)
    tail = source.read(tail_at, size - tail_at)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + _END.size > len(tail):
        raise _damaged(source, "it has no end, which tells its members")
    _, _, _, _, _, count, start, _ = _END.unpack_from(tail, at)
    locator_at = tail_at + at - _LOCATOR_64.size
    if locator_at >= 0 and source.read(locator_at, 4) == b"PK\x06\x07":
        _, _, end_at, _ = _LOCATOR_64.unpack(source.read(locator_at, _LOCATOR_64.size))
        found = _END_64.unpack(source.read(end_at, _END_64.size))
        if found[0] != b"PK\x06\x06":
            raise _damaged(source, "its end is not where it says")
        count, start = found[-2:]
    if start + count > size:
        raise _damaged(source, "its list of members is not where it says")
    return source.read(start, count)


def _damaged(source: Source, what: str) -> RecordFormatError:
    return RecordFormatError(f"{source.path}: its zip archive is damaged: {what}; save or fetch it again")
