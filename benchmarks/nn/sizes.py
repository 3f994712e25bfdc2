"""A usual size of each layer that has a counterpart in torch.nn; that of its case in the tests, where none is here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from burnlike import nn
from burnlike.config import ModuleConfig
from tests.nn.cases import CASES, Case
from tests.nn.cases.activation import values


def alike(*inputs: Any) -> tuple[Any, ...]:
    """The inputs as they are."""
    return inputs


@dataclass(frozen=True)
class Size:
    """A layer and its inputs.

    Attributes:
        config: of the layer.
        inputs: makes them, floats in float32.
        torch_inputs: the inputs as torch's takes them.
        named: arguments by name, of both.
    """

    config: ModuleConfig
    inputs: Callable[[], tuple[Any, ...]]
    torch_inputs: Callable[..., tuple[Any, ...]] = alike
    named: Mapping[str, Any] = field(default_factory=dict)


def floats(*shape: int) -> Callable[[], tuple[torch.Tensor]]:
    """One input of normal numbers."""
    return lambda: (torch.randn(shape),)


def pairs(*shape: int) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    """Two inputs of normal numbers."""
    return lambda: (torch.randn(shape), torch.randn(shape))


TOKENS = floats(8, 512, 512)
"""8 sequences of 512 positions of width 512."""
SIGNAL, IMAGE, VOLUME = floats(16, 64, 2048), floats(16, 64, 32, 32), floats(4, 16, 32, 32, 32)

SEQUENCE = {"d_input": 256, "d_hidden": 256, "bias": True}
STEPS = floats(32, 64, 256)
STACK: dict[str, Any] = {"d_model": 256, "d_ff": 1024, "n_heads": 8, "n_layers": 2, "dropout": 0.0}
MHA = nn.MultiHeadAttentionConfig(d_model=256, n_heads=8, dropout=0.0)


def three_times(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Query, key and value."""
    return x, x, x


def classes() -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of 1000 classes and the right one."""
    return torch.randn(1024, 1000), torch.randint(1000, (1024,))


def signs(*shape: int) -> torch.Tensor:
    """1 and -1."""
    return torch.randint(2, shape) * 2 - 1


def transcripts() -> tuple[torch.Tensor, ...]:
    """Log probabilities of 32 symbols in 200 steps, 16 targets of 30 symbols, and the lengths."""
    lengths = torch.full((16,), 200), torch.full((16,), 30)
    return torch.randn(200, 16, 32).log_softmax(2), torch.randint(1, 32, (16, 30)), *lengths


LAYERS: dict[str, Size] = {
    "Linear": Size(nn.LinearConfig(d_input=512, d_output=512), TOKENS),
    "Dropout": Size(nn.DropoutConfig(prob=0.1), TOKENS),
    "Embedding": Size(nn.EmbeddingConfig(n_embedding=5000, d_model=512), lambda: (torch.randint(5000, (8, 512)),)),
    "Conv1d": Size(nn.Conv1dConfig(channels_in=64, channels_out=64, kernel_size=3), SIGNAL),
    "Conv2d": Size(nn.Conv2dConfig(channels=(64, 64), kernel_size=3, padding=1), IMAGE),
    "Conv2d/same": Size(nn.Conv2dConfig(channels=(64, 64), kernel_size=3, padding="Same"), IMAGE),
    "Conv3d": Size(nn.Conv3dConfig(channels=(16, 16), kernel_size=3), VOLUME),
    "ConvTranspose1d": Size(nn.ConvTranspose1dConfig(channels=(64, 64), kernel_size=3), SIGNAL),
    "ConvTranspose2d": Size(nn.ConvTranspose2dConfig(channels=(64, 64), kernel_size=3), IMAGE),
    "ConvTranspose3d": Size(nn.ConvTranspose3dConfig(channels=(16, 16), kernel_size=3), VOLUME),
    "Unfold4d": Size(nn.Unfold4dConfig(kernel_size=3), IMAGE),
    "Fold4d": Size(nn.Fold4dConfig(output_size=32, kernel_size=2), floats(16, 64, 31 * 31)),
    "PixelShuffle": Size(nn.PixelShuffleConfig(upscale_factor=2), IMAGE),
    "PixelUnshuffle": Size(nn.PixelUnshuffleConfig(downscale_factor=2), IMAGE),
    "MaxPool1d": Size(nn.MaxPool1dConfig(kernel_size=2), SIGNAL),
    "MaxPool2d": Size(nn.MaxPool2dConfig(kernel_size=2), IMAGE),
    "MaxPool3d": Size(nn.MaxPool3dConfig(kernel_size=2), VOLUME),
    "AvgPool1d": Size(nn.AvgPool1dConfig(kernel_size=2), SIGNAL),
    "AvgPool2d": Size(nn.AvgPool2dConfig(kernel_size=2), IMAGE),
    "AdaptiveAvgPool1d": Size(nn.AdaptiveAvgPool1dConfig(output_size=7), SIGNAL),
    "AdaptiveAvgPool2d": Size(nn.AdaptiveAvgPool2dConfig(output_size=7), IMAGE),
    "AdaptiveAvgPool3d": Size(nn.AdaptiveAvgPool3dConfig(output_size=4), VOLUME),
    "BatchNorm": Size(nn.BatchNormConfig(num_features=64), IMAGE),
    "LayerNorm": Size(nn.LayerNormConfig(d_model=512), TOKENS),
    "GroupNorm": Size(nn.GroupNormConfig(num_groups=8, num_channels=64), IMAGE),
    "InstanceNorm": Size(nn.InstanceNormConfig(num_channels=64), IMAGE),
    "RmsNorm": Size(nn.RmsNormConfig(d_model=512), TOKENS),
    "LocalResponseNorm": Size(nn.LocalResponseNormConfig(size=5), IMAGE),
    "Rnn": Size(nn.RnnConfig(**SEQUENCE), STEPS),
    "BiRnn": Size(nn.BiRnnConfig(**SEQUENCE), STEPS),
    "Lstm": Size(nn.LstmConfig(**SEQUENCE), STEPS),
    "BiLstm": Size(nn.BiLstmConfig(**SEQUENCE), STEPS),
    "Gru": Size(nn.GruConfig(**SEQUENCE), STEPS),
    "BiGru": Size(nn.BiGruConfig(**SEQUENCE), STEPS),
    "MultiHeadAttention": Size(MHA, floats(8, 128, 256), torch_inputs=three_times),
    "MultiHeadAttention/fused": Size(MHA, floats(8, 128, 256), torch_inputs=three_times, named={"need_weights": False}),
    "TransformerEncoder": Size(nn.TransformerEncoderConfig(**STACK), floats(8, 128, 256)),
    "TransformerDecoder": Size(nn.TransformerDecoderConfig(**STACK, norm_first=True), pairs(8, 128, 256)),
    "CosineSimilarity": Size(nn.CosineSimilarityConfig(), pairs(8192, 512)),
    "PairwiseDistance": Size(nn.PairwiseDistanceConfig(), pairs(8192, 512)),
}
LOSSES: dict[str, Size] = {
    "CrossEntropyLoss": Size(nn.CrossEntropyLossConfig(), classes),
    "CrossEntropyLoss/weights": Size(nn.CrossEntropyLossConfig(weights=(0.5,) * 1000, smoothing=0.1), classes),
    "BinaryCrossEntropyLoss": Size(
        nn.BinaryCrossEntropyLossConfig(logits=True),
        lambda: (torch.randn(4096, 512), torch.randint(2, (4096, 512)).float()),
    ),
    "MseLoss": Size(nn.MseLossConfig(), pairs(4096, 512)),
    "LpLoss": Size(nn.LpLossConfig(p=1.0), pairs(4096, 512)),
    "HuberLoss": Size(nn.HuberLossConfig(delta=1.0), pairs(4096, 512)),
    "SmoothL1Loss": Size(nn.SmoothL1LossConfig(), pairs(4096, 512)),
    "KLDivLoss": Size(
        nn.KLDivLossConfig(), lambda: (torch.randn(4096, 512).log_softmax(1), torch.randn(4096, 512).softmax(1))
    ),
    "PoissonNllLoss": Size(nn.PoissonNllLossConfig(), lambda: (torch.randn(4096, 512), torch.rand(4096, 512))),
    "GaussianNLLLoss": Size(
        nn.GaussianNLLLossConfig(), lambda: (torch.randn(4096, 512), torch.randn(4096, 512), torch.rand(4096, 512) + 1)
    ),
    "CosineEmbeddingLoss": Size(nn.CosineEmbeddingLossConfig(), lambda: (*pairs(4096, 512)(), signs(4096))),
    "HingeEmbeddingLoss": Size(nn.HingeEmbeddingLossConfig(), lambda: (torch.randn(4096, 512), signs(4096, 512))),
    "MarginRankingLoss": Size(nn.MarginRankingLossConfig(), lambda: (*pairs(4096, 512)(), signs(4096, 512))),
    "MultiMarginLoss": Size(nn.MultiMarginLossConfig(), classes),
    "SoftMarginLoss": Size(nn.SoftMarginLossConfig(), lambda: (torch.randn(4096, 512), signs(4096, 512))),
    "TripletMarginLoss": Size(nn.TripletMarginLossConfig(), lambda: (*pairs(4096, 512)(), torch.randn(4096, 512))),
    "CTCLoss": Size(nn.CTCLossConfig(), transcripts),
}


def of_cases() -> dict[str, Size]:
    """The first case beside torch of each layer; activations of `TOKENS`, others of the case's inputs in float32."""
    cases = [
        case for case in CASES if case.reference is None and type(case.config).__name__[:-6] not in LAYERS | LOSSES
    ]
    return {type(case.config).__name__[:-6]: _of_case(case) for case in reversed(cases)}


def _of_case(case: Case) -> Size:
    inputs, named = case.drawn()
    floats = tuple(it.float() if torch.is_tensor(it) and it.is_floating_point() else it for it in inputs)
    return Size(case.config, TOKENS if case.inputs is values else lambda: floats, case.torch_inputs, named)


SIZES = {**of_cases(), **LAYERS, **LOSSES}
"""By the name of the layer, and of an option where there are several."""
