"""Each case of the table: its numbers, and the layer in torch's world."""

import copy
import inspect
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from burnlike import Autodiff, Cpu, Tensor as Typed
from burnlike.errors import ShapeError
from burnlike.module import display, params
from burnlike.nn.tensor_source import whole
from burnlike.record import NamedMpkFileRecorder, init_from, load, save

from .cases import CASES, COUNTERPARTS, Case, first_of_each, made_by, tensors_of

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
# The layer as a whole is shown by its first case; its options are slow tests.
each_layer = pytest.mark.parametrize("case", [first_of_each(case) for case in CASES])
each_traced_layer = pytest.mark.parametrize("case", [first_of_each(case, pytest.mark.weekly) for case in CASES])


def run(layer: Callable[..., Any], case: Case, change: Callable[[Tensor], Any] = lambda tensor: tensor) -> Any:
    """The output of `layer` for the case's inputs, tensors as `change` makes them."""
    inputs, named = case.drawn()
    return layer(*(changed(it, change) for it in inputs), **{name: changed(it, change) for name, it in named.items()})


def changed(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """`value` with its tensors, also those in a named tuple, as `change` makes them."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(changed(it, change) for it in value))
    return change(value) if isinstance(value, Tensor) else value


def skip_where_not(case: Case, driver: str) -> None:
    if driver in case.not_in:
        pytest.skip(case.not_in[driver])


def expect_equal(found: Any, expected: Any, rtol: float = 1e-12, atol: float = 1e-12) -> None:
    found, expected = tensors_of(found), tensors_of(expected)
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol)


def weighted(output: Any) -> Tensor:
    """A number that every element of every floating-point output is part of, each in its own way."""
    floating = [it for it in tensors_of(output) if it.is_floating_point()]
    return sum((it.flatten() * torch.arange(1, it.numel() + 1).sin().to(it)).sum() for it in floating)  # pyright: ignore


def leaf(tensor: Tensor) -> Tensor:
    return tensor.clone().requires_grad_() if tensor.is_floating_point() else tensor


def with_gradients(layer: Callable[..., Any], case: Case, inputs: list[Tensor]) -> Any:
    """The output of `layer`, its inputs' gradients after the backward pass in `inputs`."""

    def noted(tensor: Tensor) -> Tensor:
        made = leaf(tensor)
        inputs.append(made)
        return made

    output = run(layer, case, noted)
    loss = weighted(output)
    if loss.requires_grad:
        loss.backward()
    return output


@each_case
def test_numbers_and_gradients_are_those_of_the_reference(case: Case) -> None:
    layer = case.layer()
    expected_layer: Any = copy.deepcopy(layer)
    inputs: list[Tensor] = []
    expected_inputs: list[Tensor] = []
    output = with_gradients(layer, case, inputs)
    if case.reference is not None:
        reference = case.reference
        expected = with_gradients(
            lambda *args, **named: reference(expected_layer, *args, **named), case, expected_inputs
        )
        expect_equal(output, expected)
        expected_grads = {param.path: param.tensor.grad for param in params(expected_layer)}
    else:
        twin = COUNTERPARTS[type(layer).__name__].of(layer)
        state = {param.path: param.tensor.detach() for param in params(layer)}
        theirs = twin.build(layer, torch.device("cpu")).double().train(case.train)
        missing, unexpected = theirs.load_state_dict(made_by(twin.recipes(state), state), strict=False)
        assert not unexpected
        assert set(missing) <= {*twin.ignored, *twin.constants.values()}
        expected = with_gradients(
            lambda *args, **named: case.torch_output(theirs(*case.torch_inputs(*args, **named))), case, expected_inputs
        )
        expect_equal(output, expected)
        grads = {name: it.grad for name, it in theirs.named_parameters() if it.grad is not None}
        expected_grads = made_by(whole(twin.places(grads)), grads)
    for one, other in zip(inputs, expected_inputs, strict=True):
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-12, atol=1e-12)
    for param in params(layer):
        expected_grad = expected_grads.get(param.path)
        assert (param.tensor.grad is None) == (expected_grad is None), param.path
        if expected_grad is not None:
            torch.testing.assert_close(param.tensor.grad, expected_grad, rtol=1e-12, atol=1e-12)


@each_layer
def test_typed_tensors_give_the_same(case: Case) -> None:
    skip_where_not(case, "typed")
    layer = case.layer()
    for backend in (Cpu(), Autodiff(Cpu())):
        torch.manual_seed(2)
        found = run(layer, case, lambda tensor, backend=backend: Typed(tensor, backend))
        torch.manual_seed(2)
        with torch.set_grad_enabled(backend.name.startswith("autodiff")):  # some of torch's kernels differ in rounding
            expected = run(layer, case)
        found_tensors = typed_tensors_of(found)
        assert len(found_tensors) == len(tensors_of(expected))
        for typed, plain in zip(found_tensors, tensors_of(expected), strict=True):
            assert typed.inner.requires_grad == plain.requires_grad
            torch.testing.assert_close(typed.inner.detach().reshape(plain.shape), plain.detach(), rtol=0, atol=0)


def typed_tensors_of(output: Any) -> list[Any]:
    if isinstance(output, Typed):
        return [output]
    return [it for item in output for it in typed_tensors_of(item)] if isinstance(output, tuple | list) else []


@each_traced_layer
def test_it_compiles_to_one_graph(case: Case) -> None:
    skip_where_not(case, "compile")
    layer = case.layer()
    torch._dynamo.reset()
    torch.manual_seed(2)
    expected = run(copy.deepcopy(layer), case)
    torch.manual_seed(2)
    found = run(torch.compile(layer, fullgraph=True, backend="eager"), case)
    expect_equal(found, expected)


def limits_of(program: Any) -> list[str]:
    """The guards by which a program refuses sizes above those of an example, as where a faster op begins."""
    return [it for it in program._guards_code if any(int(number) >= 100 for number in re.findall(r"\d+", it))]


@each_traced_layer
def test_it_can_be_exported(case: Case) -> None:
    skip_where_not(case, "export")
    layer = case.layer().eval()
    inputs, named = case.drawn()
    shown, attributes = display(layer), {*vars(layer)}
    takes_several = any(it.kind is it.VAR_POSITIONAL for it in inspect.signature(layer.forward).parameters.values())
    is_single = not named and not takes_several and len(inputs) == 1 and isinstance(inputs[0], Tensor)
    sizes = (dict.fromkeys(range(inputs[0].dim()), Dim.AUTO),) if is_single else None
    program = torch.export.export(layer, inputs, named, dynamic_shapes=sizes)
    expect_equal(program.module()(*inputs, **named), layer(*inputs, **named))
    assert limits_of(program) == []
    assert (display(layer), {*vars(layer)}) == (shown, attributes)


# torch has no batching rule for some fused functions, and says that its fallback is slow.
@pytest.mark.filterwarnings("ignore:There is a performance drop")
@each_layer
def test_vmap_over_inputs(case: Case) -> None:
    skip_where_not(case, "vmap")
    layer = case.layer().eval()
    inputs, named = case.drawn()
    twice = [torch.stack((it, it.flip(0) if it.ndim else it)) if isinstance(it, Tensor) else it for it in inputs]
    dims = tuple(0 if isinstance(it, Tensor) else None for it in inputs)
    found = torch.vmap(lambda *args: layer(*args, **named), in_dims=dims)(*twice)
    for index in range(2):
        one = [it[index] if isinstance(it, Tensor) else it for it in twice]
        expect_equal([it[index] for it in tensors_of(found)], layer(*one, **named))


@each_layer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_other_element_types(case: Case, dtype: torch.dtype) -> None:
    skip_where_not(case, str(dtype).removeprefix("torch."))
    torch.manual_seed(2)
    expected = run(case.layer(), case)
    torch.manual_seed(2)
    found = run(case.layer().to(dtype), case, lambda it: it.to(dtype) if it.is_floating_point() else it)
    rtol = 0.1 if dtype is torch.bfloat16 else 1e-4
    for one, other in zip(tensors_of(found), tensors_of(expected), strict=True):
        assert one.dtype == (dtype if other.is_floating_point() else other.dtype)
        torch.testing.assert_close(one.to(other), other, rtol=rtol, atol=rtol * float(other.detach().abs().max()))


@each_layer
def test_autocast_computes_in_bfloat16(case: Case) -> None:
    skip_where_not(case, "autocast")
    torch.manual_seed(2)
    expected = run(case.layer(), case)
    layer = case.layer().float()
    torch.manual_seed(2)
    with torch.autocast("cpu", torch.bfloat16):
        found = run(layer, case, lambda it: it.float() if it.is_floating_point() else it)
    for one, other in zip(tensors_of(found), tensors_of(expected), strict=True):
        torch.testing.assert_close(one.to(other), other, rtol=0.1, atol=0.1 * float(other.detach().abs().max()))


@each_layer
def test_copies_are_equal_and_apart(case: Case) -> None:
    layer = case.layer().eval()
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    for other in (copy.deepcopy(layer), torch.load(file, weights_only=False)):
        expect_equal(run(other, case), run(layer, case), rtol=0, atol=0)
        assert {param.path: param.id for param in params(other)} == {param.path: param.id for param in params(layer)}
        ours = {it.data_ptr() for it in layer.parameters()}
        assert ours.isdisjoint({it.data_ptr() for it in other.parameters()})


@each_layer
def test_its_record_builds_it_from_the_meta_device(case: Case, tmp_path: Path) -> None:
    layer = case.layer().eval()
    path = save(layer, tmp_path / "layer.safetensors")
    built = init_from(case.config, path, "cpu").double().eval()
    expect_equal(run(built, case), run(layer, case), rtol=0, atol=0)


@each_layer
def test_its_record_in_burns_format(case: Case, tmp_path: Path) -> None:
    layer = case.layer().float().eval()
    path = save(layer, tmp_path / "layer.mpk", recorder=NamedMpkFileRecorder())
    other = case.config.init().eval()
    load(other, path)
    assert {param.path: param.id for param in params(other)} == {param.path: param.id for param in params(layer)}
    for one, its in zip(params(other), params(layer), strict=True):
        assert torch.equal(one.tensor, its.tensor)


@pytest.mark.parametrize("case", [it for it in CASES if it.bad_shapes], ids=lambda case: case.name)
def test_shapes_that_do_not_fit_are_refused(case: Case) -> None:
    layer = case.layer()
    inputs, named = case.drawn()
    for shape in case.bad_shapes:
        with pytest.raises(ShapeError, match=type(layer).__name__):
            layer(torch.zeros(shape, dtype=torch.float64), *inputs[1:], **named)


@each_layer
def test_the_shape_of_the_output_is_known_on_the_meta_device(case: Case) -> None:
    skip_where_not(case, "meta")
    layer = case.config.init("meta").double().train(case.train)
    found = tensors_of(run(layer, case, lambda it: it.to("meta")))
    expected = tensors_of(run(case.layer(), case))
    assert [it.shape for it in found] == [it.shape for it in expected]
    assert all(it.is_meta for it in found)
