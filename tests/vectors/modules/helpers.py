"""Functions of the vectors that are no layers: padding, output sizes, sinusoids, masks."""

from collections.abc import Callable
from typing import Any

from burnlike import nn
from burnlike.nn import padding
from burnlike.nn.attention.positional_encoding import generate_sinusoids
from burnlike.nn.interpolate.interpolate import calculate_output_size

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


def pads(name: str) -> Callable[[Subject], Result]:
    """A function of `burnlike.nn.padding`."""

    def call(subject: Subject) -> Result:
        found = getattr(padding, name)(padding_of(subject.record["config"]), **only_argument(subject))
        return Result(subject.world, {"value": found})

    return call


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
    "calculate_padding_1d_pair -> (start, end)": pads("calculate_padding_1d_pair"),
    "calculate_padding_2d_pairs -> ((top, bottom), (left, right))": pads("calculate_padding_2d_pairs"),
    "calculate_padding_2d -> [top, left]": pads("calculate_padding_2d"),
    "calculate_padding_3d -> [d, h, w]": pads("calculate_padding_3d"),
    "generate_sinusoids(length, d_model, max_timescale)": sinusoids,
    "freq_complex [L, d, 2] (cos, sin), each repeated for the pair": rotations,
    "generate_padding_mask(pad_token, tokens, max_seq_length)": padding_mask,
    "calculate_output_size": output_size,
}
"""By their call."""
