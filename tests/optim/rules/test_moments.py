import copy

import pytest
import torch
from torch import Tensor, nn

from burnlike.errors import ShapeError
from burnlike.module import params
from burnlike.optim import AdamWConfig, GradientsParams, OptimizerAdaptor
from burnlike.optim.rules.kernel_optimizer import SMALL, pack


def test_runs_of_small_moments_share_one_tensor() -> None:
    large = torch.randn(SMALL + 1)
    moments = [
        torch.randn(4, 2),
        torch.randn(()),
        large,
        torch.randn(4),
        torch.randn(2).double(),
        torch.randn(5).double(),
    ]
    each, handed = pack(moments)
    torch.testing.assert_close(each, moments, rtol=0, atol=0)
    assert [tensor.shape for tensor in handed] == [(9,), (SMALL + 1,), (4,), (7,)]
    assert handed[1] is large
    handed[0][8] = 9.0
    assert each[1].item() == 9.0


def test_each_moment_of_a_shared_tensor_begins_at_16_bytes() -> None:
    sizes = (4, 3, 8, 2, 8, 1)
    for dtype, runs in ((torch.float32, [7, 10, 9]), (torch.bfloat16, [4, 3, 10, 9])):
        each, handed = pack([torch.randn(size).to(dtype) for size in sizes])
        assert [len(tensor) for tensor in handed] == runs
        assert all(tensor.data_ptr() % 16 == 0 for tensor in each)


def step(model: nn.Module, optimizer: OptimizerAdaptor, grads: list[Tensor]) -> None:
    for param, grad in zip(model.parameters(), grads, strict=True):
        param.grad = grad.clone()
    optimizer.step(0.1, model, GradientsParams.from_module(model))


def test_states_of_parameters_that_come_and_go_are_those_of_their_own() -> None:
    model = nn.ParameterList([torch.randn(4), torch.randn(2, 3), torch.randn(5)])
    alone = copy.deepcopy(model)
    config = AdamWConfig(amsgrad=True)
    together, separate = config.init(), [config.init() for _ in range(3)]
    for time in range(6):
        grads = [torch.randn_like(param) for param in model]
        for index, (param, other) in enumerate(zip(model, alone, strict=True)):
            trains = (time + index) % 3 != 0
            param.grad = grads[index].clone() if trains else None
            if trains:
                lonely = nn.ParameterList([other])
                for handle in params(lonely):
                    handle.adopt(params(model)[index].id)
                other.grad = grads[index].clone()
                separate[index].step(0.1, lonely, GradientsParams.from_module(lonely))
        together.step(0.1, model, GradientsParams.from_module(model))
    for param, other in zip(model, alone, strict=True):
        torch.testing.assert_close(param, other, rtol=0, atol=0)


def test_a_state_of_another_shape_is_refused_though_its_size_fits() -> None:
    model = nn.ParameterList([torch.randn(4), torch.randn(2, 3)])
    optimizer = AdamWConfig().init()
    grads = [torch.randn_like(param) for param in model]
    step(model, optimizer, grads)
    params(model)[1].assign(torch.zeros(3, 2))
    with pytest.raises(ShapeError, match=r"'1' has shape \[3, 2\], and its state is of shape \[2, 3\]"):
        step(model, optimizer, [grads[0], grads[1].t()])
