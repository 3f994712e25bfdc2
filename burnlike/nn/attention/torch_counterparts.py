"""torch's counterparts of attention."""

import torch
from torch import nn

from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, refuse
from .configs import MultiHeadAttentionConfig
from .multi_head_attention import MultiHeadAttention


def attention_config(layer: nn.MultiheadAttention) -> MultiHeadAttentionConfig:
    """The config of torch's layer. Raises NoCounterpartError for an option that only torch has."""
    if not layer.batch_first:
        raise refuse(layer, "batch_first=False has no counterpart: burnlike's is [batch, length, d_model]")
    if layer.in_proj_weight is None:
        raise refuse(layer, "kdim and vdim other than embed_dim have no counterpart")
    if layer.bias_k is not None:
        raise refuse(layer, "add_bias_kv=True has no counterpart")
    bias = layer.in_proj_bias is not None
    names = ("query_bias", "key_bias", "value_bias", "output_bias")
    return MultiHeadAttentionConfig(
        d_model=layer.embed_dim,
        n_heads=layer.num_heads,
        dropout=layer.dropout,
        # A key of zeros has the score 0: e^0 = 1 is what the quiet softmax adds.
        quiet_softmax=layer.add_zero_attn,
        **dict.fromkeys(names, bias),
    )


def _build(layer: MultiHeadAttention, device: torch.device) -> nn.MultiheadAttention:
    biases = {it.bias is not None for it in (layer.query, layer.key, layer.value, layer.output)}
    if len(biases) > 1:
        raise refuse(layer, "biases for some of the projections only have no counterpart")
    return nn.MultiheadAttention(
        layer.d_model,
        layer.n_heads,
        dropout=layer.dropout.prob,
        bias=biases.pop(),
        add_zero_attn=layer.quiet_softmax,
        batch_first=True,
        device=device,
    )


def attention_tensors(ours: str = "", theirs: str = "") -> dict[str, TensorSource]:
    """The places in torch's attention at `theirs` of the tensors of ours at `ours`; both end with a dot."""
    sources: dict[str, TensorSource] = {}
    for index, name in enumerate(("query", "key", "value")):
        sources[f"{ours}{name}.weight"] = TensorSource(f"{theirs}in_proj_weight", (index, 3), transposed=True)
        sources[f"{ours}{name}.bias"] = TensorSource(f"{theirs}in_proj_bias", (index, 3))
    sources[f"{ours}output.weight"] = TensorSource(f"{theirs}out_proj.weight", transposed=True)
    sources[f"{ours}output.bias"] = TensorSource(f"{theirs}out_proj.bias")
    return sources


COUNTERPARTS = [
    Counterpart(
        "MultiHeadAttention", nn.MultiheadAttention, attention_config, _build, attention_tensors(), call="other"
    )
]
