"""Inputs of layers: from the vectors' forms to torch tensors."""

import math
import re
from typing import Any

import torch

from ..problems import UnknownError
from ..values import NUMBERS

FORMULAS: dict[str, tuple[float, ...]] = {
    "logits[t,n,c] = sin(0.1*(7t + 13n + 3c)) (float32); log_probs = log_softmax over the last dim": (0.7, 1.3, 0.3),
    "logits[b,t,u,v] = sin(0.1*(11b + 7t + 13u + 3v)) (float32)": (1.1, 0.7, 1.3, 0.3),
}
"""The sine of the weighted sum of the indices."""
OF_FLAT_INDEX = {"flat index i: sin(0.3*i)": 0.3}
INTS: dict[Any, torch.dtype] = {"int": torch.int64}


def tensor_of(value: Any, dtype: Any = None) -> Any:
    """The torch tensor that a value describes, float32 unless it says otherwise; None for null.

    Args:
        value: nested lists of numbers or of bools, or a generator.
        dtype: the record's name of the element type.
    """
    if value is None:
        return None
    if dtype is not None and dtype not in INTS:
        raise UnknownError(f"unknown element type {dtype!r}")
    if isinstance(value, dict):
        return generated(value).to(INTS.get(dtype, torch.bool if "bool_mask" in value else torch.float32))
    if not isinstance(value, list):
        raise UnknownError(f"unknown input {value!r}")
    flat = leaves(value)
    kinds = {type(it) for it in flat}
    if kinds == {bool}:
        return torch.tensor(value)
    if not kinds <= {int, float, str} or (dtype in INTS and kinds - {int}):
        raise UnknownError(f"an input with {sorted(it.__name__ for it in kinds)}")
    return torch.tensor(numbers(value), dtype=INTS.get(dtype, torch.float32))


def leaves(value: Any) -> list[Any]:
    """The items of nested lists."""
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list) else [value]


def numbers(value: Any) -> Any:
    """Nested lists with the texts of numbers that JSON lacks as numbers."""
    if isinstance(value, list):
        return [numbers(item) for item in value]
    if isinstance(value, str) and value not in NUMBERS:
        raise UnknownError(f"unknown number {value!r}")
    return NUMBERS[value] if isinstance(value, str) else value


def generated(value: dict[str, Any]) -> torch.Tensor:
    """The tensor of a generator."""
    match value:
        case {"ones": shape, **rest} if not rest:
            return torch.ones(shape)
        case {"zeros": shape, **rest} if not rest:
            return torch.zeros(shape)
        case {"full": number, "shape": shape, **rest} if not rest:
            return torch.full(shape, number)
        case {"arange": [start, end], "shape": shape, **rest} if not rest:
            return torch.arange(start, end).reshape(shape)
        case {"random_default": shape, **rest} if not rest:
            return torch.rand(shape)
        case {"random_uniform": [low, high], "shape": shape, **rest} if not rest:
            return low + (high - low) * torch.rand(shape)
        case {"random_normal": [mean, std], "shape": shape, **rest} if not rest:
            return mean + std * torch.randn(shape)
        case {"formula": text, "shape": shape, **rest} if not rest:
            return by_formula(text, shape)
        case {"bool_mask": shape, "true_at": str(place), **rest} if not rest:
            return mask_of(shape, place)
    raise UnknownError(f"unknown input {value!r}")


def by_formula(text: str, shape: list[int]) -> torch.Tensor:
    """The numbers of one of the formulas, rounded to float32 at the end."""
    if text in OF_FLAT_INDEX:
        return (torch.arange(math.prod(shape), dtype=torch.float64) * OF_FLAT_INDEX[text]).sin().float().reshape(shape)
    if text not in FORMULAS or len(FORMULAS[text]) != len(shape):
        raise UnknownError(f"unknown formula {text!r} of shape {shape}")
    indices = torch.meshgrid(*(torch.arange(size, dtype=torch.float64) for size in shape), indexing="ij")
    weighted = sum((factor * index for factor, index in zip(FORMULAS[text], indices, strict=True)), torch.zeros(()))
    return weighted.sin().float()


def mask_of(shape: list[int], place: str) -> torch.Tensor:
    """A mask that is True in some columns."""
    found = re.fullmatch(r"columns (\d+)\.\.(\d+)", place)
    if found is None:
        raise UnknownError(f"unknown place {place!r} of a mask")
    mask = torch.zeros(shape, dtype=torch.bool)
    mask[..., int(found[1]) : int(found[2])] = True
    return mask
