"""Weights of linear layers in 8 or 4 bits, by torchao's tensors."""

import importlib
import logging
from collections.abc import Callable, Collection
from math import gcd
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import ArgumentError, ConfigError
from ..module import params
from ..module.adapters.layers import Dequantized, Lora, kind_of
from ..module.adapters.reparameterization import attach
from ..module.torch_objects.deferred import at_once
from ..module.torch_objects.wrappers import is_quantized, own_class
from ..module.tree.param import Param
from ..nn import Linear

Scheme = Literal["int8", "nf4"]
_BLOCK, _MOST_BLOCKS = 64, 256
"""Weights that share a scale in NF4, and scales that share one (Dettmers et al. 2023, arXiv:2305.14314)."""


def quantize_(model: nn.Module, scheme: Scheme = "int8", *, skip: Collection[str] = ()) -> list[str]:
    """Round the weights of linear layers, in place; returns their paths. They are frozen, and take part in records.

    These are `nn.Linear`, transformers' `Conv1D` and burnlike's `Linear`. A weight that is tied to another, that
    has a reparameterization other than LoRA, or whose path is in `skip` stays as it is; so does in `nf4` one whose size
    is no multiple of 64. Gradients reach what is before the layers.

    Args:
        scheme: `int8`: 8 bits with a scale for each row of the weight. `nf4`: 4 bits of normal numbers with a scale for
            each 64, of which 256 are in 8 bits, too.

    Raises:
        ConfigError: torchao is not installed.
        ArgumentError: the scheme is not known.
    """
    rounded = _scheme(scheme)
    chosen = [it for it in params(model, "weight") if it.path not in skip and _fits(it, scheme)]
    for param in chosen:
        owner, name = param.owners[0]
        owner._parameters[name] = nn.Parameter(at_once(rounded, param.tensor.detach()), requires_grad=False)
    paths = {it.path for it in chosen}
    now = [parameter for parameter in params(model, "weight") if parameter.path in paths]
    attach([(it, Dequantized()) for it in now if it.reparameterization() is None])
    return [it.path for it in chosen]


def _fits(param: Param, scheme: str) -> bool:
    owner, name = param.home
    is_linear = kind_of(own_class(owner)) in ("linear", "conv1d") or own_class(owner) is Linear
    is_alone = len(param.owners) == 1 and param.mappers == (None, None) and not is_quantized(param.tensor)
    has_room = isinstance(param.reparameterization(), Lora | None)
    has_blocks = scheme == "int8" or param.tensor.numel() % _BLOCK == 0
    return is_linear and name == "weight" and is_alone and has_room and has_blocks and not param.tensor.is_meta


def _scheme(name: str) -> Callable[[Tensor], Tensor]:
    if name not in ("int8", "nf4"):
        raise ArgumentError(f"quantize: expected int8 or nf4, got {name!r}")
    torchao = import_torchao("torchao.quantization", "quantize")
    if name == "int8":
        rows = importlib.import_module("torchao.quantization.granularity").PerRow()
        # torchao's int8 takes no float64.
        return lambda weight: torchao.Int8Tensor.from_hp(
            (weight.float() if weight.dtype == torch.float64 else weight).contiguous(), rows
        )
    _clone_in_parts()
    return lambda weight: torchao.to_nf4(weight.contiguous(), _BLOCK, gcd(weight.numel() // _BLOCK, _MOST_BLOCKS))


def import_torchao(name: str, what: str) -> Any:
    """A module of torchao; a ConfigError, which says what needs it, where it is not installed."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # of libraries that torchao looks for
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"{what} needs the package torchao: pip install 'burnlike[quantize]'") from error
    finally:
        logging.disable(before)


def _clone_in_parts() -> None:
    """Let copies of NF4 tensors be equal: `clone` of torchao rounds again what they stand for, in other blocks."""
    nf4: Any = importlib.import_module("torchao.quantization.quantize_.workflows.nf4.nf4_tensor")

    def clone(function: Any, arguments: Any, keywords: Any = None) -> Tensor:
        tensor, *rest = arguments
        parts = nf4.apply_to_inner_tensors(tensor, function, rest, keywords or {})
        return nf4.NF4Tensor(*nf4.construct_nf4_args(tensor, parts))

    nf4.implements([torch.ops.aten.clone.default])(clone)
