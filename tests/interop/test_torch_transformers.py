"""Transformers of torch's, with every option that both sides have."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.errors import NoCounterpartError
from burnlike.interop import from_torch, to_torch

SIZES: dict[str, Any] = {"d_model": 8, "nhead": 2, "dim_feedforward": 12}


def encoder(norm_first: bool = False, activation: str = "gelu", **options: Any) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        **SIZES, activation=activation, norm_first=norm_first, batch_first=True, dropout=0.0, **options
    )
    made = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).double()
    with torch.no_grad():
        for number, param in enumerate(made.parameters()):  # its layers are copies of one another
            param.add_(torch.randn_like(param) / (number + 2))
    return made


def expect_same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder(norm_first: bool, activation: str) -> None:
    torch.manual_seed(0)
    model = encoder(norm_first, activation, layer_norm_eps=1e-3)
    twin = from_torch(model)
    x, hidden = torch.randn(3, 5, 8, dtype=torch.float64), torch.zeros(3, 5, dtype=torch.bool)
    hidden[:, 3:] = True
    expect_same(twin(x), model(x))
    expect_same(twin(x, mask_pad=hidden), model(x, src_key_padding_mask=hidden))
    back = to_torch(twin)
    assert torch.equal(back(x), model(x))
    for (name, one), (other, its) in zip(back.state_dict().items(), model.state_dict().items(), strict=True):
        assert name == other
        assert torch.equal(one, its)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_decoder(norm_first: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerDecoderLayer(**SIZES, norm_first=norm_first, batch_first=True, dropout=0.0)
    model = nn.TransformerDecoder(layer, 2).double()
    with torch.no_grad():
        for param in model.parameters():
            param.add_(torch.randn_like(param) / 4)
    twin = from_torch(model)
    target, memory = torch.randn(3, 4, 8, dtype=torch.float64), torch.randn(3, 5, 8, dtype=torch.float64)
    expect_same(twin(target, memory), model(target, memory))
    back = to_torch(twin)
    assert torch.equal(back(target, memory), model(target, memory))
    with pytest.raises(NoCounterpartError, match="is called in another way"):
        from_torch(nn.Sequential(model))


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_layer_by_itself(norm_first: bool) -> None:
    model = encoder(norm_first).layers[0]
    twin = from_torch(model)
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    expect_same(twin(x), model(x))
    back = to_torch(twin)
    assert type(back) is nn.TransformerEncoderLayer
    assert torch.equal(back(x), model(x))


def test_an_encoder_in_sequential_and_in_a_program() -> None:
    stack = nn.Sequential(nn.Linear(4, 8), nn.Sequential(encoder(), nn.ReLU()), nn.Linear(8, 2)).double()
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    expect_same(from_torch(stack)(x), stack(x))
    with pytest.raises(NoCounterpartError, match=r"encoder .*is called in another way"):
        from_torch(nn.ModuleDict({"encoder": encoder()}))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda it: setattr(it, "norm", nn.LayerNorm(8)), "norm at the end"),
        (lambda it: setattr(it.layers[1].dropout, "p", 0.5), "dropout"),
        (lambda it: setattr(it.layers[1], "norm_first", True), "options"),
        (lambda it: setattr(it.layers[0], "activation", torch.tanh), "activation"),
        (lambda it: setattr(it.layers[0].self_attn, "batch_first", False), "batch_first=False"),
        (lambda it: it.layers[0].linear1.register_forward_hook(print), "hooks"),
        (lambda it: it.layers[0].eval(), "training mode"),
    ],
)
def test_what_has_no_counterpart(change: Callable[[Any], object], reason: str) -> None:
    model = encoder()
    change(model)
    with pytest.raises(NoCounterpartError, match=reason):
        from_torch(model)
