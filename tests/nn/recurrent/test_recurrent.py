"""Errors, states, initialization and counterparts of recurrent layers, and random configs of them."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from burnlike import Cpu, Tensor as Typed, nn
from burnlike.errors import ConfigError, NoCounterpartError, ShapeError
from burnlike.interop import from_torch, to_torch
from burnlike.module import params
from tests.nn.cases import tensors_of

SIZES: dict[str, Any] = {"d_input": 3, "d_hidden": 4, "bias": True}
X = torch.randn(2, 5, 3)
ZEROS = torch.zeros


@pytest.mark.parametrize(
    ("config", "state", "message"),
    [
        (nn.RnnConfig(**SIZES), nn.RnnState(ZEROS(3, 4)), r"Rnn: state: expected \[2, 4\], got \[3, 4\]"),
        (
            nn.LstmConfig(**SIZES),
            nn.LstmState(ZEROS(2, 5), ZEROS(2, 4)),
            r"Lstm: state: expected \[2, 4\], got \[2, 5\]",
        ),
        (nn.LstmConfig(**SIZES), nn.LstmState(ZEROS(2, 4), ZEROS(2, 4, 1)), r"Lstm: state: expected \[2, 4\]"),
        (nn.GruConfig(**SIZES), ZEROS(1, 2, 4), r"Gru: state: expected \[2, 4\], got \[1, 2, 4\]"),
        (nn.BiRnnConfig(**SIZES), nn.RnnState(ZEROS(2, 4)), r"BiRnn: state: expected \[2, 2, 4\], got \[2, 4\]"),
        (nn.BiGruConfig(**SIZES), ZEROS(1, 2, 4), r"BiGru: state: expected \[2, 2, 4\], got \[1, 2, 4\]"),
    ],
    ids=repr,
)
def test_a_state_of_another_shape_is_refused(config: Any, state: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        config.init()(X, state)


def test_inputs_of_another_shape_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"BiLstm: expected \[batch, sequence, 3\], got \[2, 5, 4\]"):
        nn.BiLstmConfig(**SIZES).init()(torch.randn(2, 5, 4))
    with pytest.raises(ShapeError, match=r"Rnn: expected \[sequence, batch, 3\], got \[5, 3\]"):
        nn.RnnConfig(**SIZES, batch_first=False).init()(torch.randn(5, 3))
    with pytest.raises(ShapeError, match=r"Gru: expected a sequence of at least one step, got \[2, 0, 3\]"):
        nn.GruConfig(**SIZES).init()(torch.randn(2, 0, 3))


def test_what_cannot_work_is_refused_by_the_config() -> None:
    with pytest.raises(ConfigError, match="an activation that keeps the size"):
        nn.LstmConfig(**SIZES, cell_activation=nn.GLUConfig(dim=-1))
    with pytest.raises(ConfigError, match="clip"):
        nn.GruConfig(**SIZES, clip=0.0)


def test_a_sequence_in_two_parts_is_the_whole() -> None:
    x = torch.randn(2, 6, 3, dtype=torch.float64)
    for config in (nn.RnnConfig(**SIZES), nn.LstmConfig(**SIZES), nn.LstmConfig(**SIZES, clip=0.2)):
        layer: Any = config.init().double()
        whole, last = layer(x)
        first, between = layer(x[:, :2])
        second, end = layer(x[:, 2:], between)
        torch.testing.assert_close(torch.cat((first, second), 1), whole, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(end, last, rtol=1e-12, atol=1e-12)
    gru = nn.GruConfig(**SIZES).init().double()
    first = gru(x[:, :2])
    torch.testing.assert_close(gru(x[:, 2:], first[:, -1]), gru(x)[:, 2:], rtol=1e-12, atol=1e-12)


def test_states_are_typed_as_the_input_is() -> None:
    layer = nn.LstmConfig(**SIZES).init()
    output, state = layer(Typed(X, Cpu()))  # pyright: ignore[reportArgumentType]
    assert isinstance(state, nn.LstmState)
    assert all(isinstance(it, Typed) for it in (output, *state))
    again, _ = layer(Typed(X, Cpu()), state)  # pyright: ignore[reportArgumentType]
    with torch.no_grad():
        expected, _ = layer(X, layer(X)[1])
    torch.testing.assert_close(again.inner, expected, rtol=0, atol=0)  # pyright: ignore[reportAttributeAccessIssue]


def test_states_of_lstm() -> None:
    with pytest.raises(ShapeError, match=r"of one shape, got \[2, 3\] and \[2, 4\]"):
        nn.LstmState.new(ZEROS(2, 3), ZEROS(2, 4))
    with pytest.raises(ShapeError, match=r"size 1 in dimension 0, got \[2, 3\]"):
        nn.LstmState.initial([2, 3]).squeeze_dim(0)
    given = nn.LstmState.new(torch.ones(2, 3), ZEROS(2, 3))
    assert nn.LstmState.unwrap_or_initial(given, [2, 3]) is given
    typed = nn.LstmState.initial([2, 3], Cpu())
    assert isinstance(typed.cell, Typed)
    assert (typed.shape, given.device) == ((2, 3), torch.device("cpu"))


def test_weights_and_biases_are_drawn_by_the_initializer_with_the_sizes_of_each_transform() -> None:
    torch.manual_seed(0)
    layer = nn.GruConfig(d_input=300, d_hidden=100, bias=True).init()
    for param in params(layer):
        fan_in = 300 if "input_transform" in param.path else 100
        expected = (2 / (fan_in + 100)) ** 0.5
        assert param.tensor.std().item() == pytest.approx(expected, rel=0.3 if param.path.endswith("bias") else 0.03)


def test_coupled_gates_have_no_forget_gate() -> None:
    layer = nn.LstmConfig(d_input=3, d_hidden=4, bias=True, input_forget=True).init()
    assert layer.forget_gate is None
    assert layer.num_params() == 108
    assert nn.BiLstmConfig(d_input=3, d_hidden=4, bias=True, input_forget=True).init().num_params() == 216


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (torch.nn.LSTM(3, 4, num_layers=2), "num_layers=2 has no counterpart; make one layer for each"),
        (torch.nn.LSTM(3, 4, proj_size=2), "proj_size=2 has no counterpart"),
        (torch.nn.GRU(3, 4), "batch_first=False has no counterpart"),
    ],
)
def test_options_that_only_torch_has_are_refused(layer: torch.nn.Module, message: str) -> None:
    with pytest.raises(NoCounterpartError, match=message):
        from_torch(layer)


@pytest.mark.filterwarnings("ignore:dropout option adds dropout")
def test_dropout_of_torch_is_refused() -> None:
    with pytest.raises(NoCounterpartError, match=r"dropout=0\.5 has no counterpart"):
        from_torch(torch.nn.RNN(3, 4, dropout=0.5))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (nn.RnnConfig(**SIZES, reverse=True), "reverse=True has no counterpart"),
        (nn.BiRnnConfig(**SIZES, hidden_activation=nn.SigmoidConfig()), "its activations have no counterpart"),
        (nn.LstmConfig(**SIZES, clip=1.0), "clip=1.0 has no counterpart"),
        (nn.BiLstmConfig(**SIZES, input_forget=True), "input_forget=True has no counterpart"),
        (nn.GruConfig(**SIZES, reset_after=False), "reset_after=False has no counterpart"),
    ],
    ids=repr,
)
def test_options_that_only_burn_has_are_refused(config: Any, message: str) -> None:
    with pytest.raises(NoCounterpartError, match=message):
        to_torch(config.init())


@pytest.mark.parametrize("bidirectional", [False, True])
def test_torchs_class_stands_for_two_of_burns(bidirectional: bool) -> None:
    theirs = torch.nn.RNN(3, 4, nonlinearity="relu", bidirectional=bidirectional)
    layer = from_torch(theirs)
    assert type(layer) is (nn.BiRnn if bidirectional else nn.Rnn)
    x = torch.randn(5, 2, 3)
    torch.testing.assert_close(layer(x)[0], theirs(x)[0])


ACTIVATIONS = st.sampled_from(
    [nn.TanhConfig(), nn.SigmoidConfig(), nn.SoftsignConfig(), nn.GeluConfig(), nn.HardSigmoidConfig()]
)
CLIPS = st.sampled_from([None, 0.1, 2.0])
KINDS = {
    nn.RnnConfig: ("batch_first", "reverse", "clip", "hidden_activation"),
    nn.BiRnnConfig: ("batch_first", "clip", "hidden_activation"),
    nn.LstmConfig: (
        *("batch_first", "reverse", "clip", "input_forget"),
        *("gate_activation", "cell_activation", "hidden_activation"),
    ),
    nn.BiLstmConfig: ("batch_first", "clip", "input_forget", "gate_activation", "hidden_activation"),
    nn.GruConfig: ("reset_after", "clip", "gate_activation", "hidden_activation"),
    nn.BiGruConfig: ("batch_first", "reset_after", "clip", "gate_activation", "hidden_activation"),
}


@st.composite
def configs(draw: st.DrawFn) -> Any:
    """A config with some options, the others at their defaults."""
    kind = draw(st.sampled_from(list(KINDS)))
    options: dict[str, Any] = {}
    for name in KINDS[kind]:
        if draw(st.booleans()):
            options[name] = draw(CLIPS if name == "clip" else ACTIVATIONS if "activation" in name else st.booleans())
    size = st.integers(1, 3)
    return kind(d_input=draw(size), d_hidden=draw(size), bias=draw(st.booleans()), **options)


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(configs(), st.integers(1, 3), st.integers(1, 4))
def test_any_config_has_the_same_shapes_on_the_meta_device(config: Any, batch: int, steps: int) -> None:
    batch_first = getattr(config, "batch_first", True)
    x = torch.randn(batch, steps, config.d_input) if batch_first else torch.randn(steps, batch, config.d_input)
    outputs = tensors_of(config.init()(x))
    on_meta = tensors_of(config.init("meta")(x.to("meta")))
    assert [it.shape for it in on_meta] == [it.shape for it in outputs]
    assert outputs[0].shape[:2] == x.shape[:2]
    assert all(bool(it.isfinite().all()) for it in outputs)


@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(configs())
def test_derivatives_of_any_config_are_right(config: Any) -> None:
    torch.manual_seed(0)
    layer = config.init().double()
    x = torch.randn(2, 2, config.d_input, dtype=torch.float64, requires_grad=True)
    weights = list(layer.parameters())
    assert torch.autograd.gradcheck(lambda *_: tuple(tensors_of(layer(x))), (x, *weights), fast_mode=True)
