"""Layers against the outputs and gradients that Burn 0.22.1 computed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from burnlike import nn
from burnlike.config import ModuleConfig
from burnlike.module import params
from tests.conftest import tensor_of

CASES = {
    "linear": nn.LinearConfig(d_input=3, d_output=2),
    "linear_no_bias": nn.LinearConfig(d_input=3, d_output=2, bias=False),
    "embedding": nn.EmbeddingConfig(n_embedding=5, d_model=4),
    "rms_norm": nn.RmsNormConfig(d_model=6, epsilon=1e-3),
    "swiglu": nn.SwiGluConfig(d_input=4, d_output=3),
    "rotary_encoding": nn.RotaryEncodingConfig(max_sequence_length=10, d_model=4),
}


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients_are_burns(name: str, golden: Callable[[str], dict[str, Any]]) -> None:
    values = golden(name)
    layer = CASES[name].init()
    by_path = {param.path: param for param in params(layer)}
    expected_params = {entry["path"]: entry for entry in values.get("params", [])}
    assert by_path.keys() == expected_params.keys()
    for path, entry in expected_params.items():
        by_path[path].assign(tensor_of(entry))
    (given,) = values["inputs"].values()
    x = tensor_of(given, torch.int64 if given["dtype"].startswith("I") else torch.float32)

    output = layer(x)

    (expected,) = values["outputs"].values()
    torch.testing.assert_close(output, tensor_of(expected), rtol=1e-6, atol=1e-6)
    if expected_params:
        flat = output.flatten()
        weights = torch.tensor([((i % 7) - 3) / 4 + 0.125 for i in range(flat.numel())])
        (flat * weights).sum().backward()
        assert {entry["path"] for entry in values["grads"]} == by_path.keys()
    for entry in values.get("grads", []):
        torch.testing.assert_close(by_path[entry["path"]].tensor.grad, tensor_of(entry), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_num_params_is_burns(name: str, golden: Callable[[str], dict[str, Any]]) -> None:
    config: ModuleConfig = CASES[name]
    assert config.init().num_params() == golden(name)["num_params"]
