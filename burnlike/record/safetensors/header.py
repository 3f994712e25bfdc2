"""Reads and checks the header of a safetensors file in one pass. Imports no torch.

A header of 100 MB may describe two million tensors, or be thirty million empty lists: each entry is found by its form,
and becomes an object only when it is one.
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

import msgspec

from ...errors import RecordFormatError
from ..bytes.budget import MAX_DIMENSIONS, MAX_HEADER_BYTES, MAX_NAME
from ..bytes.json_scan import BLANK, TEXT, NotThisError, text_map, text_of, why_not
from ..bytes.source import Source
from ..metadata import CHECKSUMS
from ..outline import DTYPE_BITS, StoredTensor, byte_count

LENGTH_BYTES = 8
METADATA = "__metadata__"

_NUMBER = rb"(0|[1-9][0-9]{0,18}+)"
_USUAL = re.compile(
    rb'"([^"\\\x00-\x1f]++)":\{("dtype":"[A-Z0-9_]++","shape":\[[0-9,]*+\]),"data_offsets":\['
    + _NUMBER + b"," + _NUMBER + rb"\]\}([,}])"
)  # fmt: skip
"""A member of the header as every writer writes it: name, type and shape, offsets, what follows."""

_FLAT = rb'\{[^{}"]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^{}"]*+)*+\}'
_MEMBER = re.compile(BLANK + TEXT + BLANK + b":" + BLANK + b"(?:(" + _FLAT + b")" + BLANK + b"([,}]))?", re.DOTALL)
"""Any member: name, a map without further ones in it, what follows; the name alone if its value is something else."""

_SLOT = f'"{CHECKSUMS}":"'.encode()
_BLANKS = re.compile(BLANK)
_EMPTY = re.compile(BLANK + rb"\{" + BLANK + rb"\}" + BLANK)
_OPENING = re.compile(BLANK + rb"\{")

_ENTRY_BYTES, _ENTRY_STEPS, _MEMBER_STEPS = 250, 30, 60
_ENTRY_QUOTES = 8  # three keys and the dtype: with more, a key comes twice
_USUAL_MARK = b',"data_offsets":['


class _Fields(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The fields of an entry, of any types."""

    dtype: object
    shape: object
    data_offsets: object


class _TensorForm(NamedTuple):
    """Facts that many tensors share: type, shape and size."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class Header:
    """A file's header, checked.

    Attributes:
        tensors: by name, in the order of their bytes.
        metadata: the free-form texts under `__metadata__`.
        crc32: checksum of the header, with zeros for the checksums in it; None where it has none.
    """

    tensors: Mapping[str, StoredTensor]
    metadata: Mapping[str, str]
    crc32: int | None = None


def checksums_start(head: bytes) -> int:
    """The position of the digits of the checksums in a header; -1 if it has none."""
    at = head.find(_SLOT)  # within a text its quotes have backslashes
    return at if at < 0 else at + len(_SLOT)


def read_header(source: Source) -> Header:
    """Read and check the header of a file; no tensor's bytes are read."""
    path = source.path
    if not source.has(0, LENGTH_BYTES):
        raise RecordFormatError(
            f"{path}: expected a safetensors file, got fewer than {LENGTH_BYTES} bytes, too short for any record;"
            " it may be an interrupted download or copy: fetch it again"
        )
    length = int.from_bytes(source.read(0, LENGTH_BYTES), "little")
    try:
        if length > MAX_HEADER_BYTES:
            raise RecordFormatError(f"its first 8 bytes promise a header of {length} bytes, it is no safetensors file")
        if not source.has(LENGTH_BYTES, length):
            raise RecordFormatError(
                f"truncated within the header: it takes {length + LENGTH_BYTES} bytes, more than the file has"
            )
        source.budget.add_header(length)
        reader, text = _Reader(source, LENGTH_BYTES + length), source.read(LENGTH_BYTES, length)
        tensors = reader.in_order(*reader.members(text))
        return Header(tensors, reader.texts or {}, _crc32(text))
    except RecordFormatError as error:
        if str(error).startswith(f"{path}: "):  # the budget's
            raise
        raise RecordFormatError(
            f"{path}: {error}; expected a whole safetensors file: save or fetch it again"
        ) from error


class _Reader:
    def __init__(self, source: Source, data_start: int) -> None:
        self.source = source
        self.data_start = data_start
        self.tensors: dict[str, StoredTensor] = {}
        self.texts: dict[str, str] | None = None

    def members(self, text: bytes) -> tuple[int, bool]:
        """Note what the header has; where the last tensor ends in the data, and whether they stand in their order."""
        opening = _OPENING.match(text)
        if opening is None:
            reason = why_not(text, 0)
            raise _wrong_header("is not a JSON object" if reason.startswith("has") else reason)
        if _EMPTY.fullmatch(text):
            return 0, True
        # The usual ones are counted beforehand: a call for each of a million would take half a second.
        count = text.count(_USUAL_MARK)
        self.source.budget.take(count * _ENTRY_BYTES + len(text), count * _ENTRY_STEPS)
        tensors, source, start, usual = self.tensors, self.source, self.data_start, _USUAL.match
        forms: dict[bytes, _TensorForm] = {}
        end, in_order = 0, True
        at, last = opening.end(), b","
        while last == b",":
            found = usual(text, at)
            if found is None:
                found, name, form, begin, stop = self._member(text, at)
                at, last = found.end(), found[3]
                if form is None:
                    continue
            else:
                raw, described, first, last_place, last = found.groups()
                at = found.end()
                begin, stop = int(first), int(last_place)
                try:
                    name = raw.decode()
                except UnicodeDecodeError:
                    raise _wrong_header(why_not(text, 0)) from None
                form = forms.get(described)
                if form is None:
                    try:
                        fields = msgspec.json.decode(b"{" + described + b',"data_offsets":0}', type=_Fields)
                    except msgspec.DecodeError as error:  # as for [1,,2]
                        raise _wrong_header(f"is not valid JSON ({error})") from error
                    form = forms[described] = _form_of(name, fields)
            dtype, shape, nbytes = form
            if stop - begin != nbytes or name in tensors or len(name) > MAX_NAME:
                raise self._refused(name, form, stop - begin)
            tensors[name] = StoredTensor(name, dtype, shape, source, start + begin)
            in_order = in_order and begin == end
            end = stop
        blanks = _BLANKS.match(text, at)
        if blanks is None or blanks.end() != len(text):
            raise _wrong_header(why_not(text, at))
        return end, in_order

    def _member(self, text: bytes, at: int) -> tuple[re.Match[bytes], str, _TensorForm | None, int, int]:
        """A member of any form: name, form and offsets; the form is None for the texts, which are noted."""
        found = _MEMBER.match(text, at)
        try:
            name = None if found is None else text_of(found[1])
        except ValueError:
            name = None
        if found is None or name is None:
            raise _wrong_header(why_not(text, at))
        if found[2] is None:
            reason = why_not(text, at)
            if not reason.startswith("has"):
                raise _wrong_header(reason)
            raise _no_map(name)
        if name == METADATA:
            if self.texts is not None:
                raise RecordFormatError(f"the name {name[:80]!r} comes twice in the header")
            try:
                self.texts = text_map(found[2], self.source.budget)
            except NotThisError as error:
                raise _no_map(name, str(error)) from error
            return found, name, None, 0, 0
        try:
            fields = msgspec.json.decode(found[2], type=_Fields)
        except msgspec.ValidationError as error:
            raise _no_map(name) from error
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise _wrong_header(why_not(text, found.start(2))) from None
        quotes = found[2].count(b'"') - found[2].count(b'\\"')
        if quotes != _ENTRY_QUOTES and isinstance(fields.dtype, str):
            raise RecordFormatError(f"a key of tensor {name[:80]!r} comes twice in the header")
        offsets = fields.data_offsets
        if not _naturals(offsets) or len(offsets) != 2:
            raise _no_naturals(name)
        self.source.budget.take(_ENTRY_BYTES + len(name), _MEMBER_STEPS)
        return found, name, _form_of(name, fields), offsets[0], offsets[1]

    def _refused(self, name: str, form: _TensorForm, count: int) -> RecordFormatError:
        if name in self.tensors:
            return RecordFormatError(f"the name {name[:80]!r} comes twice in the header")
        if len(name) > MAX_NAME:
            return RecordFormatError(f"the name '{name[:80]}...' is longer than {MAX_NAME} characters")
        return RecordFormatError(
            f"tensor {name[:80]!r} of shape {[*form.shape[:16]]} and dtype {form.dtype} takes {form.nbytes} bytes,"
            f" its offsets give {count}"
        )

    def in_order(self, end: int, is_in_order: bool) -> Mapping[str, StoredTensor]:
        """The tensors in the order of their bytes, which must fill the file."""
        if not is_in_order:
            self.tensors = {it.name: it for it in sorted(self.tensors.values(), key=lambda it: (it.start, it.nbytes))}
            end = 0
            for info in self.tensors.values():
                begin = info.start - self.data_start
                if begin != end:
                    raise RecordFormatError(
                        f"tensor '{info.name[:80]}' begins at data byte {begin}, expected {end} (a gap or an overlap)"
                    )
                end += info.nbytes
        end += self.data_start
        if not self.source.has(self.data_start, end - self.data_start):
            raise RecordFormatError(f"truncated: the tensors end at byte {end}, the file ends before")
        if self.source.has(end, 1):
            raise RecordFormatError("bytes lie behind the last tensor")
        return self.tensors


def _form_of(name: str, fields: _Fields) -> _TensorForm:
    """The form of a tensor, shared with others of its type and shape."""
    dtype, shape = fields.dtype, fields.shape
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise RecordFormatError(
            f"tensor {name[:80]!r} has the unknown dtype {str(dtype)[:40]!r}; known: {', '.join(DTYPE_BITS)}"
        )
    if not _naturals(shape):
        raise _no_naturals(name)
    if len(shape) > MAX_DIMENSIONS:
        raise RecordFormatError(f"tensor {name[:80]!r} has {len(shape)} dimensions, at most {MAX_DIMENSIONS} are read")
    return _TensorForm(dtype, tuple(shape), byte_count(dtype, shape))


def _naturals(value: object) -> TypeGuard[list[int]]:
    """Whether it is a list of whole numbers from 0 to 2**63 - 1."""
    limit = 2**63
    return isinstance(value, list) and all(type(item) is int and 0 <= item < limit for item in value)


def _no_naturals(name: str) -> RecordFormatError:
    return RecordFormatError(f"tensor {name[:80]!r}: shape and data_offsets must be lists of non-negative integers")


def _wrong_header(what: str) -> RecordFormatError:
    return RecordFormatError(f"the header {what}")


def _crc32(text: bytes) -> int | None:
    """The checksum of the header that `text` was before checksums were filled in; None if it has none."""
    begin = checksums_start(text)
    if begin < 0:
        return None
    end = text.find(b'"', begin)
    whole = memoryview(text)
    return zlib.crc32(whole[end:], zlib.crc32(b"0" * (end - begin), zlib.crc32(whole[:begin])))


def _no_map(name: str, why: str = "") -> RecordFormatError:
    if name == METADATA:
        return RecordFormatError(f"'{METADATA}' is not a map from text to text{why and f': it {why}'}")
    return RecordFormatError(f"tensor {name[:80]!r} needs exactly dtype, shape and data_offsets")
