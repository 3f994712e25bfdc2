"""Weight normalization as a reparameterization."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from burnlike.errors import ArgumentError
from burnlike.module import (
    Param,
    WeightNorm,
    apply_reparameterization,
    materialize,
    num_params,
    param_at,
    valid,
)
from burnlike.record import Record

from ..burn_layers import SimpleLinear
from ..cases import case


def normed(param: Param) -> WeightNorm | None:
    return WeightNorm(param.base(), dim=1) if param.tensor.dim() > 1 else None


def norm_reference(weight: Tensor, dim: int) -> Tensor:
    """The direction of `weight` with magnitudes 1, as torch computes it, in float64."""
    layer = nn.Module()
    layer.weight = nn.Parameter(weight.double())
    parametrizations.weight_norm(layer, dim=dim)
    layer.parametrizations.weight.original0.data.fill_(1.0)
    return layer.weight.detach()


@case("weight_norm/preserves_effective_weight_when_attached")
def test_weight_norm_starts_as_what_the_weight_is() -> None:
    layer = SimpleLinear()
    expected = layer.weight.detach().clone()
    apply_reparameterization(layer, normed)
    torch.testing.assert_close(layer.weight.detach(), expected)
    g = param_at(layer, "weight.weight_norm.g")
    assert list(g.tensor.shape) == [4]
    assert num_params(layer) == 24 + 6 + 4


@pytest.mark.parametrize(("shape", "dim"), [((4, 6), 0), ((4, 6), 1), ((3, 2, 5), 1), ((3, 2, 2, 2), 0)])
def test_weight_norm_has_the_magnitudes_of_g_and_the_direction_of_the_weight(shape: tuple[int, ...], dim: int) -> None:
    weight = torch.randn(shape)
    norm = WeightNorm(weight, dim)
    norm.g.data.fill_(1.0)
    torch.testing.assert_close(norm(weight).detach(), norm_reference(weight, dim).float())


@case("weight_norm/gradients_flow_to_direction_and_magnitude")
def test_weight_norm_trains_direction_and_magnitude() -> None:
    model = apply_reparameterization(SimpleLinear(), normed)
    for module in (model, valid(model).train()):
        module.weight.sum().backward()
        for path in ("weight", "weight.weight_norm.g"):
            assert param_at(module, path).tensor.grad.count_nonzero() > 0


@case("weight_norm/record_roundtrip_preserves_direction_and_magnitude")
def test_weight_norm_is_saved_as_direction_and_magnitude() -> None:
    source, target = (apply_reparameterization(SimpleLinear(), normed) for _ in range(2))
    with torch.no_grad():
        param_at(source, "weight.weight_norm.g").tensor.mul_(3)
    Record.from_module(source).load_into(target)
    assert torch.equal(param_at(target, "weight").base(), param_at(source, "weight").base())
    torch.testing.assert_close(target.weight, source.weight)


@case("weight_norm/valid_folds_reparameterization")
def test_weight_norm_stays_in_valid_and_is_folded_by_materialize() -> None:
    model = apply_reparameterization(SimpleLinear(), normed)
    with torch.no_grad():
        param_at(model, "weight.weight_norm.g").tensor.mul_(3)
    expected = model.weight.detach().clone()
    view = valid(model)
    assert isinstance(param_at(view, "weight").reparameterization(), WeightNorm)
    assert torch.equal(view.weight, expected)
    folded = materialize(view)
    assert param_at(folded, "weight").reparameterization() is None
    assert torch.equal(folded.weight, expected)


def test_weight_norm_needs_a_dimension_of_the_weight() -> None:
    with pytest.raises(ArgumentError, match="one of the 2 dimensions of the weight, got 2"):
        WeightNorm(torch.ones(2, 2), dim=2)
