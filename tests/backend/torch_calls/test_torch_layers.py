"""Every layer and loss of torch.nn over a backend in NumPy: outputs and all gradients are torch's."""

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from burnlike import Autodiff, Tensor as Typed
from burnlike.errors import BackendError
from burnlike.tensor import lift
from tests.backend.counting import Changed, leaving_torch

BACKEND = Autodiff(Changed(leaving_torch, float=torch.float64))
LEFT_OUT = {"FractionalMaxPool2d", "FractionalMaxPool3d", "CrossMapLRN2d"}
"""Layers that docs/backends.md says have no function."""
NO_LAYERS = {
    *("Module", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Container"),
    *("DataParallel", "SyncBatchNorm", "RNNBase", "RNNCellBase", "NLLLoss2d"),
}
"""Containers, bases, an old name, and layers of several devices or processes."""


class Case(NamedTuple):
    layer: nn.Module
    shapes: tuple[Any, ...]
    options: dict[str, Any]


def case(layer: nn.Module, *inputs: Any, **options: Any) -> Case:
    """A layer of float64 with inputs: a shape for drawn floats, else the tensor itself."""
    return Case(layer.double(), inputs, options)


class Unpooled(nn.Module):
    def __init__(self, dims: int) -> None:
        super().__init__()
        self.pool = getattr(nn, f"MaxPool{dims}d")(2, return_indices=True)
        self.unpool = getattr(nn, f"MaxUnpool{dims}d")(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.unpool(*self.pool(x))


class OfChances(nn.Module):
    """A loss of chances, which are made of what it is given."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return self.loss(x.sigmoid(), target)


LABELS = torch.tensor([1, 0, 3])
SIGNS = torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)
TOKENS = torch.tensor([[1, 4, 0], [2, 2, 1]])
POSITIVE = torch.tensor([[0.2, 0.7, 0.1], [0.9, 0.4, 0.3]], dtype=torch.float64)
CHANCES = POSITIVE / POSITIVE.sum(1, keepdim=True)


def by_dims(dims: int) -> dict[str, Case]:
    """Layers that have one class for each number of dimensions."""
    odd, even, name = (5,) * dims, (4,) * dims, lambda kind: f"{kind}{dims}d"

    def made(kind: str, *args: Any, **options: Any) -> nn.Module:
        return getattr(nn, name(kind))(*args, **options)

    cases = {
        name("Conv"): case(made("Conv", 2, 3, 3, padding=1), (1, 2, *odd)),
        name("Conv") + "/circular": case(made("Conv", 2, 2, 3, padding=1, padding_mode="circular"), (1, 2, *odd)),
        name("ConvTranspose"): case(made("ConvTranspose", 2, 3, 2, stride=2), (1, 2, *even)),
        name("MaxPool"): case(made("MaxPool", 3, stride=2, padding=1, ceil_mode=True), (1, 2, *even)),
        name("MaxUnpool"): case(Unpooled(dims), (1, 2, *even)),
        name("AvgPool"): case(made("AvgPool", 2), (1, 2, *even)),
        name("AvgPool") + "/ceil": case(
            made("AvgPool", 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False), (1, 2, *even)
        ),
        name("AvgPool") + "/padded": case(made("AvgPool", 3, stride=2, padding=1, ceil_mode=True), (2, *even)),
        name("LPPool"): case(made("LPPool", 2, 2), (1, 2, *even)),
        name("AdaptiveAvgPool"): case(made("AdaptiveAvgPool", 2), (1, 2, *odd)),
        name("AdaptiveMaxPool"): case(made("AdaptiveMaxPool", 2), (1, 2, *odd)),
        name("BatchNorm"): case(made("BatchNorm", 3), (2, 3, *even)),
        name("InstanceNorm"): case(made("InstanceNorm", 3, affine=True, track_running_stats=True), (2, 3, *even)),
        name("Dropout"): case(made("Dropout", 0.0), (2, 3, *even)),
        name("ConstantPad"): case(made("ConstantPad", 1, 0.5), (1, 2, *even)),
    }
    for kind in ("CircularPad", "ReflectionPad", "ReplicationPad", "ZeroPad"):
        cases[name(kind)] = case(made(kind, 1), (1, 2, *even))
    for kind, args in {"Conv": (3, 2), "ConvTranspose": (3, 2), "BatchNorm": (), "InstanceNorm": ()}.items():
        layer = made(f"Lazy{kind}", *args)
        layer(torch.zeros(1, 2, *even))  # which draws its parameters
        cases[name(f"Lazy{kind}")] = case(layer, (1, 2, *even))
    return cases


def elementwise() -> dict[str, Case]:
    plain = (
        *("CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "Identity", "LeakyReLU"),
        *("LogSigmoid", "Mish", "PReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus", "Softshrink"),
        *("Softsign", "Tanh", "Tanhshrink"),
    )
    cases = {kind: case(getattr(nn, kind)(), (3, 4)) for kind in plain}
    cases |= {kind: case(getattr(nn, kind)(1), (3, 4)) for kind in ("LogSoftmax", "Softmax", "Softmin")}
    idle = ("Dropout", "AlphaDropout", "FeatureAlphaDropout", "RReLU")
    cases |= {kind: case(getattr(nn, kind)().eval(), (3, 4)) for kind in idle}
    return cases | {
        "GELU/tanh": case(nn.GELU("tanh"), (3, 4)),
        "Softmax2d": case(nn.Softmax2d(), (1, 3, 2, 2)),
        "Threshold": case(nn.Threshold(0.1, 0.2), (3, 4)),
    }


def attention() -> dict[str, Case]:
    small: dict[str, Any] = {"dropout": 0.0}
    causal = nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
    hidden = torch.tensor([[False, False, True], [False, True, True]])
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **small)
    return {
        "MultiheadAttention": case(nn.MultiheadAttention(8, 2), (3, 2, 8), (3, 2, 8), (3, 2, 8)),
        "MultiheadAttention/fast": case(
            nn.MultiheadAttention(8, 2, kdim=4, vdim=3, batch_first=True, add_bias_kv=True),
            *((2, 5, 8), (2, 3, 4), (2, 3, 3)),
            need_weights=False,
            key_padding_mask=hidden,
        ),
        "TransformerEncoderLayer": case(layer, (2, 3, 8)),
        "TransformerEncoderLayer/eval": case(copy.deepcopy(layer).eval(), (2, 3, 8)),
        "TransformerEncoderLayer/causal": case(
            nn.TransformerEncoderLayer(8, 2, 16, norm_first=True, **small), (4, 2, 8), src_mask=causal, is_causal=True
        ),
        "TransformerEncoder": case(nn.TransformerEncoder(copy.deepcopy(layer), 2), (2, 3, 8)),
        "TransformerDecoderLayer": case(nn.TransformerDecoderLayer(8, 2, 16, **small), (4, 2, 8), (3, 2, 8)),
        "TransformerDecoder": case(
            nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, **small), 2), (4, 2, 8), (3, 2, 8)
        ),
        "Transformer": case(
            nn.Transformer(8, 2, 1, 1, 16, batch_first=True, **small), (2, 3, 8), (2, 4, 8), tgt_mask=causal
        ),
    }


def others() -> dict[str, Case]:
    normed, sequence = parametrizations.weight_norm, (4, 2, 3)
    return {
        "Linear": case(nn.Linear(3, 2), (2, 3)),
        "LazyLinear": case(nn.Linear(3, 2), (2, 3)),
        "Bilinear": case(nn.Bilinear(3, 2, 4), (5, 3), (5, 2)),
        "Embedding": case(nn.Embedding(5, 3, padding_idx=1), TOKENS),
        "EmbeddingBag": case(nn.EmbeddingBag(5, 3), TOKENS),
        "EmbeddingBag/sum": case(
            nn.EmbeddingBag(5, 3, mode="sum"),
            TOKENS.flatten(),
            torch.tensor([0, 3, 3]),
            per_sample_weights=POSITIVE[0].repeat(2),
        ),
        "EmbeddingBag/max": case(nn.EmbeddingBag(5, 3, mode="max"), TOKENS.flatten(), torch.tensor([0, 4, 6])),
        "EmbeddingBag/padding": case(
            nn.EmbeddingBag(5, 3, padding_idx=1, include_last_offset=True),
            *(TOKENS.flatten(), torch.tensor([0, 1, 6])),
        ),
        "LayerNorm": case(nn.LayerNorm(4), (3, 4)),
        "RMSNorm": case(nn.RMSNorm(4), (3, 4)),
        "GroupNorm": case(nn.GroupNorm(2, 4), (2, 4, 3)),
        "LocalResponseNorm": case(nn.LocalResponseNorm(3), (2, 5, 3, 3)),
        "RNN": case(nn.RNN(3, 4, bidirectional=True, num_layers=2, nonlinearity="relu"), sequence),
        "LSTM": case(nn.LSTM(3, 4, proj_size=2), sequence),
        "GRU": case(nn.GRU(3, 4, bidirectional=True), sequence),
        "RNNCell": case(nn.RNNCell(3, 4), (2, 3)),
        "LSTMCell": case(nn.LSTMCell(3, 4), (2, 3)),
        "GRUCell": case(nn.GRUCell(3, 4), (2, 3)),
        "Flatten": case(nn.Flatten(), (2, 3, 2)),
        "Unflatten": case(nn.Unflatten(1, (2, 2)), (3, 4)),
        "Fold": case(nn.Fold((4, 4), 2), (1, 8, 9)),
        "Unfold": case(nn.Unfold(2), (1, 2, 4, 4)),
        "PixelShuffle": case(nn.PixelShuffle(2), (1, 8, 2, 2)),
        "PixelUnshuffle": case(nn.PixelUnshuffle(2), (1, 2, 4, 4)),
        "ChannelShuffle": case(nn.ChannelShuffle(2), (1, 4, 3, 3)),
        "Upsample": case(nn.Upsample(scale_factor=2), (1, 2, 3)),
        "Upsample/linear": case(nn.Upsample(scale_factor=2, mode="linear", align_corners=True), (1, 2, 3)),
        "Upsample/bicubic": case(nn.Upsample(scale_factor=2, mode="bicubic"), (1, 2, 4, 4)),
        "Upsample/trilinear": case(nn.Upsample(scale_factor=2, mode="trilinear"), (1, 2, 3, 3, 3)),
        "UpsamplingNearest2d": case(nn.UpsamplingNearest2d(scale_factor=2), (1, 2, 3, 3)),
        "UpsamplingBilinear2d": case(nn.UpsamplingBilinear2d(scale_factor=2), (1, 2, 3, 3)),
        "CosineSimilarity": case(nn.CosineSimilarity(), (3, 4), (3, 4)),
        "PairwiseDistance": case(nn.PairwiseDistance(), (3, 4), (3, 4)),
        "spectral_norm": case(parametrizations.spectral_norm(nn.Linear(3, 3)), (2, 3)),
        "weight_norm": case(normed(nn.Linear(3, 3)), (2, 3)),
        "weight_norm/dim": case(normed(nn.Conv2d(2, 3, 2), dim=1), (1, 2, 3, 3)),
        "weight_norm/all": case(normed(nn.Linear(3, 3), dim=None), (2, 3)),
        **{
            f"orthogonal/{kind}": case(parametrizations.orthogonal(nn.Linear(4, 3), orthogonal_map=kind), (2, 4))
            for kind in ("matrix_exp", "cayley", "householder")
        },
    }


def losses() -> dict[str, Case]:
    pairs = ("L1Loss", "MSELoss", "HuberLoss", "SmoothL1Loss")
    cases = {kind: case(getattr(nn, kind)(), (3, 4), (3, 4)) for kind in pairs}
    weights = torch.tensor([0.2, 0.5, 0.1, 0.9])
    if hasattr(nn, "LinearCrossEntropyLoss"):
        cases["LinearCrossEntropyLoss"] = case(nn.LinearCrossEntropyLoss(4, 3), (3, 4), LABELS.clamp(max=2))
    return cases | {
        "CrossEntropyLoss": case(nn.CrossEntropyLoss(label_smoothing=0.1, weight=weights), (3, 4), LABELS),
        "CrossEntropyLoss/chances": case(nn.CrossEntropyLoss(), (2, 3), CHANCES),
        "CTCLoss": case(
            nn.CTCLoss(), (6, 2, 5), torch.tensor([[1, 2, 2], [4, 3, 1]]), input_lengths=(6, 5), target_lengths=(3, 2)
        ),
        "NLLLoss": case(nn.NLLLoss(weight=weights, ignore_index=0), (3, 4), LABELS),
        "NLLLoss/2d": case(nn.NLLLoss(), (1, 4, 3, 3), LABELS.expand(1, 3, 3)),
        "PoissonNLLLoss": case(nn.PoissonNLLLoss(full=True), (2, 3), POSITIVE * 9),
        "GaussianNLLLoss": case(nn.GaussianNLLLoss(), (2, 3), (2, 3), POSITIVE),
        "KLDivLoss": case(nn.KLDivLoss(reduction="batchmean"), (2, 3), CHANCES),
        "KLDivLoss/log": case(nn.KLDivLoss(reduction="batchmean", log_target=True), (2, 3), CHANCES.log()),
        "BCELoss": case(OfChances(nn.BCELoss()), (2, 3), POSITIVE),
        "BCEWithLogitsLoss": case(nn.BCEWithLogitsLoss(pos_weight=weights[:3]), (2, 3), POSITIVE),
        "MarginRankingLoss": case(nn.MarginRankingLoss(), (3,), (3,), SIGNS),
        "HingeEmbeddingLoss": case(nn.HingeEmbeddingLoss(), (3,), SIGNS),
        "SoftMarginLoss": case(nn.SoftMarginLoss(), (3,), SIGNS),
        "MultiLabelMarginLoss": case(nn.MultiLabelMarginLoss(), (2, 4), torch.tensor([[3, 0, -1, 1], [-1, 0, 2, 1]])),
        "MultiLabelMarginLoss/sum": case(
            nn.MultiLabelMarginLoss(reduction="sum"), (2, 4), torch.tensor([[3, 0, 2, 1], [2, -1, 2, 1]])
        ),
        "MultiLabelSoftMarginLoss": case(nn.MultiLabelSoftMarginLoss(), (2, 3), POSITIVE.round()),
        "CosineEmbeddingLoss": case(nn.CosineEmbeddingLoss(), (2, 4), (2, 4), SIGNS[:2]),
        "MultiMarginLoss": case(nn.MultiMarginLoss(), (3, 4), LABELS),
        "MultiMarginLoss/sum": case(nn.MultiMarginLoss(p=2, reduction="sum"), (3, 4), LABELS),
        "TripletMarginLoss": case(nn.TripletMarginLoss(), (3, 4), (3, 4), (3, 4)),
        "TripletMarginWithDistanceLoss": case(nn.TripletMarginWithDistanceLoss(), (3, 4), (3, 4), (3, 4)),
        "AdaptiveLogSoftmaxWithLoss": case(
            nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6], div_value=1.5), (3, 4), torch.tensor([0, 9, 5])
        ),
    }


with torch.random.fork_rng(devices=()):
    torch.manual_seed(0)
    CASES = {**elementwise(), **attention(), **others(), **losses()}
    for number in (1, 2, 3):
        CASES |= by_dims(number)


def tensors_of(value: Any) -> Iterator[Any]:
    if isinstance(value, Tensor | Typed):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_of(item)


def drawn(chosen: Case) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randn(it, dtype=torch.float64, generator=generator) if isinstance(it, tuple) else it.clone()
        for it in chosen.shapes
    ]


def run(chosen: Case, backend: Any) -> tuple[list[Tensor], list[Tensor | None]]:
    """Outputs, and gradients of the drawn inputs and the parameters; typed and lifted with a backend, else torch's."""
    layer, inputs = copy.deepcopy(chosen.layer), drawn(chosen)
    leaves = [it.requires_grad_() for it, shape in zip(inputs, chosen.shapes, strict=True) if isinstance(shape, tuple)]
    if backend is None:
        outputs = [it for it in tensors_of(layer(*inputs, **chosen.options)) if it.is_floating_point()]
        loss = sum((it * it).sum() for it in outputs if it.requires_grad)
    else:
        typed = tensors_of(lift(layer)(*[Typed(it, backend) for it in inputs], **chosen.options))
        found = [it for it in typed if it.inner.is_floating_point()]
        parts = [(it * it).sum() for it in found if it.inner.requires_grad]
        loss, outputs = sum(parts[1:], start=parts[0]), [it.inner for it in found]
    loss.backward()
    return [it.detach() for it in outputs], [it.grad for it in (*leaves, *layer.parameters())]


@pytest.mark.parametrize("name", CASES)
def test_a_layer_over_a_backend_in_numpy_gives_torchs_numbers(name: str) -> None:
    found, gradients = run(CASES[name], BACKEND)
    expected, expected_gradients = run(CASES[name], None)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.reshape(other.shape), other, rtol=1e-9, atol=1e-9)
    for one, other in zip(gradients, expected_gradients, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


def test_every_layer_of_torch_is_in_the_table() -> None:
    layers = {name for name in dir(nn) if isinstance(it := getattr(nn, name), type) and issubclass(it, nn.Module)}
    assert layers - {name.partition("/")[0] for name in CASES} - NO_LAYERS == LEFT_OUT


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.FractionalMaxPool2d(2, output_size=2), (1, 2, 5, 5)),
        (nn.FractionalMaxPool3d(2, output_size=2), (1, 2, 5, 5, 5)),
        (nn.CrossMapLRN2d(2), (1, 4, 3, 3)),
    ],
    ids=lambda it: type(it).__name__,
)
def test_a_layer_that_is_left_out_is_refused_by_name(layer: nn.Module, shape: tuple[int, ...]) -> None:
    with pytest.raises(BackendError, match=r"torch's aten\.\w+\.default is not made of functions"):
        lift(layer.double())(Typed(torch.randn(shape, dtype=torch.float64), BACKEND))
