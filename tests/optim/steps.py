"""Steps and comparisons that the tests of optimizers share."""

from typing import Any

import torch
from torch import nn

from burnlike.module import params
from burnlike.optim import GradientsParams, ModuleLearningRate, OptimizerAdaptor


def train(model: nn.Module, optimizer: OptimizerAdaptor, lr: float | ModuleLearningRate = 1e-2) -> None:
    generator = torch.Generator().manual_seed(3)
    for param in params(model, "weight"):
        if param.trainable:
            param.tensor.grad = torch.randn(param.tensor.shape, generator=generator).to(param.tensor.dtype)
    optimizer.step(lr, model, GradientsParams.from_module(model))


def assert_same(tensors: Any, others: Any) -> None:
    assert list(tensors) == list(others)
    for name in tensors:
        assert tensors[name].dtype == others[name].dtype
        assert torch.equal(tensors[name], others[name]), name
