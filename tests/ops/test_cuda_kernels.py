"""The CUDA kernels give what the CPU kernels give: on a GPU where there is one, and emulated on every machine.

The emulation is compiled first where a source has changed, which takes about 15 seconds.
"""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from burnlike.ops import StepOptions, convert_, cross_entropy, gradient_squares_
from burnlike.ops._library import DERIVATIVES

from .cases import CASES
from .cuda_emulation import OPS, emulated_ops
from .op_case import TOLERANCE, OpCase, leaves_of, on_device
from .steps import Lists, assert_same, clones, step, step_lists

# Values that a block of threads takes of one tensor.
CHUNK = 16384
# More tensors than fit into one launch of any op, some without values.
MANY = tuple((size % 7,) for size in range(1700))
RULES = ("adamw", "sgd", "lion")
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
MOMENTS = (None, torch.float32, torch.bfloat16, "8bit")


@dataclass(frozen=True)
class Kernels:
    """Where the kernels run: `calls()` is a block in which ops of tensors on `device` use them."""

    device: torch.device
    calls: Callable[[], Any]

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function with its tensors on the device and return what it returns on the CPU."""
        moved = tree_map_only(Tensor, lambda it: on_device(it, self.device), arguments)
        with self.calls():
            result = function(*moved)
        return tree_map_only(Tensor, lambda it: it.cpu(), result)


@contextmanager
def emulated() -> Iterator[None]:
    """Within the block, the functions of burnlike.ops call the emulated kernels."""
    ops = emulated_ops()
    with pytest.MonkeyPatch.context() as patch:
        for name in OPS:
            patch.setattr(*_called_op(name), getattr(ops, name).default)
        yield


def _called_op(name: str) -> tuple[Any, str]:
    """What refers to the op in the function that calls it, and by which attribute: a variable of its module or, of a
    step, of the decorator `step_op`; of a backward op also of `differentiate`."""
    forward = name.removesuffix("_backward")
    module, attribute = (
        importlib.import_module(f"burnlike.ops.{forward.removesuffix('_')}"),
        f"_{name.removesuffix('_')}",
    )
    if hasattr(module, attribute):
        return module, attribute
    run, variable = (getattr(module, name), "native") if name == forward else (DERIVATIVES[forward][0], "backward_op")
    return run.__closure__[run.__code__.co_freevars.index(variable)], "cell_contents"


@contextmanager
def on_cuda() -> Iterator[None]:
    yield


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=pytest.mark.cuda)])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    is_cuda = request.param == "cuda"
    return Kernels(torch.device(request.param if is_cuda else "cpu"), on_cuda if is_cuda else emulated)


def outcome(rule: str, lists: Lists, options: dict[str, Any], keywords: dict[str, Any]) -> tuple[Lists, list[Tensor]]:
    """What a step makes of the lists, and the copies of weights."""
    own = clones(lists)
    copies = [
        torch.full_like(param, 9.0, dtype=(torch.bfloat16, torch.float32, torch.float16)[index % 3])
        for index, param in enumerate(own["params"])
        if options.get("copies")
    ]
    settings: dict[str, Any] = options | {"copies": copies}
    step(rule, own, StepOptions(**settings), **keywords)
    return own, copies


def assert_as_on_the_cpu(
    kernels: Kernels, rule: str, lists: Lists, options: dict[str, Any] | None = None, **keywords: Any
) -> None:
    arguments = (rule, lists, options or {}, keywords)
    before = clones(lists)
    torch.testing.assert_close(kernels.run(outcome, *arguments), outcome(*arguments), rtol=0, atol=0, equal_nan=True)
    assert_same(lists, before)


@pytest.mark.parametrize("case", [case for case in CASES if not case.differentiable], ids=str)
def test_every_case_of_the_table(case: OpCase, kernels: Kernels) -> None:
    inputs = case.inputs()
    for actual, expected in zip(kernels.run(case.native, *inputs), case.native(*inputs), strict=True):
        is_sum = "squares" in case.name
        torch.testing.assert_close(actual, expected, rtol=1e-13 if is_sum else 0, atol=0)


def _differentiable() -> Iterator[Any]:
    """Cases of ops that have a derivative; the emulation takes a second for a wide one."""
    for case in CASES:
        if case.differentiable and case.raw._schema.name.split("::")[1] in OPS:
            is_long = "-wide-" in str(case) and str(case).endswith(("float64", "float16"))
            yield pytest.param(case, id=str(case), marks=[pytest.mark.slow] * is_long)


@pytest.mark.parametrize("case", list(_differentiable()))
def test_every_differentiable_case_of_the_table(case: OpCase, kernels: Kernels) -> None:
    def results_and_gradients(*inputs: Tensor) -> list[Tensor]:
        given, leaves = leaves_of(list(inputs))
        results = list(case.native(*given))
        torch.manual_seed(2)
        seeds = [torch.randn(it.shape, dtype=it.dtype, device="cpu").to(it.device) for it in results]
        return [it.detach() for it in results] + list(torch.autograd.grad(results, leaves, seeds))

    inputs = case.inputs()
    actual, expected = kernels.run(results_and_gradients, *inputs), results_and_gradients(*inputs)
    for one, other in zip(actual, expected, strict=True):
        rtol, atol = TOLERANCE[one.dtype]
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol * max(1, inputs[0].shape[0]))


@pytest.mark.parametrize("seed", [None, 5], ids=["nearest", "stochastic"])
@pytest.mark.parametrize("moments", MOMENTS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_every_storage_with_all_options(
    rule: str, dtype: torch.dtype, moments: torch.dtype | str | None, seed: int | None, kernels: Kernels
) -> None:
    torch.manual_seed(0)
    shapes = ((3, 41), (), (0,), (256,), (1029,))
    lists = step_lists(rule, dtype, moments, shapes)
    factors = torch.rand(len(shapes), dtype=torch.float64)
    options = {"grad_scale": 0.7, "factors": factors, "clip_value": 0.9, "seed": seed}
    options |= {"skip": torch.zeros(1), "copies": True, "zero_grads": True}
    assert_as_on_the_cpu(kernels, rule, lists, options)


@pytest.mark.parametrize("moments", [None, "8bit"])
@pytest.mark.parametrize("count", [CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 257])
def test_tensors_of_several_chunks(count: int, moments: str | None, kernels: Kernels) -> None:
    torch.manual_seed(0)
    assert_as_on_the_cpu(kernels, "adamw", step_lists("adamw", torch.float32, moments, ((count,), (5,), (count,))))


@pytest.mark.parametrize("rule", RULES)
def test_lists_of_several_launches_with_their_own_factors_and_times(rule: str, kernels: Kernels) -> None:
    torch.manual_seed(0)
    lists = step_lists(rule, torch.float32, torch.float32, MANY)
    keywords = {} if rule == "lion" else {"times": [1 + index % 5 for index in range(len(MANY))]}
    options = {"factors": torch.rand(len(MANY), dtype=torch.float64), "seed": 3, "copies": True}
    assert_as_on_the_cpu(kernels, rule, lists, options, **keywords)


def test_both_types_that_are_computed_in_side_by_side(kernels: Kernels) -> None:
    torch.manual_seed(0)
    first, second = (step_lists("sgd", dtype, None, ((70,), (300,))) for dtype in (torch.float64, torch.bfloat16))
    lists = {key: [*first[key], *second[key]] for key in first}
    assert_as_on_the_cpu(kernels, "sgd", lists, {"seed": 1})


@pytest.mark.parametrize("offset", [1, 2, 4])
def test_memory_that_is_not_aligned(offset: int, kernels: Kernels) -> None:
    torch.manual_seed(0)
    lists = step_lists("lion", torch.bfloat16, torch.float32, ((1500,),))
    expected = clones(lists)
    step("lion", expected, StepOptions(seed=2))

    def shifted(lists: Lists) -> Lists:
        views = {
            key: [torch.empty(2000, dtype=it.dtype, device=it.device)[offset : 1500 + offset].copy_(it) for it in list_]
            for key, list_ in lists.items()
        }
        step("lion", views, StepOptions(seed=2))
        return views

    assert_same(kernels.run(shifted, lists), expected)


def test_flat_moments_of_several_parameters(kernels: Kernels) -> None:
    torch.manual_seed(0)
    lists = step_lists("adamw", torch.float32, None, ((3, 5), (700,), (1,)))
    for key in ("moments_1", "moments_2"):
        lists[key] = [torch.cat([it.flatten() for it in lists[key]])]
    assert_as_on_the_cpu(kernels, "adamw", lists)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("moments", [None, "8bit"])
def test_skipped_step_changes_nothing_but_gradients(rule: str, moments: str | None, kernels: Kernels) -> None:
    lists = step_lists(rule, torch.bfloat16, moments, ((CHUNK + 3,), (5,)))
    options = {"skip": torch.ones(1), "seed": 1, "copies": True, "factors": torch.full((1,), torch.nan).double()}
    found, copies = kernels.run(outcome, rule, lists, options, {})
    assert_same(found, lists)
    assert all((copy == 9).all() for copy in copies)
    found, _ = kernels.run(outcome, rule, lists, options | {"zero_grads": True}, {})
    assert all((grad == 0).all() for grad in found.pop("grads"))
    assert_same(found, {key: tensors for key, tensors in lists.items() if key != "grads"})


@pytest.mark.parametrize("rule", ["adamw", "sgd"])
def test_skipped_steps_are_subtracted_on_the_device(rule: str, kernels: Kernels) -> None:
    torch.manual_seed(0)
    lists = step_lists(rule, torch.float64, None, ((700,), (5,)))
    arguments = (rule, lists, {"skipped": torch.full((1,), 4.0).double()}, {"times": [5, 9]})
    found, _ = kernels.run(outcome, *arguments)
    expected, _ = outcome(rule, lists, {}, {"times": [1, 5]})
    # Powers are not correctly rounded everywhere, and their difference to 1 has fewer digits than they.
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_block_that_is_not_finite_becomes_nan_alone(value: float, kernels: Kernels) -> None:
    lists = step_lists("lion", torch.float32, "8bit", ((600,),))
    lists["grads"][0][300] = value

    def scales(lists: Lists) -> Tensor:
        step("lion", lists)
        return lists["scales"][0]

    assert kernels.run(scales, lists).isfinite().tolist() == [True, False, True]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_losses_of_equal_rows_have_equal_bits_at_every_address(dtype: torch.dtype, kernels: Kernels) -> None:
    torch.manual_seed(0)
    row, targets = torch.randn(1031).to(dtype), torch.full((5,), 1030)

    def losses(row: Tensor, targets: Tensor, offset: int) -> Tensor:
        logits = row.new_zeros(5 * 1031 + offset)[offset:].view(5, 1031).copy_(row)
        return cross_entropy(logits, targets, label_smoothing=0.1, reduction="none")

    found = torch.cat([kernels.run(losses, row, targets, offset) for offset in range(8)])
    assert found.unique().numel() == 1


def test_losses_of_many_rows_are_added_by_several_blocks(kernels: Kernels) -> None:
    torch.manual_seed(0)
    logits, targets = torch.randn(3100, 3), torch.randint(3, (3100,))
    for reduction in ("mean", "sum"):
        found = kernels.run(partial(cross_entropy, reduction=reduction), logits, targets)
        torch.testing.assert_close(found, cross_entropy(logits, targets, reduction=reduction))


def test_a_gpu_that_nothing_was_built_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMULATED_OLD_GPU", "1")
    with emulated(), pytest.raises(RuntimeError, match=r"not built for this GPU: .*TORCH_CUDA_ARCH_LIST"):
        gradient_squares_([torch.ones(4)], torch.zeros(1, dtype=torch.float64))


def test_many_conversions_at_once(kernels: Kernels) -> None:
    sources = [torch.full(shape, 1e5) for shape in MANY] + [torch.arange(2.0 * CHUNK + 3)]

    def converted(sources: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        targets = [torch.zeros_like(it, dtype=torch.float16) for it in sources]
        lost = torch.zeros(len(sources), dtype=torch.int32, device=sources[0].device)
        convert_(targets, sources, lost)
        return targets, lost

    targets, lost = kernels.run(converted, sources)
    torch.testing.assert_close(targets, [it.half() for it in sources], rtol=0, atol=0)
    assert lost.tolist() == [int(it.numel() > 0) for it in sources[:-1]] + [0]
