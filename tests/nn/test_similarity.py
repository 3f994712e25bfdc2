"""Similarities and distances of vectors."""

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st

from burnlike.errors import ConfigError, NoCounterpartError, ShapeError
from burnlike.module import display
from burnlike.nn import CosineSimilarityConfig, PairwiseDistanceConfig
from tests.nn.cases import COUNTERPARTS


@settings(max_examples=30)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_the_dimension_goes_and_the_gradients_are_right(shape: list[int], data: st.DataObject) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    x1, x2 = torch.randn(2, *shape, dtype=torch.float64).requires_grad_().unbind()
    for layer, gone in (
        (CosineSimilarityConfig(dim=dim).init(), dim),
        (PairwiseDistanceConfig(p=data.draw(st.sampled_from([1.0, 2.0, 3.0, math.inf]))).init(), -1),
    ):
        expected = list(shape)
        del expected[gone]
        assert list(layer(x1, x2).shape) == expected
        assert list(layer(x1.to("meta"), x2.to("meta")).shape) == expected
    assert torch.autograd.gradcheck(CosineSimilarityConfig(dim=dim).init(), (x1[:2], x2[:2]) if dim else (x1, x2))


def test_vectors_of_length_0_and_tiny_ones() -> None:
    layer = CosineSimilarityConfig(eps=0.5).init()
    x1 = torch.tensor([[0.0, 0.0], [0.3, 0.0]], requires_grad=True)
    x2 = torch.tensor([[1.0, 0.0], [2.0, 0.0]])
    y = layer(x1, x2)
    torch.testing.assert_close(y, torch.tensor([0.0, 0.6]))  # 0.3 / 0.5 * 2 / 2: each is divided by its own length
    y.sum().backward()
    assert x1.grad is not None
    assert x1.grad.tolist() == [[2.0, 0.0], [2.0, 0.0]]  # 1 / 0.5 * 2 / 2


@pytest.mark.parametrize("config", [CosineSimilarityConfig(), PairwiseDistanceConfig()])
@pytest.mark.parametrize("shape", [(2, 4), (3, 3), (2, 3, 1), (3,)])
def test_inputs_that_do_not_fit_each_other_are_refused(config, shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"x2: expected the sizes of x1, \[2, 3\], or 1, got"):
        config.init()(torch.zeros(2, 3), torch.zeros(shape))


def test_a_dimension_that_is_not_there_is_refused() -> None:
    with pytest.raises(ShapeError, match="CosineSimilarity: x1: expected an input with the dimension 1, got"):
        CosineSimilarityConfig().init()(torch.zeros(3), torch.zeros(3))
    with pytest.raises(ShapeError, match=r"PairwiseDistance: x1: expected \[..., size\], got \[\]"):
        PairwiseDistanceConfig().init()(torch.zeros(()), torch.zeros(()))


def test_impossible_configs_are_refused() -> None:
    with pytest.raises(ConfigError, match="eps: expected a finite number >= 0"):
        CosineSimilarityConfig(eps=-1.0)
    with pytest.raises(ConfigError, match="p: expected a number >= 0"):
        PairwiseDistanceConfig(p=-1.0)


def test_options_that_only_torch_has_are_refused() -> None:
    config = COUNTERPARTS["PairwiseDistance"].config
    for layer in (torch.nn.PairwiseDistance(keepdim=True), torch.nn.PairwiseDistance(-1.0)):
        with pytest.raises(NoCounterpartError, match="no counterpart"):
            config(layer)
    assert config(torch.nn.PairwiseDistance(math.inf)) == PairwiseDistanceConfig(p=math.inf)


def test_the_displays_are_burns() -> None:
    assert display(CosineSimilarityConfig(dim=-1, eps=0.5).init()) == "CosineSimilarity {dim: -1, eps: 0.5}"
    assert display(PairwiseDistanceConfig(eps=0.5).init()) == "PairwiseDistance {p: 2, eps: 0.5}"
