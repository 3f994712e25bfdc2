"""A tensor that does not fit an op is refused by its name: of each op with an example, and each of its tensors."""

import inspect

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from burnlike import ops
from burnlike.errors import DeviceError, DTypeError, ShapeError
from burnlike.ops._example import examples

EXAMPLES = examples()
PLACES = [
    pytest.param(op, place, argument, id=f"{op}-{argument}")
    for op, example in EXAMPLES.items()
    for place, argument in enumerate([*inspect.signature(getattr(ops, op)).parameters][: len(example.words)])
]
AFTER_THE_FIRST = [it for it in PLACES if it.values[1]]


def call_with(op: str, place: int, other: Tensor) -> None:
    """The example's call, with another tensor at this place."""
    inputs = EXAMPLES[op].inputs("cpu")
    inputs[place] = other
    EXAMPLES[op].call(*inputs)


@pytest.mark.parametrize(("op", "place", "argument"), PLACES)
def test_another_dtype_is_named(op: str, place: int, argument: str) -> None:
    tensor = EXAMPLES[op].inputs("cpu")[place]
    words = rf"{op}: expected {argument} of dtype \w+.*, got int32; convert it with {argument}\.to\(torch\."
    with pytest.raises(DTypeError, match=words):
        call_with(op, place, tensor.detach().int())


@pytest.mark.parametrize(("op", "place", "argument"), AFTER_THE_FIRST)
def test_another_float_is_named(op: str, place: int, argument: str) -> None:
    tensor = EXAMPLES[op].inputs("cpu")[place]
    with pytest.raises(DTypeError, match=rf"{op}: expected {argument} of dtype \w+.*, got float64; convert it"):
        call_with(op, place, tensor.detach().double())


@pytest.mark.parametrize(("op", "place", "argument"), AFTER_THE_FIRST)
def test_another_device_is_named(op: str, place: int, argument: str) -> None:
    tensor = EXAMPLES[op].inputs("cpu")[place]
    with pytest.raises(DeviceError, match=f"{op}: expected {argument} on cpu, got meta; move it"):
        call_with(op, place, tensor.to("meta"))


@pytest.mark.parametrize(("op", "place", "argument"), AFTER_THE_FIRST)
@pytest.mark.parametrize("change", ["shorter", "one more dimension"])
def test_another_shape_is_named(op: str, place: int, argument: str, change: str) -> None:
    tensor = EXAMPLES[op].inputs("cpu")[place].detach()
    other = tensor[..., :-1] if change == "shorter" else tensor[None]
    with pytest.raises(
        ShapeError, match=rf"{op}: expected .*\b{argument}\b.*, got .*\[{', '.join(map(str, other.shape))}\]"
    ):
        call_with(op, place, other)


@pytest.mark.parametrize("op", EXAMPLES)
def test_a_scalar_is_refused(op: str) -> None:
    with pytest.raises(ShapeError, match=f"{op}: expected"):
        call_with(op, 0, torch.tensor(1.0, dtype=EXAMPLES[op].inputs("cpu")[0].dtype))


@pytest.mark.parametrize("op", sorted({*EXAMPLES} - {"attention"}))  # which is torch's own on such devices
def test_a_device_without_kernels_is_refused_with_the_name_of_the_reference(op: str) -> None:
    with FakeTensorMode():
        inputs = [torch.empty(it.shape, dtype=it.dtype, device="mps") for it in EXAMPLES[op].inputs("meta")]
        with pytest.raises(DeviceError, match=rf"cpu or cuda device, got mps.*{op}_reference"):
            EXAMPLES[op].call(*inputs)
