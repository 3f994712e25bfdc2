"""Methods of modules give the module's own class."""

from typing import assert_type

import torch
from torch import nn

import burnlike as bl


class Model(bl.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)


def doubled(param: bl.Param) -> torch.Tensor:
    return param.tensor * 2


def program(model: Model) -> None:
    assert_type(model.map(doubled), Model)
    assert_type(model.map_(doubled), Model)
    assert_type(model.map(doubled, model), Model)
    assert_type(bl.module.map(model, doubled), Model)
    assert_type(model.valid(), Model)
    assert_type(model.clone(), Model)
    assert_type(model.fork("cpu"), Model)
