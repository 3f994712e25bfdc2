"""Transformers: caches, records, errors, torch's stacks; the table of cases has their numbers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn as torch_nn

from burnlike import Autodiff, Cpu, Tensor as Typed, nn
from burnlike.errors import ConfigError, ShapeError
from burnlike.nn.tensor_source import whole
from burnlike.nn.torch_counterpart import Counterpart, NoCounterpartError
from burnlike.nn.transformer.transformer import COUNTERPARTS
from burnlike.record import NamedMpkFileRecorder, load, save
from tests.nn.cases import made_by

ENCODER = nn.TransformerEncoderConfig(d_model=8, d_ff=12, n_heads=2, n_layers=2, dropout=0.0)
DECODER = nn.TransformerDecoderConfig(d_model=8, d_ff=12, n_heads=2, n_layers=2, dropout=0.0)
PAD = torch.tensor([[False] * 5, [False, True, False, False, False]])


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def pair_of(layer: torch_nn.Module) -> Counterpart:
    (found,) = [it for it in COUNTERPARTS if it.torch is type(layer)]
    return found.of(layer)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 1, 2)], ids=str)
def test_an_encoder_position_by_position(sizes: tuple[int, ...], norm_first: bool) -> None:
    encoder = ENCODER.replace(norm_first=norm_first).init().double()
    x, causal = draw(2, 5, 8), nn.generate_autoregressive_mask(2, 5)
    whole = encoder(x, PAD, causal)
    cache, end, seen = encoder.new_autoregressive_cache(), 0, []
    encoder.layers[1].pwff.register_forward_hook(lambda module, given, output: seen.append(output.shape[1]))
    for size in sizes:
        end += size
        step = encoder.forward_autoregressive_inference(x[:, :end], cache, PAD[:, :end], causal[:, :end, :end])
        torch.testing.assert_close(step, whole[:, :end])
    assert seen == [*sizes]
    with pytest.raises(ShapeError, match="TransformerEncoderLayer: expected more than the 5 positions of the cache"):
        encoder.forward_autoregressive_inference(x, cache)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 1, 2)], ids=str)
def test_a_decoder_position_by_position(sizes: tuple[int, ...], norm_first: bool) -> None:
    decoder = DECODER.replace(norm_first=norm_first).init().double()
    x, memory, causal = draw(2, 5, 8), draw(2, 3, 8), nn.generate_autoregressive_mask(2, 5)
    masks = torch.tensor([[False, True, False]] * 2), draw(2, 5, 3) > 1
    whole = decoder(x, memory, PAD, causal, *masks)
    cache, end, seen = decoder.new_autoregressive_cache(), 0, []
    decoder.layers[1].cross_attn.value.register_forward_hook(lambda module, given, output: seen.append(1))
    for size in sizes:
        end += size
        step = decoder.forward_autoregressive_inference(
            x[:, :end], memory, cache, PAD[:, :end], causal[:, :end, :end], masks[0], masks[1][:, :end]
        )
        torch.testing.assert_close(step, whole[:, :end])
    assert seen == [1]


def test_generation_with_typed_tensors() -> None:
    encoder, x = ENCODER.init().double(), draw(1, 3, 8)
    expected = encoder(x, mask_attn=nn.generate_autoregressive_mask(1, 3)).detach()
    for backend in (Cpu(), Autodiff(Cpu())):
        cache = encoder.new_autoregressive_cache()
        for end in (1, 2, 3):
            step: Any = encoder.forward_autoregressive_inference(Typed(x[:, :end], backend), cache)
        torch.testing.assert_close(step.inner.detach(), expected)


def test_dropout_is_in_all_parts_and_off_in_evaluation() -> None:
    for config, inputs in ((ENCODER, (draw(2, 3, 8),)), (DECODER, (draw(2, 3, 8), draw(2, 3, 8)))):
        model = config.replace(dropout=0.5).init().double()
        assert {it.prob for it in model.modules() if isinstance(it, nn.Dropout)} == {0.5}
        assert not torch.equal(model(*inputs), model(*inputs))
        model.eval()
        assert torch.equal(model(*inputs), model(*inputs))


@pytest.mark.parametrize("name", ["layer.safetensors", "layer.mpk"])
def test_records_have_the_weights_of_the_activation(tmp_path: Path, name: str) -> None:
    gate = nn.SwiGluConfig(d_input=6, d_output=6)
    config = nn.PositionWiseFeedForwardConfig(d_model=4, d_ff=6, dropout=0.0, activation=gate)
    layer, other = config.init(), config.init()
    recorder = NamedMpkFileRecorder() if name.endswith("mpk") else None
    load(other, save(layer, tmp_path / name, recorder=recorder))
    x = torch.randn(2, 4)
    assert torch.equal(other(x), layer(x))


def test_an_activation_of_another_size_is_refused() -> None:
    config = nn.PositionWiseFeedForwardConfig(d_model=4, d_ff=6, activation=nn.GLUConfig(dim=-1))
    with pytest.raises(ShapeError, match=r"Linear: expected \[..., 6\], got \[2, 3\]"):
        config.init()(torch.randn(2, 4))


@pytest.mark.parametrize("config", [ENCODER, DECODER])
def test_heads_that_do_not_divide_are_refused(config: nn.TransformerEncoderConfig) -> None:
    with pytest.raises(ConfigError, match=r"n_heads: expected a divisor of d_model \(8\), got 3"):
        config.replace(n_heads=3)


def test_configs_are_read_with_their_activation() -> None:
    text = "d_model: 8\nd_ff: 12\nn_heads: 2\nn_layers: 1\nactivation: {type: LeakyRelu, negative_slope: 0.2}"
    config = nn.TransformerEncoderConfig.from_yaml(text)
    assert config.activation == nn.LeakyReluConfig(negative_slope=0.2)
    assert nn.TransformerEncoderConfig.from_yaml(config.to_yaml().replace("type: TransformerEncoder\n", "")) == config


@settings(max_examples=5, deadline=None)
@given(st.integers(1, 2), st.integers(1, 2), st.integers(1, 2), st.booleans(), st.booleans())
def test_gradients_and_shapes(batch: int, length: int, layers: int, norm_first: bool, quiet: bool) -> None:
    config = nn.TransformerEncoderConfig(
        d_model=4, d_ff=3, n_heads=2, n_layers=layers, dropout=0.0, norm_first=norm_first, quiet_softmax=quiet
    )
    x = torch.randn(batch, length, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(config.init().double(), x)
    assert config.init("meta")(x.float().to("meta")).shape == x.shape


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}, {"activation": torch_nn.ReLU()}])
def test_a_layer_of_torchs_is_a_stack_of_one(options: dict[str, Any]) -> None:
    theirs = torch_nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, **options).double().eval()
    pair = pair_of(theirs)
    ours = pair.config(theirs).init().double().eval()
    ours.load_state_dict(made_by(whole(pair.places(theirs.state_dict())), theirs.state_dict()))
    x = draw(2, 4, 8)
    torch.testing.assert_close(ours(x), theirs(x))
    assert pair.config(pair.build(ours, torch.device("cpu"))) == pair.config(theirs)


def test_a_decoder_layer_of_torchs_is_a_stack_of_one() -> None:
    theirs = torch_nn.TransformerDecoderLayer(8, 2, 12, batch_first=True, norm_first=True).double().eval()
    pair = pair_of(theirs)
    ours = pair.config(theirs).init().double().eval()
    ours.load_state_dict(made_by(whole(pair.places(theirs.state_dict())), theirs.state_dict()))
    x, memory = draw(2, 4, 8), draw(2, 3, 8)
    torch.testing.assert_close(ours(x, memory), theirs(x, memory))


def encoder_layer(**options: Any) -> torch_nn.TransformerEncoderLayer:
    return torch_nn.TransformerEncoderLayer(8, 2, 12, **{"batch_first": True, **options})


def of_other_dropout() -> torch_nn.Module:
    layer = encoder_layer()
    layer.dropout1.p = 0.3
    return layer


def of_other_layers() -> torch_nn.Module:
    stack = torch_nn.TransformerEncoder(encoder_layer(), 2, enable_nested_tensor=False)
    stack.layers[1] = encoder_layer(norm_first=True)
    return stack


REFUSED = {
    "batch_first=False": lambda: encoder_layer(batch_first=False),
    "bias=False": lambda: encoder_layer(bias=False),
    "activation=": lambda: encoder_layer(activation=torch.tanh),
    "different options": of_other_dropout,
    "layers of different options": of_other_layers,
    "a norm at the end": lambda: torch_nn.TransformerEncoder(
        encoder_layer(), 1, torch_nn.LayerNorm(8), enable_nested_tensor=False
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_options_that_only_torch_has_are_refused(words: str) -> None:
    layer = REFUSED[words]()
    with pytest.raises(NoCounterpartError, match=words):
        pair_of(layer).config(layer)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (ENCODER.replace(quiet_softmax=True), "quiet_softmax"),
        (DECODER.replace(activation=nn.TanhConfig()), "the activation Tanh"),
        (ENCODER.replace(activation=nn.GeluConfig(approximate=True)), "the activation Gelu"),
    ],
    ids=["quiet", "tanh", "approximate"],
)
def test_options_that_only_burnlike_has_are_refused(config: Any, words: str) -> None:
    stack = config.init("meta")
    pair = [it for it in COUNTERPARTS if it.layer == type(stack).__name__][-1]
    with pytest.raises(NoCounterpartError, match=words):
        pair.build(stack, torch.device("meta"))


def test_a_stack_of_two_is_no_layer() -> None:
    with pytest.raises(NoCounterpartError, match="2 layers can't become one"):
        COUNTERPARTS[0].build(ENCODER.init("meta"), torch.device("meta"))
