"""Adam against Burn's test vectors."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from burnlike.optim import Adam, AdamConfig, AdamState
from tests.optim.steps import assert_vector, train_vector


def config_of(case: dict[str, Any]) -> AdamConfig:
    values = {key: value for key, value in case["config"].items() if key != "grad_clipping"}
    decay = values.pop("weight_decay")
    return AdamConfig(**values, weight_decay=decay["penalty"] if decay else 0.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fifty_steps_with_amsgrad_are_burns(vectors: Callable[[str], dict[str, Any]], dtype: torch.dtype) -> None:
    cases = {case["id"]: case for case in vectors("optim")["optimizers"]}
    case = cases["Adam/test_adam_optimizer_with_amsgrad_50_steps"]
    inputs = [torch.full((2, 6), i * 0.1) for i in range(1, 51)]
    assert_vector(train_vector(config_of(case), case, inputs, dtype), case, 1e-5)


@pytest.mark.parametrize("name", ["test_adam_optimizer_with_numbers", "defaults"])
def test_two_steps_are_the_derived_vectors(vectors: Callable[[str], dict[str, Any]], name: str) -> None:
    cases = {case["id"]: case for case in vectors("optim")["optimizers_derived"]}
    case = cases[f"derived/Adam/{name}"]
    inputs = [torch.tensor(x) for x in case["inputs_per_step"]]
    assert_vector(train_vector(config_of(case), case, inputs), case)


def test_the_defaults_are_burns() -> None:
    config = AdamConfig()
    assert (config.beta_1, config.beta_2, config.epsilon, config.weight_decay) == (0.9, 0.999, 1e-5, 0.0)
    assert not config.amsgrad
    rule = config.build()
    assert isinstance(rule, Adam)
    assert rule.state_type is AdamState
