"""torch's counterparts of transformers.

One layer of torch's is a stack of one: it has no config of its own. With `norm_first` Burn calls the norms of a layer
by each other's names.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..activation.configs import GeluConfig, ReluConfig
from ..activation.elementwise import Gelu, Relu
from ..attention.torch_counterparts import attention_config, attention_tensors
from ..roles import ActivationConfig
from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, refuse
from .configs import TransformerDecoderConfig, TransformerEncoderConfig
from .transformer import StackConfig, TransformerDecoder, TransformerEncoder

TorchLayer = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer


def _activation(layer: TorchLayer) -> ActivationConfig:
    activation: Any = layer.activation
    if activation is functional.relu or type(activation) is nn.ReLU:
        return ReluConfig()
    if activation is functional.gelu:
        return GeluConfig()
    if type(activation) is nn.GELU:
        return GeluConfig(approximate=activation.approximate == "tanh")
    raise refuse(layer, f"activation={activation!r} has no counterpart; take relu, gelu, nn.ReLU or nn.GELU")


def _layer_config(layer: Any) -> StackConfig:
    attentions = [it for it in layer.children() if isinstance(it, nn.MultiheadAttention)]
    first, *others = (attention_config(it) for it in attentions)
    dropouts = {it.p for it in layer.children() if isinstance(it, nn.Dropout)}
    norms = [it for it in layer.children() if isinstance(it, nn.LayerNorm)]
    if any(it != first for it in others) or dropouts != {first.dropout} or len({it.eps for it in norms}) > 1:
        raise refuse(layer, "its parts have different options, such as dropout, which has no counterpart")
    if layer.linear1.bias is None or any(it.bias is None for it in norms):
        raise refuse(layer, "bias=False has no counterpart")
    config_type = (
        TransformerEncoderConfig if isinstance(layer, nn.TransformerEncoderLayer) else TransformerDecoderConfig
    )
    return config_type(
        d_model=first.d_model,
        d_ff=layer.linear1.out_features,
        n_heads=first.n_heads,
        n_layers=1,
        dropout=first.dropout,
        norm_first=layer.norm_first,
        quiet_softmax=first.quiet_softmax,
        activation=_activation(layer),
        layer_norm_eps=norms[0].eps,
    )


def _stack_config(stack: nn.TransformerEncoder | nn.TransformerDecoder) -> StackConfig:
    if stack.norm is not None:
        raise refuse(stack, "a norm at the end has no counterpart; keep it beside the stack")
    layer_type = nn.TransformerEncoderLayer if isinstance(stack, nn.TransformerEncoder) else nn.TransformerDecoderLayer
    if any(type(it) is not layer_type for it in stack.layers):
        raise refuse(stack, f"layers other than {layer_type.__name__} have no counterpart")
    first, *others = map(_layer_config, stack.layers)
    if any(it != first for it in others):
        raise refuse(stack, "layers of different options have no counterpart")
    return first.replace(n_layers=len(stack.layers))


def _build_layer(stack: TransformerEncoder | TransformerDecoder, device: torch.device) -> TorchLayer:
    if len(stack.layers) > 1:
        raise refuse(stack, f"{len(stack.layers)} layers can't become one")
    return _one_layer(stack, device)


def _one_layer(stack: TransformerEncoder | TransformerDecoder, device: torch.device) -> TorchLayer:
    if stack.quiet_softmax:
        raise refuse(stack, "quiet_softmax=True has no counterpart")
    first: Any = stack.layers[0]
    activation = first.pwff.activation
    if not isinstance(activation, Relu | Gelu) or getattr(activation, "approximate", False):
        raise refuse(stack, f"the activation {type(activation).__name__} has no counterpart")
    layer_type = nn.TransformerEncoderLayer if isinstance(stack, TransformerEncoder) else nn.TransformerDecoderLayer
    return layer_type(
        stack.d_model,
        stack.n_heads,
        stack.d_ff,
        stack.dropout,
        "relu" if isinstance(activation, Relu) else "gelu",
        first.norm_1.epsilon,
        batch_first=True,
        norm_first=stack.norm_first,
        device=device,
    )


def _build_stack(
    stack: TransformerEncoder | TransformerDecoder, device: torch.device
) -> nn.TransformerEncoder | nn.TransformerDecoder:
    layer: Any = _one_layer(stack, device)
    if isinstance(stack, TransformerEncoder):
        return nn.TransformerEncoder(layer, len(stack.layers), enable_nested_tensor=False)
    return nn.TransformerDecoder(layer, len(stack.layers))


def _layer_tensors(layer: TorchLayer | TransformerEncoder | TransformerDecoder) -> Mapping[str, TensorSource]:
    return _tensors(layer, "layers.0.", "")


def _stack_tensors(stack: nn.Module) -> Mapping[str, TensorSource]:
    options = stack.layers[0] if isinstance(stack, nn.TransformerEncoder | nn.TransformerDecoder) else stack
    return _tensors(options, "layers.*.", "layers.*.")


def _tensors(options: Any, ours: str, theirs: str) -> Mapping[str, TensorSource]:
    if isinstance(options, TransformerEncoder | nn.TransformerEncoderLayer):
        sources = attention_tensors(f"{ours}mha.", f"{theirs}self_attn.")
        norms = ("norm_2", "norm_1") if options.norm_first else ("norm_1", "norm_2")
    else:
        sources = attention_tensors(f"{ours}self_attn.", f"{theirs}self_attn.")
        sources |= attention_tensors(f"{ours}cross_attn.", f"{theirs}multihead_attn.")
        norms = ("norm_3", "norm_1", "norm_2") if options.norm_first else ("norm_1", "norm_2", "norm_3")
    for linear, name in (("linear_inner", "linear1"), ("linear_outer", "linear2")):
        sources[f"{ours}pwff.{linear}.weight"] = TensorSource(f"{theirs}{name}.weight", transposed=True)
        sources[f"{ours}pwff.{linear}.bias"] = TensorSource(f"{theirs}{name}.bias")
    for number, norm in enumerate(norms, 1):
        sources[f"{ours}{norm}.gamma"] = TensorSource(f"{theirs}norm{number}.weight")
        sources[f"{ours}{norm}.beta"] = TensorSource(f"{theirs}norm{number}.bias")
    return sources


_ROWS: list[tuple[Any, ...]] = [
    ("TransformerEncoder", "one_tensor", nn.TransformerEncoderLayer, _layer_config, _build_layer, _layer_tensors),
    ("TransformerEncoder", "one_tensor", nn.TransformerEncoder, _stack_config, _build_stack, _stack_tensors),
    ("TransformerDecoder", "other", nn.TransformerDecoderLayer, _layer_config, _build_layer, _layer_tensors),
    ("TransformerDecoder", "other", nn.TransformerDecoder, _stack_config, _build_stack, _stack_tensors),
]
COUNTERPARTS = [
    Counterpart(name, theirs, config, build, call=call, tensors_by=tensors)
    for name, call, theirs, config, build, tensors in _ROWS
]
