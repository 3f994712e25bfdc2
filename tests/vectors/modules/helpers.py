"""Functions of the vectors that are no layers: padding, output sizes, sinusoids, masks."""

from collections.abc import Callable
from typing import Any

from burnlike import nn
from burnlike.nn.attention.positions import generate_sinusoids
from burnlike.nn.interpolate import calculate_output_size
from burnlike.nn.padding import both_ends, each, equal_ends

from ..problems import UnknownError
from .expectations import Failure
from .results import Result
from .subject import Subject

PADDINGS = ("Valid", "Same")


def padding_of(config: Any) -> Any:
    """A padding in burnlike's form."""
    if isinstance(config, dict) and config.keys() == {"Explicit"}:
        return tuple(config["Explicit"])
    if config not in PADDINGS:
        raise UnknownError(f"unknown padding {config!r}")
    return config


def only_argument(subject: Subject) -> dict[str, Any]:
    """The named arguments of a call."""
    args = subject.record.get("args")
    if not isinstance(args, list) or len(args) != 1 or not isinstance(args[0], dict):
        raise UnknownError(f"unknown arguments {args!r}")
    return {name: tuple(it) if isinstance(it, list) else it for name, it in args[0].items()}


def windows(subject: Subject) -> tuple[Any, list[int], tuple[int, ...], tuple[int, ...]]:
    """Padding, the input's shape, the kernel's sizes and the strides of a call."""
    named = only_argument(subject)
    kernel, stride = (each(named.pop(name), 1) for name in ("kernel_size", "stride"))
    return padding_of(subject.record["config"]), [1, 1, *named.values()], kernel, stride


def pairs(subject: Subject) -> Result:
    """The padding before and after each dimension."""
    found = list(zip(*both_ends(*windows(subject)), strict=True))
    return Result(subject.world, {"value": found[0] if len(found) == 1 else found})


def equal(subject: Subject) -> Result:
    """The padding at both ends of each dimension."""
    return Result(subject.world, {"value": equal_ends("padding", *windows(subject))})


def output_size(subject: Subject) -> Result:
    """Of resizing; a number for one dimension."""
    found = calculate_output_size(**only_argument(subject))
    return Result(subject.world, {"value": found[0] if len(found) == 1 else found})


def sinusoids(subject: Subject) -> Result:
    """The table of positions."""
    return Result(subject.world, {"output": generate_sinusoids(*subject.record["args"])})


def rotations(subject: Subject) -> Result:
    """The tables of a rotary encoding."""
    return Result(subject.world, {"output": subject.layer().freq_complex})


def padding_mask(subject: Subject) -> Result:
    """Padded tokens, and the mask of the padding."""
    padded = nn.generate_padding_mask(*subject.record["args"])
    if padded.tensor.tolist() != subject.record["derived_tensor"]:
        raise Failure(f"expected the tokens {subject.record['derived_tensor']}, got {padded.tensor.tolist()}")
    return Result(subject.world, {"mask": padded.mask})


HELPERS: dict[str, Callable[[Subject], Result]] = {
    "calculate_padding_1d_pair -> (start, end)": pairs,
    "calculate_padding_2d_pairs -> ((top, bottom), (left, right))": pairs,
    "calculate_padding_2d -> [top, left]": equal,
    "calculate_padding_3d -> [d, h, w]": equal,
    "generate_sinusoids(length, d_model, max_timescale)": sinusoids,
    "freq_complex [L, d, 2] (cos, sin), each repeated for the pair": rotations,
    "generate_padding_mask(pad_token, tokens, max_seq_length)": padding_mask,
    "calculate_output_size": output_size,
}
"""By their call."""
