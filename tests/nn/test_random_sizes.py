"""Layers of random sizes and options, beside their counterparts in torch or a formula."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.nn import functional

from burnlike import nn
from burnlike.config import ModuleConfig
from burnlike.module import params

from .cases import COUNTERPARTS, floats, made_by, tensors_of

SIZE = st.integers(1, 4)
RECURRENT: dict[str, Any] = {
    "Rnn": nn.RnnConfig,
    "BiRnn": nn.BiRnnConfig,
    "Lstm": nn.LstmConfig,
    "BiLstm": nn.BiLstmConfig,
    "Gru": nn.GruConfig,
    "BiGru": nn.BiGruConfig,
}
few = settings(max_examples=8)


def torchs(layer: Any) -> Any:
    """torch's counterpart with the same weights."""
    twin = COUNTERPARTS[type(layer).__name__]
    made = twin.build(layer, torch.device("cpu")).double()
    state = {it.path: it.tensor.detach() for it in params(layer)}
    made.load_state_dict(made_by(twin.recipes(state), state))
    return made


def check_meta(config: ModuleConfig, x: torch.Tensor, output: Any) -> None:
    """The shapes of the output are known on the meta device."""
    found = config.init("meta")(x.to("meta"))
    assert [it.shape for it in tensors_of(found)] == [it.shape for it in tensors_of(output)]


@few
@given(st.lists(SIZE, max_size=3), SIZE, SIZE, st.booleans(), st.sampled_from(["row", "col"]))
def test_linear(shape: list[int], d_input: int, d_output: int, bias: bool, layout: Any) -> None:
    config = nn.LinearConfig(d_input=d_input, d_output=d_output, bias=bias, layout=layout)
    layer, x = config.init().double(), floats(*shape, d_input)
    torch.testing.assert_close(layer(x), torchs(layer)(x), rtol=1e-12, atol=1e-12)
    check_meta(config, x, layer(x))
    assert torch.autograd.gradcheck(layer, x.requires_grad_())


@few
@given(st.integers(1, 9), SIZE, SIZE, st.integers(0, 4))
def test_embedding(n_embedding: int, d_model: int, batch: int, sequence: int) -> None:
    config = nn.EmbeddingConfig(n_embedding=n_embedding, d_model=d_model)
    layer, indices = config.init(), torch.randint(n_embedding, (batch, sequence))
    assert torch.equal(layer(indices), layer.weight[indices])
    check_meta(config, indices, layer(indices))


@few
@given(st.lists(SIZE, min_size=1, max_size=3), st.floats(0, 0.9), st.booleans())
def test_dropout_zeroes_or_scales(shape: list[int], prob: float, training: bool) -> None:
    x = floats(*shape)
    output = nn.DropoutConfig(prob=prob).init().train(training)(x)
    kept = output != 0
    torch.testing.assert_close(output[kept], (x / (1 - prob) if training else x)[kept])
    assert training or bool(kept.all())


@pytest.mark.parametrize("name", RECURRENT)
@few
@given(data=st.data())
def test_recurrent(name: str, data: st.DataObject) -> None:
    batch, sequence, d_input, d_hidden = (data.draw(SIZE) for _ in range(4))
    options: dict[str, Any] = {} if name == "Gru" else {"batch_first": data.draw(st.booleans())}
    config = RECURRENT[name](d_input=d_input, d_hidden=d_hidden, bias=data.draw(st.booleans()), **options)
    layer = config.init().double()
    x = floats(batch, sequence, d_input)
    output = layer(x)
    torch.testing.assert_close(tensors_of(output)[0], torchs(layer)(x)[0], rtol=1e-10, atol=1e-10)
    check_meta(config, x, output)
    assert torch.autograd.gradcheck(lambda it: tensors_of(layer(it))[0], x[:2, :2].clone().requires_grad_())


@few
@given(data=st.data())
def test_interpolate(data: st.DataObject) -> None:
    mode: Any = data.draw(st.sampled_from(["Nearest", "NearestExact", "Linear", "Cubic"]))
    corners = data.draw(st.booleans())
    sizes = [data.draw(st.integers(1, 6)) for _ in range(2)]
    wanted = (data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6)))
    config = nn.Interpolate2dConfig(output_size=wanted, mode=mode, align_corners=corners)
    x = floats(2, 2, *sizes)
    name = {"Nearest": "nearest", "NearestExact": "nearest-exact", "Linear": "bilinear", "Cubic": "bicubic"}[mode]
    aligned = corners if mode in ("Linear", "Cubic") else None
    output = config.init()(x)
    torch.testing.assert_close(output, functional.interpolate(x, wanted, mode=name, align_corners=aligned))
    check_meta(config, x, output)
