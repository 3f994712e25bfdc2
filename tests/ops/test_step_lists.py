"""Arguments of steps that are refused: with a message that names them, and before anything is changed."""

import pytest
import torch
from torch import nn

from burnlike.errors import ArgumentError, AutodiffError, BurnlikeError, DeviceError, DTypeError, ShapeError
from burnlike.ops import StepOptions

from .steps import Lists, assert_same, clones, step, step_lists

RULES = ("adamw", "sgd", "lion")
FIRST = {"adamw": "moments_1", "sgd": "velocities", "lion": "moments"}
SCALES = {"adamw": "scales_1", "sgd": "scales", "lion": "scales"}
SHAPES = ((3,), (4, 2))


def refused(
    rule: str, error: type[BurnlikeError], match: str, lists: Lists, options: StepOptions | None = None
) -> None:
    """The step is refused with this message, and changes nothing, not even the tensors before the wrong one."""
    before = clones(lists)
    with torch.no_grad(), pytest.raises(error, match=match):
        step(rule, lists, options)
    assert_same(lists, before)


@pytest.mark.parametrize("rule", RULES)
def test_gradients(rule: str) -> None:
    name = f"{rule}_step_: expected "
    lists = step_lists(rule, shapes=SHAPES)
    refused(rule, ArgumentError, f"{name}2 grads, .* got 1", lists | {"grads": lists["grads"][:1]})
    for error, match, grad in (
        (ShapeError, r"grads\[1\] of shape \[4, 2\], got \[8\]", torch.ones(8)),
        (DTypeError, r"grads\[1\] of dtype float32, got float64", torch.ones(4, 2, dtype=torch.float64)),
    ):
        refused(rule, error, name + match, lists | {"grads": [lists["grads"][0], grad]})
    on_meta = lists | {"grads": [lists["grads"][0], torch.ones(4, 2, device="meta")]}
    with pytest.raises(DeviceError, match=r"grads\[1\] on cpu, got meta"):
        step(rule, on_meta)


@pytest.mark.parametrize("rule", RULES)
def test_expanded_gradients_are_refused_only_to_be_zeroed(rule: str) -> None:
    lists = step_lists(rule, shapes=SHAPES)
    lists["grads"][1] = torch.ones(4, 1).expand(4, 2)
    match = r"grads\[1\] with memory of its own, got an expanded tensor"
    refused(rule, ArgumentError, match, lists, StepOptions(zero_grads=True))
    plain = clones(lists)
    step(rule, lists)
    step(rule, plain)
    assert_same(lists, plain)


@pytest.mark.parametrize("rule", RULES)
def test_moments(rule: str) -> None:
    key = FIRST[rule]
    lists = step_lists(rule, shapes=SHAPES)
    first = lists[key][0]
    for error, match, moments in (
        (ArgumentError, f"expected {key} for 2 parameters, got 1", [first]),
        (ArgumentError, f"expected {key} for 2 parameters, got more", [first, torch.ones(4, 2), torch.ones(1)]),
        (ShapeError, rf"{key} of params\[1\] of shape \[4, 2\], or a flat.*got \[2, 4\]", [first, torch.ones(2, 4)]),
        (DTypeError, rf"{key} of params\[1\] of dtype float32 or bfloat16", [first, torch.ones(4, 2).half()]),
        (ArgumentError, rf"{key} of params\[1\] with memory", [first, torch.ones(1, 2).expand(4, 2)]),
    ):
        refused(rule, error, match, lists | {key: moments})


@pytest.mark.parametrize("rule", RULES)
def test_codes_and_scales(rule: str) -> None:
    key, scales_key = FIRST[rule], SCALES[rule]
    lists = step_lists(rule, moments="8bit", shapes=SHAPES)
    first, second = lists[scales_key]
    for error, match, scales in (
        (ArgumentError, f"expected 2 {scales_key}, one for each of {key} in 8 bits, got 1", [first]),
        (ArgumentError, f"expected 2 {scales_key}, .* got 3", [first, second, second]),
        (ShapeError, rf"{scales_key}\[1\] of shape \[1\], got \[2\]", [first, torch.ones(2)]),
        (DTypeError, rf"{scales_key}\[1\] of dtype float32, got float64", [first, second.double()]),
    ):
        refused(rule, error, match, lists | {scales_key: scales})
    unsigned = [codes.view(torch.uint8) for codes in lists[key]]
    refused(rule, DTypeError, rf"{key} of params\[0\] of dtype .* or int8, got uint8", lists | {key: unsigned})
    packed = torch.zeros(11, dtype=torch.int8)
    refused(rule, ShapeError, rf"{key} of params\[0\] of shape \[3\], got \[11\]", lists | {key: [packed]})


def test_scales_without_codes() -> None:
    lists = step_lists("lion", shapes=SHAPES)
    refused("lion", ArgumentError, "expected 0 scales", lists | {"scales": [torch.ones(1)]})
    plain = {key: tensors for key, tensors in step_lists("sgd", shapes=SHAPES).items() if key != "velocities"}
    refused("sgd", ArgumentError, "expected 0 scales", plain | {"scales": [torch.ones(1)]})


def test_largest_second_moments_in_8_bits() -> None:
    lists = step_lists("adamw", shapes=SHAPES)
    codes = [torch.zeros(shape, dtype=torch.uint8) for shape in SHAPES]
    refused("adamw", DTypeError, "max_moments_2 of params.* got uint8", lists | {"max_moments_2": codes})


@pytest.mark.parametrize("rule", RULES)
def test_options(rule: str) -> None:
    lists = step_lists(rule, shapes=SHAPES)
    three = torch.ones(3, dtype=torch.float64)
    copies = [torch.zeros(3).bfloat16(), torch.zeros(4, 2).bfloat16()]
    for error, match, options in (
        (ShapeError, r"factors of shape \[1\] or \[\] or \[2\], got \[3\]", {"factors": three}),
        (DTypeError, "factors of dtype float64, got float32", {"factors": three[:2].float()}),
        (ArgumentError, "factors to be contiguous", {"factors": three[::2]}),
        (DeviceError, "factors on cpu, got meta", {"factors": three[:2].to("meta")}),
        (ShapeError, r"skip of shape \[1\] or \[\], got \[3\]", {"skip": three.float()}),
        (DTypeError, "skip of dtype float32, got bool", {"skip": torch.tensor(True)}),
        (ShapeError, r"skipped of shape \[1\] or \[\], got \[3\]", {"skipped": three}),
        (DTypeError, "skipped of dtype float64, got int64", {"skipped": torch.tensor(2)}),
        (ArgumentError, "expected 2 copies, one for each parameter, got 1", {"copies": copies[:1]}),
        (ShapeError, r"copies\[1\] of shape \[4, 2\], got \[3\]", {"copies": [copies[0], copies[0]]}),
        (DTypeError, r"copies\[1\] of dtype .*, got float64", {"copies": [copies[0], copies[1].double()]}),
        (ArgumentError, r"copies\[1\] with memory", {"copies": [copies[0], copies[1][:1].expand(4, 2)]}),
    ):
        refused(rule, error, match, lists, StepOptions(**options))
    assert all((copy == 0).all() for copy in copies)


@pytest.mark.parametrize("rule", RULES)
def test_written_tensors_that_require_grad(rule: str) -> None:
    lists = step_lists(rule, shapes=SHAPES)
    for key in lists.keys() - {"grads"}:
        tracked = lists | {key: [lists[key][0], nn.Parameter(lists[key][1])]}
        with pytest.raises(AutodiffError, match=r"torch.no_grad\(\)"):
            step(rule, tracked)
    tracked = lists | {"grads": [grad.clone().requires_grad_() for grad in lists["grads"]]}
    step(rule, tracked)
    with pytest.raises(AutodiffError, match=r"torch.no_grad\(\)"):
        step(rule, tracked, StepOptions(zero_grads=True))
