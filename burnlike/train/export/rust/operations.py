"""Operations on tensors, which are layers in a config and expressions in Rust; and calls of layers that take more."""

from collections.abc import Callable, Sequence
from typing import Any

_CALLS = {
    **dict.fromkeys(("Lstm", "BiLstm", "Rnn", "BiRnn", "Gru", "BiGru"), "{field}.forward({0}, None)"),
    "CrossAttention": "{field}.forward({0}, {1}, None)",
    "TransformerEncoder": "{field}.forward(TransformerEncoderInput::new({0}))",
    "TransformerDecoder": "{field}.forward(TransformerDecoderInput::new({0}, {1}))",
}
_ARITHMETIC = {"Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/"}
_METHODS = {"Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Negate": "neg"}

IMPORTS = {
    "MhaInput": "burn::nn::attention::MhaInput",
    "TransformerEncoderInput": "burn::nn::transformer::TransformerEncoderInput",
    "TransformerDecoderInput": "burn::nn::transformer::TransformerDecoderInput",
    "softmax": "burn::tensor::activation::softmax",
    "s!": "burn::tensor::s",
}
"""What has to be imported where a text of Rust has the name."""


def call_of(tag: str, field: str, given: Sequence[str]) -> str:
    """The call of a layer that is a field."""
    if tag == "MultiHeadAttention":
        make = f"MhaInput::self_attn({given[0]})" if len(given) == 1 else f"MhaInput::new({', '.join(given)})"
        return f"{field}.forward({make})"
    if tag in _CALLS:
        return _CALLS[tag].format(*given, field=field)
    return f"{field}.forward({', '.join(given)})"


def operation(tag: str, config: Any) -> Callable[[Sequence[str], int, int], str] | None:
    """What computes an operation of the inputs' expressions, the rank of the first and that of the result; None for a
    layer that is none of those which Burn's tensors have.
    """
    if tag in _ARITHMETIC:
        return lambda given, before, after: f" {_ARITHMETIC[tag]} ".join(given)
    if tag in _METHODS:
        return lambda given, before, after: f"{given[0]}.{_METHODS[tag]}()"
    return {
        "MatMul": lambda given, before, after: f"{given[0]}.matmul({given[1]})",
        "Concat": lambda given, before, after: f"Tensor::cat(vec![{', '.join(given)}], {_at(config.dim, after)})",
        "Stack": lambda given, before, after: (
            f"Tensor::stack::<{after}>(vec![{', '.join(given)}], {_at(config.dim, after)})"
        ),
        "Flatten": lambda given, before, after: (
            f"{given[0]}.flatten::<{after}>({_at(config.start_dim, before)}, {_at(config.end_dim, before)})"
        ),
        "Reshape": lambda given, before, after: f"{given[0]}.reshape([{', '.join(map(str, config.shape))}])",
        "Permute": lambda given, before, after: (
            f"{given[0]}.permute([{', '.join(str(_at(dim, before)) for dim in config.dims)}])"
        ),
        "Softmax": lambda given, before, after: f"softmax({given[0]}, {_at(config.dim, before)})",
        "Mean": lambda given, before, after: _reduced("mean", given[0], config, before, after),
        "Sum": lambda given, before, after: _reduced("sum", given[0], config, before, after),
        "Select": lambda given, before, after: (
            f"{given[0]}.slice_dim({_at(config.dim, before)}, s![{_range(config.index)}])"
            f".squeeze_dim::<{after}>({_at(config.dim, before)})"
        ),
    }.get(tag)


def _reduced(kind: str, x: str, config: Any, before: int, after: int) -> str:
    dims = config.dims if isinstance(config.dims, tuple | list) else (config.dims,)
    listed = ", ".join(str(_at(dim, before)) for dim in dims)
    squeezed = "" if config.keep_dims else f".squeeze_dims::<{after}>(&[{listed}])"
    return f"{x}.{kind}_dims(&[{listed}]){squeezed}"


def _at(dim: int, rank: int) -> int:
    return dim % rank


def _range(index: int) -> str:
    return f"{index}.." if index == -1 else f"{index}..{index + 1}"
