"""The entries of tensors in the header of a safetensors file. Imports no torch."""

import re
from typing import NamedTuple, TypeGuard

import msgspec

from ...errors import RecordFormatError
from ..bytes.budget import MAX_DIMENSIONS
from ..bytes.json_scan import why_not
from ..outline import DTYPE_BITS, byte_count

_ENTRY_QUOTES = 8  # three keys and the dtype: with more, a key comes twice


class Fields(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The fields of an entry, of any types."""

    dtype: object
    shape: object
    data_offsets: object


class TensorForm(NamedTuple):
    """Facts that many tensors share: type, shape and size."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int


def fields_of(form: bytes) -> Fields:
    """Type and shape of an entry of the usual form, without its offsets."""
    try:
        return msgspec.json.decode(b"{" + form + b',"data_offsets":0}', type=Fields)
    except msgspec.DecodeError as error:  # as for [1,,2]
        raise wrong_header(f"is not valid JSON ({error})") from error


def fields_in(name: str, text: bytes, found: re.Match[bytes]) -> Fields:
    """The fields of the entry `name`, the second group of what was found in `text`."""
    try:
        fields = msgspec.json.decode(found[2], type=Fields)
    except msgspec.ValidationError as error:
        raise RecordFormatError(f"tensor {name[:80]!r} needs exactly dtype, shape and data_offsets") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise wrong_header(why_not(text, found.start(2))) from None
    quotes = found[2].count(b'"') - found[2].count(b'\\"')
    if quotes != _ENTRY_QUOTES and isinstance(fields.dtype, str):
        raise RecordFormatError(f"a key of tensor {name[:80]!r} comes twice in the header")
    return fields


def form_of(name: str, fields: Fields) -> TensorForm:
    """The form of a tensor, shared with others of its type and shape."""
    dtype, shape = fields.dtype, fields.shape
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise RecordFormatError(
            f"tensor {name[:80]!r} has the unknown dtype {str(dtype)[:40]!r}; known: {', '.join(DTYPE_BITS)}"
        )
    if not naturals(shape):
        raise no_naturals(name)
    if len(shape) > MAX_DIMENSIONS:
        raise RecordFormatError(f"tensor {name[:80]!r} has {len(shape)} dimensions, at most {MAX_DIMENSIONS} are read")
    return TensorForm(dtype, tuple(shape), byte_count(dtype, shape))


def naturals(value: object) -> TypeGuard[list[int]]:
    """Whether it is a list of whole numbers from 0 to 2**63 - 1."""
    limit = 2**63
    return isinstance(value, list) and all(type(item) is int and 0 <= item < limit for item in value)


def no_naturals(name: str) -> RecordFormatError:
    return RecordFormatError(f"tensor {name[:80]!r}: shape and data_offsets must be lists of non-negative integers")


def wrong_header(what: str) -> RecordFormatError:
    return RecordFormatError(f"the header {what}")
