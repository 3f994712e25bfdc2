import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from burnlike.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from burnlike.ops import adamw_step_, adamw_step_reference, native_status

# Inductor itself still uses what torch deprecates.
TORCH_WARNS = pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")


def lists(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[list[Tensor]]:
    """Parameters, gradients and zero moments."""
    values = [[torch.randn(shape, dtype=dtype) for shape in shapes] for _ in range(2)]
    return [*values, *([torch.zeros(shape, dtype=dtype) for shape in shapes] for _ in range(2))]


@pytest.mark.parametrize("amsgrad", [False, True])
def test_follows_torch_adamw_in_float64(amsgrad: bool) -> None:
    params, _, moments_1, moments_2 = lists((5, 3), (70,), (1,), dtype=torch.float64)
    largest = [torch.zeros_like(param) for param in params] if amsgrad else None
    theirs = [param.clone().requires_grad_() for param in params]
    options = {"lr": 0.03, "eps": 1e-5, "weight_decay": 0.2, "betas": (0.8, 0.97), "amsgrad": amsgrad}
    optimizer = torch.optim.AdamW(theirs, foreach=False, **options)
    for time in range(1, 8):
        grads = [torch.randn_like(param) for param in params]
        for their, grad in zip(theirs, grads, strict=True):
            their.grad = grad.clone()
        optimizer.step()
        scalars: dict[str, Any] = {"lr": 0.03, "epsilon": 1e-5, "weight_decay": 0.2, "beta_1": 0.8, "beta_2": 0.97}
        adamw_step_(params, grads, moments_1, moments_2, times=[time] * 3, max_moments_2=largest, **scalars)
        torch.testing.assert_close(params, [their.detach() for their in theirs], rtol=1e-12, atol=1e-14)


def test_first_step_is_the_sign_of_the_gradient() -> None:
    # With m = (1 - b1) g and v = (1 - b2) g^2 the corrections cancel: delta = g / (|g| + epsilon).
    param, grad = torch.tensor([1.0, -2.0, 3.0]), torch.tensor([0.5, 4.0, -0.25])
    adamw_step_([param], [grad], [torch.zeros(3)], [torch.zeros(3)], times=[1], lr=0.1, epsilon=0.0, weight_decay=0.5)
    torch.testing.assert_close(param, torch.tensor([1.0, -2.0, 3.0]) * 0.95 - torch.tensor([0.1, 0.1, -0.1]))


def test_cautious_decay_only_where_signs_agree() -> None:
    param = torch.tensor([2.0, 2.0, -2.0, -2.0, 0.0])
    moment = torch.tensor([1.0, -1.0, 1.0, -1.0, 0.0])
    square = torch.ones(5)
    # beta 1 near 1 and no learning but by decay: the moments, and so their signs, stay.
    scalars: dict[str, Any] = {"lr": 1e-9, "weight_decay": 0.5e9, "beta_1": 0.5, "beta_2": 0.5}
    adamw_step_([param], [moment.clone()], [moment], [square], times=[1], cautious=True, **scalars)
    torch.testing.assert_close(param, torch.tensor([1.0, 2.0, -2.0, -1.0, 0.0]))


@pytest.mark.parametrize("form", [{}, {"coupled": True}, {"cautious": True}], ids=str)
@pytest.mark.parametrize("step", [adamw_step_, adamw_step_reference])
def test_without_decay_an_infinite_parameter_stays_infinite(step: Callable[..., None], form: dict[str, bool]) -> None:
    # 0 times infinity would be NaN.
    param, moments = torch.tensor([torch.inf, -torch.inf, 1.0]), [[torch.zeros(3)] for _ in range(2)]
    step([param], [torch.ones(3)], *moments, times=[1], lr=0.5, epsilon=0.0, weight_decay=0.0, **form)
    assert param.tolist() == [math.inf, -math.inf, 0.5]
    assert moments[0][0].isfinite().all()


def test_each_parameter_has_its_own_time() -> None:
    grad = 0.7
    params, grads = [torch.ones(3) for _ in range(2)], [torch.full((3,), grad) for _ in range(2)]
    moments = [[torch.zeros(3) for _ in range(2)] for _ in range(2)]
    adamw_step_(params, grads, *moments, times=[1, 100], lr=0.1, weight_decay=0.0)
    for param, time in zip(params, (1, 100), strict=True):
        moment_1, moment_2 = 0.1 * grad / (1 - 0.9**time), 0.001 * grad**2 / (1 - 0.999**time)
        torch.testing.assert_close(param, torch.full((3,), 1 - 0.1 * moment_1 / (math.sqrt(moment_2) + 1e-5)))


def test_bfloat16_moments_are_rounded_once() -> None:
    # A moment that bfloat16 arithmetic would leave unchanged: 1 + 2^-9 rounds to 1 in each operation.
    param, grad = torch.zeros(1, dtype=torch.bfloat16), torch.full((1,), 1.5, dtype=torch.bfloat16)
    moment = torch.ones(1, dtype=torch.bfloat16)
    adamw_step_([param], [grad], [moment], [torch.ones_like(moment)], times=[1], lr=0.0, beta_1=0.99)
    assert moment.item() == torch.tensor(0.99 + 0.01 * 1.5).bfloat16().item()


def test_subnormal_moments_survive() -> None:
    params, grads, moments_1, moments_2 = lists((20,))
    grads[0].zero_()
    moments_2[0].fill_(1e-40)
    adamw_step_(params, grads, moments_1, moments_2, times=[2], lr=0.1, beta_2=0.5)
    torch.testing.assert_close(moments_2[0], torch.full((20,), 0.5e-40), rtol=1e-4, atol=0)


def test_many_tensors_of_many_sizes_run_in_threads() -> None:
    shapes = [(size,) for size in (1, 70_000, 3, 0, 40_000, 17)]
    together, alone = lists(*shapes), lists(*shapes)
    for one, other in zip(together, alone, strict=True):
        for source, target in zip(one, other, strict=True):
            target.copy_(source)
    adamw_step_(*together, times=range(1, 7), lr=0.1)
    for index in range(len(shapes)):
        adamw_step_(*([values[index]] for values in alone), times=[index + 1], lr=0.1)
    torch.testing.assert_close(together, alone, rtol=0, atol=0)


def test_autograd_notices_a_changed_parameter() -> None:
    weight = nn.Parameter(torch.randn(4))
    loss = (weight * weight).sum()
    with torch.no_grad():
        adamw_step_([weight], [torch.ones(4)], [torch.zeros(4)], [torch.zeros(4)], times=[1], lr=0.1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_flat_moments_of_several_parameters_give_the_same_bits() -> None:
    shapes = [(3, 5), (), (7,), (40_000,), (2, 2), (0, 3), (6,)]
    params, grads, moments_1, moments_2 = lists(*shapes)
    separate = [[tensor.clone() for tensor in tensors] for tensors in (params, grads, moments_1, moments_2)]
    times = list(range(1, 8))
    # Three in a row, one of its own shape, three in a row of which one is empty.
    flat_1, flat_2 = ([torch.zeros(23), torch.zeros(40_000), torch.zeros(10)] for _ in range(2))
    for _ in range(2):
        adamw_step_(params, grads, flat_1, flat_2, times=times, lr=0.1)
        adamw_step_(*separate, times=times, lr=0.1)
    torch.testing.assert_close(params, separate[0], rtol=0, atol=0)
    torch.testing.assert_close(torch.cat(flat_1), torch.cat([it.flatten() for it in separate[2]]), rtol=0, atol=0)
    torch.testing.assert_close(torch.cat(flat_2), torch.cat([it.flatten() for it in separate[3]]), rtol=0, atol=0)
    reference = [[tensor.clone() for tensor in tensors] for tensors in (params, grads, flat_1, flat_2)]
    adamw_step_(params, grads, flat_1, flat_2, times=times, lr=0.1)
    adamw_step_reference(*reference, times=times, lr=0.1)
    torch.testing.assert_close([*params, *flat_1], [*reference[0], *reference[2]])


def test_flat_moments_of_another_size() -> None:
    params, grads, moments_1, moments_2 = lists((3,), (4,))
    refused(ShapeError, r"or a flat tensor.*got \[2\]", [params, grads, [torch.zeros(5)], moments_2])
    refused(ArgumentError, "moments_2 for 2 parameters, got more", [params, grads, moments_1, [torch.zeros(8)]])
    refused(ArgumentError, "moments_1 for 2 parameters, got 1", [params, grads, moments_1[:1], moments_2])


def test_empty_list_changes_nothing() -> None:
    before = native_status().calls["adamw_step_"]
    adamw_step_([], [], [], [], times=[], lr=0.1)
    assert native_status().calls["adamw_step_"] == before


@TORCH_WARNS
def test_compiled_step_changes_parameters_in_place() -> None:
    torch.compiler.reset()
    ours, theirs = lists((5,), (3, 3)), lists((5,), (3, 3))
    for one, other in zip(ours, theirs, strict=True):
        for source, target in zip(one, other, strict=True):
            target.copy_(source)

    @torch.no_grad()
    def step(params: list[Tensor], grads: list[Tensor], moments_1: list[Tensor], moments_2: list[Tensor]) -> None:
        adamw_step_(params, grads, moments_1, moments_2, times=[2, 2], lr=0.1)

    before = native_status().calls["adamw_step_"]
    torch.compile(step, fullgraph=True)(*ours)
    assert native_status().calls["adamw_step_"] == before + 1
    step(*theirs)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    assert all(tensor._version > 0 for tensor in ours[0])


def refused(error: type[Exception], match: str, arguments: list[list[Tensor]], times: list[int] | None = None) -> None:
    """The step is refused with this message, and changes nothing, not even the tensors before the wrong one."""
    before = [[tensor.clone() for tensor in tensors] for tensors in arguments]
    with torch.no_grad(), pytest.raises(error, match=match):
        adamw_step_(*arguments, times=times or [1] * len(arguments[0]), lr=0.1)
    torch.testing.assert_close(arguments, before, rtol=0, atol=0)


def test_lists_of_different_lengths() -> None:
    arguments = lists((3,), (4,))
    refused(
        ArgumentError,
        "expected 2 grads, one for each parameter, got 1",
        [arguments[0], arguments[1][:1], *arguments[2:]],
    )
    refused(ArgumentError, "expected 2 times", arguments, [1])
    refused(ArgumentError, "expected 0 grads", [[], *arguments[1:]])


def test_wrong_time() -> None:
    refused(ArgumentError, r"times\[1\] >= 1", lists((3,), (4,)), [1, 0])


def test_wrong_dtype() -> None:
    arguments = lists((3,), (4,))
    arguments[1][1] = arguments[1][1].double()
    refused(DTypeError, r"grads\[1\] of dtype float32, got float64", arguments)
    arguments = lists((3,), (4,))
    arguments[2][1] = arguments[2][1].half()
    refused(DTypeError, r"moments_1 of params\[1\] of dtype float32 or bfloat16 or int8, got float16", arguments)
    refused(DTypeError, r"params\[0\] of dtype .*, got complex64", lists((3,), dtype=torch.complex64))


def test_expanded_parameter() -> None:
    arguments = lists((3,), (4, 2))
    arguments[0][1] = torch.zeros(1, 2).expand(4, 2)
    refused(ArgumentError, r"params\[1\] with memory of its own.*clone", arguments)


def test_wrong_device() -> None:
    arguments = lists((3,), (4,))
    arguments[0][1] = torch.empty(4, device="meta")
    with torch.no_grad(), pytest.raises(DeviceError, match=r"params\[1\] on cpu, got meta"):
        adamw_step_(*arguments, times=[1, 1], lr=0.1)
    with FakeTensorMode():
        fakes = [[torch.empty(3, device="mps")] for _ in range(4)]
        with pytest.raises(DeviceError, match="cpu or cuda device, got mps"):
            adamw_step_(*fakes, times=[1], lr=0.1)
