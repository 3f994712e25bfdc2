"""Rows of "Layers and losses" in docs/deviations: what Burn does, by running it, and what burnlike does instead."""

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike import nn, record
from burnlike.errors import ArgumentError, ConfigError, ShapeError, TableIndexError, TargetError
from tests.burn_configs import module_config

from .layer_case import KAIMING, XAVIER
from .rows import ELSEWHERE, row
from .running import ask, packed, unpacked

ELSEWHERE |= {
    "Padding in recurrent layers": "tests/nn/recurrent/test_masked.py::test_padding_is_not_read",
    "MultiHeadAttention and transformers: inputs": "tests/nn/attention/test_attention.py::test_gradients_and_shapes",
    "Rows of `ops.masked_softmax` that are wholly hidden": (
        "tests/ops/test_masked_softmax.py::test_a_row_that_is_wholly_hidden_has_equal_weights_and_no_gradient"
    ),
    "Caches of attention and of transformers": (
        "tests/nn/attention/test_attention.py::test_a_cache_computes_the_new_positions_only"
    ),
    "`RotaryEncoding`": "tests/nn/attention/test_rotary_scaling.py::test_halves_are_rotated_as_in_transformers",
    "`BinaryCrossEntropyLoss`: targets": "tests/nn/loss/test_classes.py::test_targets_of_binary_cross_entropy",
    "Recurrent layers in 16 bits that the CPU can't multiply": (
        "tests/nn/recurrent/test_kernels.py::test_16_bits_train_on_every_cpu"
    ),
    "CTC and RNNT in half precision": "tests/nn/test_layers.py::test_other_element_types",
    "`RNNTLoss`: a second derivative": (
        "tests/nn/loss/test_alignments.py::test_the_transducers_gradients_in_torchs_worlds"
    ),
    "The child `forward` of `BiRnn`, `BiLstm` and `BiGru`": (
        "tests/nn/recurrent/test_bidirectional.py::test_the_method_and_the_child_are_both_there"
    ),
    "`Lstm::forward_iter`, `GateController::create_with_weights`": (
        "tests/nn/recurrent/test_recurrent.py::test_a_sequence_in_two_parts_is_the_whole"
    ),
    "`Lstm` with `input_forget`, records of 0.21": (
        "tests/nn/recurrent/test_recurrent.py::test_coupled_gates_have_no_forget_gate"
    ),
}


def answer_of(layer: str, config: Any, inputs: Mapping[str, Tensor], **options: Any) -> dict[str, Any]:
    """Burn's answer, in evaluation unless there are weights of a training pass."""
    case = {"training": False} if "weights" not in options else {}
    program = "losses" if "Loss" in layer else "layers"
    values = {name: packed(it) for name, it in inputs.items()}
    return ask(program, [{"layer": layer, "config": config, "inputs": values, **case, **options}])[0]


def burns(layer: str, config: Any, inputs: Mapping[str, Tensor], **options: Any) -> list[Tensor]:
    """The outputs of Burn in evaluation."""
    answer = answer_of(layer, config, inputs, **options)
    assert "refused" not in answer, answer
    return [unpacked(it) for it in answer["evaluation"]]


def gradients(layer: str, config: Any, inputs: Mapping[str, Tensor], *shape: int, **options: Any) -> dict[str, Tensor]:
    """The gradients of the inputs in Burn, of the sum of an output of this shape."""
    answer = answer_of(layer, config, inputs, weights=[packed(torch.ones(shape))], **options)
    assert "refused" not in answer, answer
    return {name: unpacked(it) for name, it in answer["inputs"].items()}


def refuses(layer: str, config: Any, inputs: Mapping[str, Tensor], **options: Any) -> None:
    """Burn panics or gives an error."""
    assert "refused" in answer_of(layer, config, inputs, **options)


def tracked(*values: float) -> Tensor:
    """A row of numbers whose gradient is asked for."""
    return torch.tensor([values], requires_grad=True)


def gradient(output: Tensor, x: Tensor) -> list[Any]:
    """Of the sum of an output."""
    return torch.autograd.grad(output.sum(), x)[0].tolist()


ONES = torch.ones(2, 3)
WORDS = {"reduction": "none"}


@row("Gradients of activations exactly at a bend")
def bends() -> None:
    x, config = tracked(-1.0, 0.5, 1.0), {"min_val": -1.0, "max_val": 1.0}
    assert gradients("Hardtanh", config, {"x": x}, 1, 3)["x"].tolist() == [[1.0, 1.0, 1.0]]
    assert gradient(nn.HardtanhConfig(**config).init()(x), x) == [[0.0, 1.0, 0.0]]
    assert gradients("Relu6", {}, {"x": tracked(0.5, 6.0)}, 1, 2)["x"].tolist() == [[1.0, 1.0]]


@row("`Gelu` of infinity")
def gelu_of_infinity() -> None:
    x = torch.tensor([[1.0, torch.inf] * 8])
    assert burns("Gelu", {}, {"x": x})[0][0, 1] == torch.inf
    assert nn.GeluConfig().init()(x.double())[0, 1] == torch.inf
    assert not nn.GeluConfig().init()(x)[0, 1].isfinite()


@row("Configs of activations")
def configs_of_activations() -> None:
    refuses("Activation", "Mish", {"x": ONES})
    assert nn.PositionWiseFeedForwardConfig(d_model=2, d_ff=3, activation=nn.MishConfig()).init()


@row("`ActivationConfig::GeluApproximate`")
def approximate_gelu() -> None:
    found = nn.GeluConfig(approximate=True).init()(ONES)
    torch.testing.assert_close(burns("Activation", "GeluApproximate", {"x": ONES})[0], found)


@row("`lambda` of shrinks")
def lambda_of_shrinks() -> None:
    assert burns("HardShrink", {"lambda": -1.0}, {"x": ONES})
    with pytest.raises(ConfigError, match="lambd"):
        nn.HardShrinkConfig(lambd=-1.0)


@row("Softplus with beta 0")
def softplus_of_nothing() -> None:
    assert not burns("Softplus", {"beta": 0.0, "threshold": 20.0}, {"x": ONES})[0].isfinite().any()
    with pytest.raises(ConfigError, match="beta"):
        nn.SoftplusConfig(beta=0.0)


@row("`RRelu` whose bounds are one number")
def randomized_relu_of_one_slope() -> None:
    refuses("RRelu", {"lower": 0.5, "upper": 0.5}, {"x": -ONES}, weights=[packed(ONES)])
    assert torch.equal(nn.RReluConfig(lower=0.5, upper=0.5).init().train()(-ONES), -0.5 * ONES)


@row("`CosineSimilarity`, `PairwiseDistance`")
def similarities() -> None:
    assert burns("PairwiseDistance", {"p": -1.0, "eps": 1e-6}, {"x": ONES, "y": 2 * ONES})
    with pytest.raises(ConfigError, match="p: expected"):
        nn.PairwiseDistanceConfig(p=-1.0)
    assert nn.CosineSimilarityConfig().init()(torch.ones(4, 2, 3), torch.ones(4, 2, 3)).shape == (4, 3)


@row("BatchNorm")
def batch_norm() -> None:
    config, x = {"num_features": 3, "epsilon": 1e-5, "momentum": 0.1}, torch.arange(6.0).view(2, 3)
    answer = answer_of("BatchNorm", config, {"x": x}, weights=[packed(x)])
    on_autodiff, on_others = (unpacked(answer[name][0]) for name in ("training", "evaluation"))
    torch.testing.assert_close(on_autodiff, torch.tensor([[-1.0] * 3, [1.0] * 3]), rtol=0, atol=1e-4)
    torch.testing.assert_close(on_others, x, rtol=1e-4, atol=1e-4)
    module = nn.BatchNormConfig(num_features=3).init().eval()
    torch.testing.assert_close(module(x.requires_grad_()), on_others)


@row("BatchNorm of an empty batch")
def batch_norm_of_nothing() -> None:
    config, x = {"num_features": 3, "epsilon": 1e-5, "momentum": 0.1}, torch.empty(0, 3)
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "saved.bpk"
        answer = answer_of("BatchNorm", config, {"x": x}, weights=[packed(x)], saved=str(saved))
        if "refused" not in answer:
            module = nn.BatchNormConfig(num_features=3).init()
            record.load(module, saved)
            assert module.running_mean.isnan().all()
    module = nn.BatchNormConfig(num_features=3).init().train()
    module(x)
    assert module.running_mean.eq(0).all()


@row("`NormalizationConfig`")
def normalization() -> None:
    refuses("Normalization", {"LocalResponse": {"size": 3}}, {"x": torch.ones(2, 3, 3)})
    norm = nn.GroupNormConfig(num_groups=1, num_channels=2)
    assert isinstance(norm, nn.NormalizationConfig)
    assert nn.ConvNorm2dConfig(channels=(1, 2), kernel_size=1, norm=norm).init()


@row("Epsilon of norms, sizes, windows")
def epsilons() -> None:
    assert burns("LayerNorm", {"d_model": 3, "epsilon": -1.0, "bias": True}, {"x": ONES})[0].isnan().all()
    with pytest.raises(ConfigError, match="epsilon"):
        nn.LayerNormConfig(d_model=3, epsilon=-1.0)


ATTENTION = {
    "d_model": 1,
    "n_heads": 1,
    "dropout": 0.0,
    "min_float": -1e4,
    "quiet_softmax": False,
    "initializer": "Ones",
    **{f"{it}_bias": False for it in ("key", "value", "query", "output")},
}


@row("Weights of attention")
def weights_of_attention() -> None:
    x = torch.ones(1, 2, 1)
    context, weights = burns("MultiHeadAttention", ATTENTION, {"x": x})
    module = module_config("MultiHeadAttention", ATTENTION).init()
    without: Any = module(x, need_weights=False)
    assert without.weights is None
    torch.testing.assert_close(without.context, context)
    torch.testing.assert_close(module(x).weights, weights)


@row("Scores below -9,000 in attention")
def low_scores() -> None:
    x, value = torch.tensor([[[200.0], [200.0]]]), torch.tensor([[[1.0], [5.0]]])
    key, mask = torch.tensor([[[-100.0], [-100.0]]]), torch.tensor([[False, True]])
    inputs = {"x": x, "key": key, "value": value, "mask_pad": mask}
    assert burns("MultiHeadAttention", ATTENTION, inputs)[0].flatten().tolist() == [5.0, 5.0]
    module = module_config("MultiHeadAttention", ATTENTION).init()
    assert module(x, key, value, mask_pad=mask).context.flatten().tolist() == [1.0, 1.0]
    above = module_config("MultiHeadAttention", {**ATTENTION, "min_float": -999.0}).init()
    assert above(x, key, value, mask_pad=mask).context.flatten().tolist() == [5.0, 5.0]


@row("Tables of `PositionalEncoding` and `RotaryEncoding`")
def tables() -> None:
    (answer,) = ask("layers", [{"layer": "sinusoids", "length": 5001, "d_model": 64, "max_timescale": 10_000}])
    rates = 10_000.0 ** -(torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    exact = (torch.arange(5001, dtype=torch.float64)[:, None] * rates).sin()
    assert (unpacked(answer)[:, ::2] - exact).abs().max() > 1e-4
    torch.testing.assert_close(nn.generate_sinusoids(5001, 64, 10_000)[:, ::2], exact.float(), rtol=0, atol=1e-7)


@row("`PositionWiseFeedForward` with an activation that has weights")
def activation_with_weights() -> None:
    prelu = {"PRelu": {"num_parameters": 1, "alpha": 0.25}}
    config = {"d_model": 2, "d_ff": 3, "dropout": 0.0, "initializer": KAIMING, "activation": prelu}
    module = module_config("PositionWiseFeedForward", config).init()
    with tempfile.TemporaryDirectory() as folder:
        ours, saved = Path(folder) / "ours.bpk", Path(folder) / "saved.bpk"
        record.save(module, ours)
        x = torch.ones(1, 2)
        answer = answer_of("PositionWiseFeedForward", config, {"x": x}, after=str(ours))
        assert "Unused tensors" in answer["refused"]
        answer_of("PositionWiseFeedForward", config, {"x": x}, weights=[packed(x)], saved=str(saved))
        assert b"activation" in ours.read_bytes()
        assert b"activation" not in saved.read_bytes()
    assert "activation.alpha" in module.state_dict()


@row("`generate_padding_mask`")
def padding_masks() -> None:
    for case, length, fixed in (({}, None, False), ({"max": 2}, 2, False), ({"fixed": 4}, 4, True)):
        answer: Any = ask("layers", [{"layer": "masks", "tokens": [[1, 2, 3], [4]], "pad": 0, **case}])[0]
        assert torch.equal(
            unpacked(answer[0]), nn.generate_padding_mask(0, [[1, 2, 3], [4]], length, fixed=fixed).tensor
        )


def conv1d(**options: Any) -> dict[str, Any]:
    """A convolution whose weights are 1."""
    config = {"channels_in": 1, "channels_out": 1, "kernel_size": 2, "stride": 1, "dilation": 1, "groups": 1}
    return {**config, "padding": "Valid", "bias": False, "initializer": "Ones", **options}


LINE = torch.arange(3.0).view(1, 1, 3)


@row("Padding in configs")
def paddings() -> None:
    (found,) = burns("Conv1d", conv1d(padding={"Explicit": [1, 0]}), {"x": LINE})
    module = nn.Conv1dConfig(
        channels_in=1, channels_out=1, kernel_size=2, padding=(1, 0), bias=False, initializer=nn.Ones()
    )
    assert torch.equal(found, module.init()(LINE))
    refuses("Conv1d", conv1d(padding=[1, 0]), {"x": LINE})


@row("Initializers of transposed convolutions, bias of Conv1d")
def initializers_without_fans() -> None:
    channels = conv1d(channels=[1, 1], padding=0, padding_out=0, initializer=XAVIER)
    del channels["channels_in"], channels["channels_out"]
    refuses("ConvTranspose1d", channels, {"x": LINE})
    module = nn.ConvTranspose1dConfig(channels=(1, 1), kernel_size=2, initializer=nn.XavierNormal()).init()
    assert module(LINE).isfinite().all()


@row("A window or kernel larger than the padded input, nothing left by a transposed convolution")
def large_windows() -> None:
    refuses("Conv1d", conv1d(kernel_size=5), {"x": LINE})
    with pytest.raises(ShapeError, match="Conv1d: expected sizes of 5 or more"):
        nn.Conv1dConfig(channels_in=1, channels_out=1, kernel_size=5).init()(LINE)


@row("`DeformConv2d` with padding whose two ends differ")
def deformed_with_two_paddings() -> None:
    config = {
        "channels": [1, 1],
        "kernel_size": [1, 1],
        "stride": [1, 1],
        "dilation": [1, 1],
        "weight_groups": 1,
        "offset_groups": 1,
        "padding": {"Explicit": [1, 0, 0, 0]},
        "bias": False,
        "initializer": "Ones",
    }
    refuses("DeformConv2d", config, {"x": torch.ones(1, 1, 2, 2), "offset": torch.zeros(1, 2, 3, 2)})
    with pytest.raises(ConfigError, match="padding"):
        nn.DeformConv2dConfig(channels=(1, 1), kernel_size=(1, 1), padding=(1, 0, 0, 0))


def line_of(size: int | None, factor: float | None) -> dict[str, Any]:
    """The config of an interpolation."""
    return {"output_size": size, "scale_factor": factor, "mode": "Nearest", "align_corners": True}


@row("Interpolate")
def interpolations() -> None:
    x = torch.arange(10.0).view(1, 1, 10)
    assert burns("Interpolate1d", line_of(None, 0.7), {"x": x})[0].shape[2] == 6
    assert nn.Interpolate1dConfig(scale_factor=0.7).init()(x).shape[2] == 7
    for size, factor in ((None, None), (3, 0.5)):
        refuses("Interpolate1d", line_of(size, factor), {"x": x})
        with pytest.raises(ConfigError, match="exactly one of"):
            nn.Interpolate1dConfig(output_size=size, scale_factor=factor)
    with pytest.raises(ShapeError, match="0"):
        nn.Interpolate1dConfig(scale_factor=0.05).init()(x)


@row("`reduction` of losses")
def reductions() -> None:
    refuses("MseLoss", {}, {"x": ONES, "y": ONES}, reduction="BatchMean")
    assert nn.MseLossConfig().init()(ONES, 3 * ONES).item() == 4
    with pytest.raises(ArgumentError, match="batch_mean"):
        nn.MseLossConfig().init()(ONES, ONES, "batch_mean")


@row("Shapes in losses of values")
def shapes_of_values() -> None:
    assert burns("MseLoss", {}, {"x": ONES, "y": torch.ones(2, 1)}, **WORDS)[0].shape == (2, 3)
    with pytest.raises(ShapeError, match="targets"):
        nn.MseLossConfig().init()(ONES, torch.ones(2, 1))


@row("Indices of `Embedding`")
def indices() -> None:
    config = {"n_embedding": 3, "d_model": 2, "initializer": "Ones"}
    refuses("Embedding", config, {"x": torch.tensor([[3]])})
    with pytest.raises(TableIndexError):
        nn.EmbeddingConfig(n_embedding=3, d_model=2).init()(torch.tensor([[3]]))


CLASSES = {"pad_tokens": None, "weights": None, "smoothing": None, "logits": True}


@row("Targets of losses")
def targets() -> None:
    refuses("CrossEntropyLoss", CLASSES, {"x": ONES, "y": torch.tensor([0, 3])})
    with pytest.raises(TargetError, match=r"0\.\.2, got 3"):
        nn.CrossEntropyLossConfig().init()(ONES, torch.tensor([0, 3]))


@row("`PoissonNllLoss`: negative targets or rates")
def negative_counts() -> None:
    refuses("PoissonNllLoss", {"log_input": True, "full": False, "eps": 1e-8}, {"x": ONES, "y": -ONES}, **WORDS)
    with pytest.raises(TargetError, match="counts >= 0"):
        nn.PoissonNllLossConfig().init()(ONES, -ONES)


@row("`CrossEntropyLoss`: `pad_tokens`")
def negative_pads() -> None:
    refuses("CrossEntropyLoss", {**CLASSES, "pad_tokens": [-100]}, {"x": ONES, "y": torch.tensor([0, 1])})
    loss = nn.CrossEntropyLossConfig(pad_tokens=(-100,)).init()
    assert loss(ONES, torch.tensor([-100, 1])).item() == pytest.approx(math.log(3))


@row("`KLDivLoss`: targets that are 0, or above 1")
def unnormalized_targets() -> None:
    x, y = torch.zeros(1, 2), torch.tensor([[0.0, 2.0]])
    assert burns("KLDivLoss", {"log_target": False}, {"x": x, "y": y}, **WORDS)[0].tolist() == [[0.0, 0.0]]
    found = nn.KLDivLossConfig().init().forward_no_reduction(x, y)
    torch.testing.assert_close(found, torch.tensor([[0.0, 2 * math.log(2)]]))


@row("`HuberLoss` with delta 0")
def huber_of_nothing() -> None:
    assert burns("HuberLoss", {"delta": 0.0}, {"x": ONES, "y": 3 * ONES}, **WORDS)[0].eq(0).all()
    with pytest.raises(ConfigError, match="delta"):
        nn.HuberLossConfig(delta=0.0)


@row("Gradients of losses that are NaN in Burn")
def gradients_that_are_nan() -> None:
    zero, infinite = tracked(0.0, 2.0), tracked(torch.inf, 0.0)
    pairs: list[tuple[str, dict[str, Any], Tensor, Tensor]] = [
        ("LpLoss", {"p": 0.5}, zero, torch.zeros(1, 2)),
        ("HuberLoss", {"delta": 1.0}, infinite, torch.zeros(1, 2)),
        ("SmoothL1Loss", {"beta": 1.0}, infinite, torch.zeros(1, 2)),
    ]
    for name, config, x, y in pairs:
        assert gradients(name, config, {"x": x, "y": y}, 1, 2, **WORDS)["x"].isnan().any(), name
        loss: Any = module_config(name, config).init()
        values = loss(x, y) if name == "SmoothL1Loss" else loss.forward_no_reduction(x, y)
        assert torch.autograd.grad(values.sum(), x)[0].isfinite().all(), name
    x, y = tracked(0.0, 1.0), torch.tensor([[0, 1]])
    yes_or_no = {"weights": None, "smoothing": None, "logits": False}
    assert not gradients("BinaryCrossEntropyLoss", yes_or_no, {"x": x, "y": y}, 1)["x"].isfinite().all()
    loss = nn.BinaryCrossEntropyLossConfig().init()
    assert torch.autograd.grad(loss(x, y), x)[0].isfinite().all()
    rows = {name: torch.ones(1, 3) for name in ("x", "y", "far")}
    assert gradients("TripletMarginLoss", {"margin": 1.0, "p": 3.0}, rows, 1, **WORDS)["x"].isnan().any()
    x = torch.ones(1, 3, requires_grad=True)
    triplet = nn.TripletMarginLossConfig(p=3.0).init()
    near, far = rows["y"], rows["far"]
    assert torch.autograd.grad(triplet(x, near, far), x)[0].isfinite().all()


@row("`CTCLoss`, mean: empty targets")
def empty_targets() -> None:
    config, inputs = ctc([1], 0)
    assert burns("CTCLoss", config, inputs, reduction="Mean")[0].item() == torch.inf
    loss = nn.CTCLossConfig().init()
    targets, times, lengths = ends(inputs)
    assert loss.forward_with_reduction(inputs["x"].log_softmax(2), targets, times, lengths).isfinite()


def ctc(labels: list[int], length: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Two steps of three classes."""
    logits = torch.tensor([[[0.1, -0.4, 0.3]], [[-0.2, 0.6, 0.5]]])
    inputs = {"x": logits, "y": torch.tensor([labels]), "times": torch.tensor([2])}
    return {"blank": 0, "zero_infinity": False}, {**inputs, "lengths": torch.tensor([length])}


def ends(inputs: Mapping[str, Tensor]) -> Sequence[Tensor]:
    """Targets and both lengths."""
    return [inputs[name] for name in ("y", "times", "lengths")]


@row("`CTCLoss`: gradients with respect to `log_probs`")
def gradients_of_log_probs() -> None:
    config, inputs = ctc([1], 1)
    x = inputs["x"].log_softmax(2).requires_grad_()
    by_formula = gradients("CTCLoss", config, {**inputs, "x": x}, 1, reduction="none", raw=True)["x"]
    loss = nn.CTCLossConfig().init()
    (ours,) = torch.autograd.grad(loss(x, *ends(inputs)), x)
    torch.testing.assert_close(by_formula.sum(2), torch.full((2, 1), -1.0))
    torch.testing.assert_close(ours, by_formula + x.detach().exp())
    logits = inputs["x"].clone().requires_grad_()
    torch.testing.assert_close(
        torch.autograd.grad(loss(logits.log_softmax(2), *ends(inputs)), logits)[0],
        gradients("CTCLoss", config, inputs, 1, reduction="none")["x"],
    )


@row("`CTCLoss`: a target that no alignment has")
def target_without_alignment() -> None:
    config, inputs = ctc([1, 1], 2)
    answer = answer_of("CTCLoss", config, inputs, weights=[packed(torch.ones(1))], reduction="none")
    assert unpacked(answer["training"][0]).tolist() == [torch.inf]
    theirs = unpacked(answer["inputs"]["x"])
    assert theirs[0].eq(0).all()
    assert theirs[1].ne(0).any()
    x = inputs["x"].clone().requires_grad_()
    value = nn.CTCLossConfig().init()(x.log_softmax(2), *ends(inputs))
    assert value.tolist() == [torch.inf]
    assert torch.autograd.grad(value.sum(), x)[0].eq(0).all()


@row("`weights` that are not of the inputs' dtype")
def weights_of_another_dtype() -> None:
    inputs = {"x": ONES.double(), "y": torch.tensor([0, 1])}
    refuses("CrossEntropyLoss", {**CLASSES, "weights": [1.0, 2.0, 3.0]}, inputs)
    loss = nn.CrossEntropyLossConfig(weights=(1.0, 2.0, 3.0)).init()
    assert loss(inputs["x"], inputs["y"]).dtype == torch.float64


def recurrent(**options: Any) -> dict[str, Any]:
    """A simple recurrent layer."""
    config = {"d_input": 3, "d_hidden": 2, "bias": True, "initializer": XAVIER, "batch_first": True, "reverse": False}
    return {**config, "clip": None, "hidden_activation": "Tanh", **options}


@row("Recurrent layers and a sequence of no steps")
def no_steps() -> None:
    output, state = burns("Rnn", recurrent(), {"x": torch.empty(2, 0, 3)})
    assert output.shape == (2, 0, 2)
    assert state.eq(0).all()
    with pytest.raises(ShapeError):
        nn.RnnConfig(d_input=3, d_hidden=2, bias=True).init()(torch.empty(2, 0, 3))


@row("`clip` of recurrent layers")
def negative_clip() -> None:
    refuses("Rnn", recurrent(clip=-1.0), {"x": torch.ones(1, 2, 3)})
    assert burns("Rnn", recurrent(clip=0.0), {"x": torch.ones(1, 2, 3)})[0].eq(0).all()
    with pytest.raises(ConfigError, match="clip"):
        nn.RnnConfig(d_input=3, d_hidden=2, bias=True, clip=-1.0)


@row("`GLU` as an activation of recurrent layers")
def glu_in_recurrent_layers() -> None:
    refuses("Rnn", recurrent(hidden_activation={"GLU": {"dim": -1}}), {"x": torch.ones(1, 2, 3)})
    with pytest.raises(ConfigError, match="halves"):
        nn.RnnConfig(d_input=3, d_hidden=2, bias=True, hidden_activation=nn.GLUConfig(dim=-1))
