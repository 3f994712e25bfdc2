"""Arguments of operations: from the vectors' forms to what burnlike's functions take."""

import importlib
import inspect
from dataclasses import dataclass
from typing import Any

from burnlike.tensor.quantization import Block, QuantScheme

from .problems import UnknownError
from .values import DTYPES, KINDS, NUMBERS

NORMED = ("linalg.vector_norm", "linalg.vector_norm_dims", "linalg.vector_normalize")
NORMS = {"L0", "L1", "L2", "LInf", "LNegInf"}
RANDOM = ("random", "random_like")
UPDATES = {"Assign", "Add", "Mul", "Min", "Max"}
# Words that an operation may be given, by the operation.
WORDS: dict[str, set[str]] = {
    **dict.fromkeys(("scatter", "select_assign", "scatter_nd"), UPDATES),
    "pad": {"Reflect", "Edge"},
    **dict.fromkeys(NORMED, NORMS),
    "grid.meshgrid": {"Dense", "Sparse", "Matrix", "Cartesian"},
    "grid.meshgrid_stack": {"First", "Last"},
    "grid_sample_2d": {"Nearest", "Bilinear", "Bicubic"},
    "module.interpolate": {"Nearest", "NearestExact", "Bilinear", "Bicubic", "Lanczos3"},
    **{op: {"Default"} for op in RANDOM},
}
TEXT = {"display", "einsum", "assert_shape"}
# Variants with content, as in {"Lp": 3.0}.
VARIANTS: dict[str, tuple[str, ...]] = {
    "Lp": NORMED,
    "Constant": ("pad",),
    "Bernoulli": RANDOM,
    "Uniform": RANDOM,
    "Normal": RANDOM,
}
OPTIONS: dict[str, str] = {
    **dict.fromkeys(["module.conv1d", "module.conv2d", "module.conv3d"], "ConvOptions"),
    "module.conv2d_weight_backward": "ConvOptions",
    **dict.fromkeys([f"module.conv_transpose{n}d" for n in (1, 2, 3)], "ConvTransposeOptions"),
    "module.deform_conv2d": "DeformConvOptions",
    **dict.fromkeys(["module.unfold4d", "module.fold4d"], "UnfoldOptions"),
    "module.interpolate": "InterpolateOptions",
    **dict.fromkeys(["module.attention", "module.attention_fallback"], "AttentionModuleOptions"),
    "grid_sample_2d": "GridSampleOptions",
    **dict.fromkeys(["signal.stft", "signal.istft"], "StftOptions"),
    "grid.meshgrid": "GridOptions",
    **dict.fromkeys([f"module.max_pool{n}d{more}" for n in (1, 2) for more in ("", "_with_indices")], "MaxPoolOptions"),
    "module.max_pool2d_with_indices_backward": "MaxPoolOptions",
    **dict.fromkeys(["quantize", "quantize_dynamic", "quantization.compute_q_params"], "QuantScheme"),
    **dict.fromkeys(["module.avg_pool1d", "module.avg_pool2d", "module.avg_pool2d_backward"], "AvgPoolOptions"),
}
# Older names of options classes that a vector may carry.
RENAMED = {"PaddedConvOptions": "ConvOptions"}
SLICES = {"slice": 0, "slice_assign": 0, "slice_fill": 0}
MAX_DEPTH = 16


@dataclass
class Options:
    """Fields of an options object whose class the operation may know."""

    fields: dict[str, Any]
    type: str | None = None


def public(name: str) -> Any:
    """A class of the public API, of `burnlike.tensor` or of one of its modules of free functions."""
    for module in ("", ".signal", ".grid", ".options", ".core.dtypes", ".host.distribution", ".quantization"):
        found = getattr(importlib.import_module(f"burnlike.tensor{module}"), name, None)
        if found is not None:
            return found
    raise UnknownError(f"unknown class {name!r}")


def converted(op: str, args: list[Any]) -> list[Any]:
    """Evaluated arguments of an operation in burnlike's forms."""
    if op in SLICES and args:
        return [slices(args[0]), *(one(op, arg) for arg in args[1:])]
    if op == "slice_dim" and len(args) == 2:
        return [one(op, args[0]), slice_of(args[1])]
    return [one(op, arg) for arg in args]


def one(op: str, arg: Any, depth: int = 0) -> Any:
    """One argument."""
    if depth > MAX_DEPTH:
        raise UnknownError("an argument nests too deep")
    if isinstance(arg, list | tuple):
        return [one(op, item, depth + 1) for item in arg]
    if isinstance(arg, str):
        return word(op, arg)
    if isinstance(arg, Options):
        return options(op, arg)
    if isinstance(arg, dict):
        return variant(op, arg)
    return arg  # a tensor, a number, True, False, None, or an object that an operation returned


def word(op: str, text: str) -> Any:
    """A number that JSON lacks, an element type, or one of the words of the operation."""
    if text in NUMBERS:
        return NUMBERS[text]
    if op in RANDOM and text == "Default":
        return public("Distribution").Default
    if op in TEXT or text in WORDS.get(op, ()):
        return text
    family, _, name = text.partition(".")
    if family in ("DType", "FloatDType", "IntDType") and name:
        members = public(family)
        if name.upper() not in members.__members__:
            raise UnknownError(f"unknown element type {text!r}")
        return members[name.upper()]
    if text in DTYPES:
        return DTYPES[text]
    raise UnknownError(f"unknown word {text!r} of {op}")


def variant(op: str, arg: dict[str, Any]) -> Any:
    """A variant with content."""
    if len(arg) != 1:
        raise UnknownError(f"unknown argument {arg!r} of {op}")
    ((name, content),) = arg.items()
    if op not in VARIANTS.get(name, ()):
        raise UnknownError(f"unknown argument {arg!r} of {op}")
    content = one(op, content)
    if name == "Lp":
        return content
    if name == "Constant":
        return content  # a bare number means it
    return distribution(name, content if isinstance(content, list) else [content])


def distribution(name: str, content: list[Any]) -> Any:
    """A distribution with its parameters."""
    return getattr(public("Distribution"), name)(*content)


def options(op: str, arg: Options) -> Any:
    """An options object; its class is named by the vector or follows from the operation."""
    name = arg.type or OPTIONS.get(op)
    if name is None:
        raise UnknownError(f"{op} takes no options")
    name = RENAMED.get(name, name)
    if name == "QuantScheme":
        return quant_scheme(arg.fields)
    made = public(name)
    unknown = arg.fields.keys() - inspect.signature(made).parameters.keys()
    if unknown:
        raise UnknownError(f"unknown field {sorted(unknown)[0]!r} of {name}")
    return made(**{field: plain(value) for field, value in arg.fields.items()})


def quant_scheme(fields: dict[str, Any]) -> QuantScheme:
    """A scheme; burnlike has one mode and one way to store."""
    known = {"value", "level", "param", "store", "mode"}
    if fields.keys() - known or fields.get("mode", "Symmetric") != "Symmetric":
        raise UnknownError(f"unknown scheme {fields!r}")
    more = {"param": word("quantize", f"FloatDType.{fields['param']}")} if "param" in fields else {}
    return QuantScheme(**{name: plain(fields[name]) for name in ("value", "level") if name in fields}, **more)


def plain(value: Any) -> Any:
    """A field of options: numbers, words, lists of them, the sizes of a block."""
    if isinstance(value, dict) and value.keys() == {"Block"} and isinstance(value["Block"], list):
        return Block(*plain(value["Block"]))
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return NUMBERS.get(value, value)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise UnknownError(f"unknown value {value!r} in options")


def slices(arg: Any) -> list[Any]:
    """The slices of several dimensions."""
    if not isinstance(arg, list | tuple):
        raise UnknownError(f"expected a list of slices, got {arg!r}")
    return [slice_of(item) for item in arg]


def slice_of(arg: Any) -> Any:
    """`[start, end or null, step]`, or an int that keeps its dimension."""
    if isinstance(arg, int) and not isinstance(arg, bool):
        return arg
    if isinstance(arg, list | tuple) and len(arg) == 3 and all(it is None or type(it) is int for it in arg):
        return slice(*arg)
    raise UnknownError(f"unknown slice {arg!r}")


def creation_options(op: str, arg: Any) -> dict[str, Any]:
    """What a creation takes after its arguments: null, an element type, or [device, element type]."""
    if isinstance(arg, list | tuple):
        if len(arg) != 2 or arg[0] != "default":
            raise UnknownError(f"unknown options {arg!r} of {op}")
        arg = arg[1]
    if arg is None or arg == "default":
        return {}
    if not isinstance(arg, str):
        raise UnknownError(f"unknown options {arg!r} of {op}")
    found = word(op, arg)
    return {"dtype": found}


def kind_named(name: Any) -> Any:
    """The kind that a creation names."""
    if name not in KINDS:
        raise UnknownError(f"unknown kind {name!r}")
    return KINDS[name]
