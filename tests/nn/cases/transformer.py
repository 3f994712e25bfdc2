"""Cases of transformers and their parts."""

from typing import Any

import torch
from torch import Tensor

from burnlike import nn

from . import Case, floats
from .attention import attention, hidden


def norm(layer: Any, x: Tensor) -> Tensor:
    """Ba et al. 2016, eq. 4."""
    centered = x - x.mean(-1, keepdim=True)
    return centered / (centered.square().mean(-1, keepdim=True) + layer.epsilon).sqrt() * layer.gamma + layer.beta


def feed_forward(layer: Any, x: Tensor) -> Tensor:
    """Vaswani et al. 2017, eq. 2, with the layer's activation."""
    inner = x @ layer.linear_inner.weight + layer.linear_inner.bias
    return layer.activation(inner) @ layer.linear_outer.weight + layer.linear_outer.bias


def encoder(stack: Any, x: Tensor, mask_pad: Tensor | None = None, mask_attn: Tensor | None = None) -> Tensor:
    """Vaswani et al. 2017, section 3.1, or what Burn does with norm_first."""

    def attended(layer: Any, x: Tensor) -> Tensor:
        return attention(layer.mha, x, mask_pad=mask_pad, mask_attn=mask_attn)[1]

    for layer in stack.layers:
        if stack.norm_first:
            x = x + attended(layer, norm(layer.norm_2, x))
            x = x + feed_forward(layer.pwff, norm(layer.norm_1, x))
        else:
            x = norm(layer.norm_1, x + attended(layer, x))
            x = norm(layer.norm_2, x + feed_forward(layer.pwff, x))
    return x


def decoder(stack: Any, x: Tensor, memory: Tensor, *masks: Tensor | None) -> Tensor:
    """Vaswani et al. 2017, section 3.1."""
    target_pad, target_attn, memory_pad, memory_attn = masks
    for layer in stack.layers:
        x = norm(layer.norm_1, x + attention(layer.self_attn, x, None, None, target_pad, target_attn)[1])
        x = norm(layer.norm_2, x + attention(layer.cross_attn, x, memory, memory, memory_pad, memory_attn)[1])
        x = norm(layer.norm_3, x + feed_forward(layer.pwff, x))
    return x


def gated(layer: Any, x: Tensor) -> Tensor:
    """Shazeer 2020, eq. 6, with GELU or SiLU."""
    inner = layer.gate.linear_inner(x)
    erf = 0.5 * inner * (1 + torch.erf(inner / 2**0.5))
    gate = inner * inner.sigmoid() if isinstance(layer.gate, nn.SwiGlu) else erf
    return layer.linear(gate * layer.gate.linear_outer(x))


def mixture(layer: Any, x: Tensor) -> Tensor:
    """Position by position: the likeliest experts, each with its probability (Jiang et al. 2024, section 2.1)."""
    rows = []
    for row in x.flatten(0, -2):
        powers = (row @ layer.router.weight).exp()
        probabilities = powers / powers.sum()
        chosen = probabilities.argsort(descending=True)[: layer.n_selected].tolist()
        whole = sum(probabilities[index] for index in chosen) if layer.normalized else 1.0
        rows.append(sum(probabilities[index] / whole * gated(layer.experts[index], row) for index in chosen))
    return torch.stack(rows).reshape(x.shape)


FEED_FORWARD = nn.PositionWiseFeedForwardConfig(d_model=4, d_ff=6, dropout=0.0)
ENCODER = nn.TransformerEncoderConfig(d_model=4, d_ff=6, n_heads=2, n_layers=2, dropout=0.0)
DECODER = nn.TransformerDecoderConfig(d_model=4, d_ff=6, n_heads=2, n_layers=2, dropout=0.0)
PAD = hidden("..x", "...")
CAUSAL = hidden(".xx", "..x", "...")[None].expand(2, -1, -1)

CASES = [
    Case(
        "PositionWiseFeedForward",
        FEED_FORWARD,
        lambda: (floats(2, 3, 4),),
        reference=feed_forward,
        bad_shapes=((2, 3),),
    ),
    Case(
        "PositionWiseFeedForward/swiglu",
        FEED_FORWARD.replace(activation=nn.SwiGluConfig(d_input=6, d_output=6)),
        lambda: (floats(2, 4),),
        reference=feed_forward,
    ),
    Case(
        "GatedFeedForward",
        nn.GatedFeedForwardConfig(d_model=4, d_ff=6),
        lambda: (floats(2, 3, 4),),
        gated,
        bad_shapes=((2, 3),),
    ),
    Case(
        "GatedFeedForward/gelu",
        nn.GatedFeedForwardConfig(d_model=4, d_ff=6, activation=nn.GeluConfig(), bias=True),
        lambda: (floats(2, 3, 4),),
        gated,
    ),
    Case(
        "MixtureOfExperts",
        nn.MixtureOfExpertsConfig(d_model=4, d_ff=6, n_experts=3),
        lambda: (floats(2, 8, 4),),  # enough that each expert is chosen
        mixture,
        bad_shapes=((2, 3),),
    ),
    Case(
        "MixtureOfExperts/switch",
        nn.MixtureOfExpertsConfig(d_model=4, d_ff=6, n_experts=3, n_selected=1, normalized=False),
        lambda: (floats(7, 4),),
        mixture,
    ),
    Case("TransformerEncoder", ENCODER, lambda: (floats(2, 3, 4),), bad_shapes=((2, 3, 5), (3, 4))),
    Case(
        "TransformerEncoder/norm_first",
        ENCODER.replace(norm_first=True, activation=nn.ReluConfig(), layer_norm_eps=1e-2),
        lambda: (floats(2, 3, 4),),
    ),
    Case("TransformerEncoder/masked", ENCODER, lambda: (floats(2, 3, 4), PAD, CAUSAL), reference=encoder),
    Case(
        "TransformerEncoder/quiet",
        ENCODER.replace(norm_first=True, quiet_softmax=True),
        lambda: (floats(2, 3, 4), hidden("xxx", "x..")),
        reference=encoder,
    ),
    Case("TransformerDecoder", DECODER, lambda: (floats(2, 3, 4), floats(2, 2, 4)), bad_shapes=((1, 3, 4), (2, 3, 5))),
    Case(
        "TransformerDecoder/norm_first",
        DECODER.replace(norm_first=True),
        lambda: (floats(2, 3, 4), floats(2, 2, 4)),
    ),
    Case(
        "TransformerDecoder/masked",
        DECODER,
        lambda: (
            *(floats(2, 3, 4), floats(2, 2, 4), PAD, CAUSAL),
            *(hidden(".x", ".."), hidden("..", "x.", ".x")[None].expand(2, -1, -1)),
        ),
        reference=decoder,
    ),
]
