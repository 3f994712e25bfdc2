"""The element types of tensors and files: one table, of which every list of them is made. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import torch

FloatName = Literal["bfloat16", "float16", "float32", "float64"]
"""What a config takes for an element type of weights."""


class DtypeInfo(NamedTuple):
    """Facts of an element type.

    Attributes:
        record: its name in records and in safetensors files.
        bits: of one element.
        kind: float, int, bool or complex.
        torch: torch's name; empty for a type that torch has none for.
        short: the short name, which users may write in place of torch's; empty for a type that nothing is converted to.
        in_burn: whether Burn has it: typed tensors and Burn's files hold these, under the name in records.
        storage: the class of its storages in files of `torch.save`; empty for one that they name by torch's name.
        has_inf: whether a float can be infinite.
        native: of a float that native ops compute with its number, ElementKind in csrc/include/burnlike/tensors.h.
    """

    record: str
    bits: int
    kind: Literal["float", "int", "bool", "complex"]
    torch: str = ""
    short: str = ""
    in_burn: bool = False
    storage: str = ""
    has_inf: bool = True
    native: int | None = None


DTYPES = (
    # Those of Burn come first, in the order of their numbers in bincode.
    DtypeInfo("F64", 64, "float", "float64", "f64", in_burn=True, storage="DoubleStorage", native=1),
    DtypeInfo("F32", 32, "float", "float32", "f32", in_burn=True, storage="FloatStorage", native=0),
    DtypeInfo("F16", 16, "float", "float16", "f16", in_burn=True, storage="HalfStorage", native=3),
    DtypeInfo("BF16", 16, "float", "bfloat16", "bf16", in_burn=True, storage="BFloat16Storage", native=2),
    DtypeInfo("I64", 64, "int", "int64", "i64", in_burn=True, storage="LongStorage"),
    DtypeInfo("I32", 32, "int", "int32", "i32", in_burn=True, storage="IntStorage"),
    DtypeInfo("I16", 16, "int", "int16", "i16", in_burn=True, storage="ShortStorage"),
    DtypeInfo("I8", 8, "int", "int8", "i8", in_burn=True, storage="CharStorage"),
    DtypeInfo("U64", 64, "int", "uint64", "u64", in_burn=True),
    DtypeInfo("U32", 32, "int", "uint32", "u32", in_burn=True),
    DtypeInfo("U16", 16, "int", "uint16", "u16", in_burn=True),
    DtypeInfo("U8", 8, "int", "uint8", "u8", in_burn=True, storage="ByteStorage"),
    DtypeInfo("BOOL", 8, "bool", "bool", in_burn=True, storage="BoolStorage"),
    DtypeInfo("C64", 64, "complex", "complex64", storage="ComplexFloatStorage"),
    DtypeInfo("F8_E4M3", 8, "float", "float8_e4m3fn", "f8_e4m3", has_inf=False),
    DtypeInfo("F8_E5M2", 8, "float", "float8_e5m2", "f8_e5m2"),
    DtypeInfo("F8_E4M3FNUZ", 8, "float", "float8_e4m3fnuz", "f8_e4m3fnuz", has_inf=False),
    DtypeInfo("F8_E5M2FNUZ", 8, "float", "float8_e5m2fnuz", "f8_e5m2fnuz", has_inf=False),
    DtypeInfo("F8_E8M0", 8, "float", "float8_e8m0fnu", has_inf=False),
    DtypeInfo("F6_E2M3", 6, "float", has_inf=False),
    DtypeInfo("F6_E3M2", 6, "float", has_inf=False),
    DtypeInfo("F4", 4, "float", has_inf=False),
)

NATIVE = sorted((dtype for dtype in DTYPES if dtype.native is not None), key=lambda it: it.native or 0)
"""Those that native ops compute with, by their numbers."""

_NAMED = [dtype for dtype in DTYPES if dtype.short]
_OTHER = {it.short: it.torch for it in _NAMED} | {it.torch: it.short for it in _NAMED}


def convertible(kind: str) -> list[DtypeInfo]:
    """The types of a kind that values can be converted to."""
    return [it for it in _NAMED if it.kind == kind]


def torch_dtypes(types: Iterable[DtypeInfo]) -> "tuple[torch.dtype, ...]":
    """torch's types; imports torch."""
    import torch

    return tuple(getattr(torch, it.torch) for it in types)


def other_name(name: str) -> str | None:
    """The other name of an element type that has a short one, None for what has none.

    Example:
        >>> other_name("bf16"), other_name("float32"), other_name("fast")
        ('bfloat16', 'f32', None)
    """
    return _OTHER.get(name)
