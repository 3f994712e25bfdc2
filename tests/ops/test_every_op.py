"""What every native op has to do, on every case of the table."""

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad, gradcheck, gradgradcheck

from burnlike.errors import AutodiffError
from burnlike.ops import force_cpu_isa, native_status

from ..marks import weekly
from .cases import CASES
from .op_case import TOLERANCE, OpCase, in_float64, leaves_of, on_device

# gradcheck wants float64 and inputs whose values each have a place of their own.
GRADCHECKED = [case for case in CASES if case.differentiable and case.dtype == torch.float64 and case.owns_memory]
DIFFERENTIABLE = [case for case in CASES if case.differentiable]
ON_CUDA = [case for case in CASES if not case.name.startswith("attention")]  # where attention is torch's own
# The forward pass of attention is torch's, whose bits depend on the threads in float32 and float64.
REPEATABLE = [case for case in CASES if not case.name.startswith("attention") or case.dtype.itemsize == 2]
# One of each op, form that is special to it, and dtype.
COMPILED = [
    case for case in CASES if "-odd-" in case.name or case.name.startswith(("rms_norm-strided", "adamw_step-ams"))
]
# Torch's attention has no derivative in forward mode.
TRANSFORMED = [case for case in COMPILED if case in GRADCHECKED and not case.name.startswith("attention")]
# That with bfloat16 has kernels of its own for attention alone, whose bits are others.
ISAS = [isa for isa in native_status().isas if isa != "avx512_bf16"]


@pytest.fixture(params=ISAS)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    with force_cpu_isa(request.param):
        yield request.param


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> OpCase:
    return request.param


def assert_near(case: OpCase, actual: Tensor, exact: Tensor) -> None:
    assert actual.shape == exact.shape
    assert actual.is_contiguous()
    rtol, atol = TOLERANCE[actual.dtype]
    torch.testing.assert_close(
        actual.double(), exact, rtol=rtol, atol=atol * case.distance, msg=lambda text: f"{case}: {text}"
    )


def test_native_and_reference_are_near_float64(case: OpCase) -> None:
    inputs = case.inputs()
    exact = case.reference(*in_float64(inputs))
    native, reference = case.native(*inputs), case.reference(*inputs)
    for actual, plain, expected in zip(native, reference, exact, strict=True):
        assert actual.dtype == plain.dtype
        assert_near(case, actual.contiguous(), expected)
        assert_near(case, plain.contiguous(), expected)


@pytest.mark.parametrize("case", REPEATABLE, ids=str)
def test_every_isa_and_thread_count_gives_the_same_bits(case: OpCase, isa: str) -> None:
    def outputs() -> list[Tensor]:
        if not case.differentiable:
            return list(case.native(*(tensor.clone() for tensor in case.inputs())))
        inputs, leaves = leaves_of(case.inputs())
        results = list(case.native(*inputs))
        return results + list(torch.autograd.grad(results, leaves, [torch.ones_like(it) for it in results]))

    actual = outputs()
    threads = torch.get_num_threads()
    with force_cpu_isa("default"):
        torch.set_num_threads(1)
        try:
            expected = outputs()
        finally:
            torch.set_num_threads(threads)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize(
    "case",
    # Registrations do not depend on sizes; the other forms are tried once a week.
    [case if "-odd-" in case.name else pytest.param(case, marks=pytest.mark.weekly) for case in CASES],
    ids=str,
)
def test_opcheck(case: OpCase) -> None:
    inputs = leaves_of(case.inputs())[0] if case.differentiable else case.inputs()
    torch.library.opcheck(case.raw, case.raw_arguments(inputs))


@pytest.mark.parametrize("case", GRADCHECKED, ids=str)
def test_gradcheck(case: OpCase) -> None:
    # All in float64: a float32 gamma's gradient is rounded, which finite differences don't forgive. In one random
    # direction: each element's gradient is compared by `test_gradients_are_near_those_of_float64`.
    inputs, _ = leaves_of(in_float64(case.inputs()))
    assert gradcheck(lambda *tensors: tuple(case.native(*tensors)), inputs, fast_mode=True)


@pytest.mark.parametrize(
    "case", [case for case in GRADCHECKED if "blocks" not in case.name and "wide" not in case.name], ids=str
)
def test_second_derivatives(case: OpCase) -> None:
    inputs, _ = leaves_of(in_float64(case.inputs()))
    # Squared, so that the gradients that come in depend on the inputs, too.
    assert gradgradcheck(
        lambda *tensors: tuple(it.square() for it in case.native(*tensors)), inputs, fast_mode=True, atol=1e-4
    )


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_gradients_are_near_those_of_float64(case: OpCase) -> None:
    inputs = case.inputs()
    given, leaves = leaves_of(inputs)
    exact_given, exact_leaves = leaves_of(in_float64(inputs))
    outputs, exact = case.native(*given), case.reference(*exact_given)
    # A gradient that is not contiguous, as many layers hand it down.
    seeds = [
        torch.randn(out.shape[::-1], dtype=out.dtype).permute(tuple(reversed(range(out.dim())))) for out in outputs
    ]
    actual = torch.autograd.grad(outputs, leaves, seeds)
    expected = torch.autograd.grad(exact, exact_leaves, [seed.double() for seed in seeds])
    for one, other, leaf in zip(actual, expected, leaves, strict=True):
        assert one.dtype == leaf.dtype
        rtol, atol = TOLERANCE[one.dtype]
        distance = atol * max(1, leaves[0].shape[0]) * case.distance
        torch.testing.assert_close(one.double(), other, rtol=rtol, atol=distance)


@pytest.mark.parametrize(
    "case",
    # A graph depends little on the element type.
    [*(it for it in COMPILED if "float32" in it.name), *weekly(*(it for it in COMPILED if "float32" not in it.name))],
    ids=str,
)
def test_compiles_without_graph_break(case: OpCase) -> None:
    torch.compiler.reset()
    compiled = torch.compile(case.native, fullgraph=True, backend="aot_eager")
    op = case.raw._schema.name.removeprefix("burnlike::")
    before = native_status().calls[op]
    given, leaves = leaves_of(case.inputs()) if case.differentiable else (case.inputs(), [])
    outputs = compiled(*given)
    expected = case.native(*given)
    assert native_status().calls[op] == before + 2
    torch.testing.assert_close(list(outputs), list(expected), rtol=0, atol=0)
    if case.differentiable:
        actual = torch.autograd.grad([it.sum() for it in outputs], leaves)
        torch.testing.assert_close(actual, torch.autograd.grad([it.sum() for it in expected], leaves), rtol=0, atol=0)


@pytest.mark.parametrize("compiles", [False, *weekly(True)], ids=["eager", "compiled"])
@pytest.mark.parametrize("case", TRANSFORMED, ids=str)
def test_derivatives_of_torch_func_and_forward_mode(case: OpCase, compiles: bool) -> None:
    torch.compiler.reset()
    inputs = dict(enumerate(case.inputs()))
    floats = {place: tensor for place, tensor in inputs.items() if tensor.is_floating_point()}
    leaves, tangents = (*floats.values(),), (*map(torch.randn_like, floats.values()),)

    def derivatives(function: Callable[..., Sequence[Tensor]]) -> list[Tensor]:
        def of_floats(*given: Tensor) -> tuple[Tensor, ...]:
            return tuple(function(*(inputs | dict(zip(floats, given, strict=True))).values()))

        outputs, forward = torch.func.jvp(of_floats, leaves, tangents)
        _, pull_back = torch.func.vjp(of_floats, *leaves)
        backward = pull_back(tuple(map(torch.ones_like, outputs)))
        with forward_ad.dual_level():
            duals = of_floats(*map(forward_ad.make_dual, leaves, tangents))
            in_forward_mode = [forward_ad.unpack_dual(it).tangent for it in duals]
        return [*outputs, *forward, *backward, *in_forward_mode]

    ours = torch.compile(derivatives, backend="aot_eager") if compiles else derivatives
    for actual, expected in zip(ours(case.native), derivatives(case.reference), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)


def test_inputs_have_their_strides_on_another_device() -> None:
    for case in ON_CUDA:
        for tensor in case.inputs():
            moved = on_device(tensor, "meta")
            assert (moved.shape, moved.stride()) == (tensor.shape, tensor.stride()), case


@pytest.mark.cuda
@pytest.mark.parametrize("case", ON_CUDA, ids=str)
def test_cuda_is_near_float64_and_the_cpu(case: OpCase) -> None:
    inputs = case.inputs()
    on_cuda = [on_device(tensor, "cuda:0") for tensor in inputs]
    exact = case.reference(*in_float64(inputs))
    op = "cuda:" + case.raw._schema.name.removeprefix("burnlike::")
    before = native_status().calls[op]
    outputs = case.native(*on_cuda)
    assert native_status().calls[op] == before + 1
    for actual, expected in zip(outputs, exact, strict=True):
        assert_near(case, actual.cpu().contiguous(), expected)
    if not case.differentiable:
        return
    given, leaves = leaves_of(on_cuda)
    exact_given, exact_leaves = leaves_of(in_float64(inputs))
    outputs, exact = case.native(*given), case.reference(*exact_given)
    seeds = [torch.randn(output.shape, dtype=output.dtype) for output in outputs]
    actual = torch.autograd.grad(outputs, leaves, [seed.cuda() for seed in seeds])
    expected = torch.autograd.grad(exact, exact_leaves, [seed.double() for seed in seeds])
    for one, other in zip(actual, expected, strict=True):
        rtol, atol = TOLERANCE[one.dtype]
        torch.testing.assert_close(one.cpu().double(), other, rtol=rtol, atol=atol * max(1, leaves[0].shape[0]))


@pytest.mark.cuda
@pytest.mark.parametrize("case", ON_CUDA, ids=str)
def test_opcheck_on_cuda(case: OpCase) -> None:
    inputs = [on_device(tensor, "cuda:0") for tensor in case.inputs()]
    inputs = leaves_of(inputs)[0] if case.differentiable else inputs
    torch.library.opcheck(case.raw, case.raw_arguments(inputs))


@pytest.mark.parametrize("case", [it for it in COMPILED if it.differentiable], ids=str)
def test_a_gradient_of_inputs_that_were_written_to_is_exact_or_an_error_that_names_the_op(case: OpCase) -> None:
    inputs, leaves = leaves_of(case.inputs())

    def gradients(written: int | None) -> Sequence[Tensor]:
        copies = [it.clone() if it.requires_grad else it for it in inputs]
        results = [it for it in case.native(*copies) if it.requires_grad]
        if written is not None:
            copies[written].detach().mul_(2)
        return torch.autograd.grad(results, leaves, [torch.ones_like(it) for it in results])

    expected, errors = gradients(None), list[str]()
    for place in (place for place, it in enumerate(inputs) if it.requires_grad):
        try:
            found = gradients(place)
        except AutodiffError as error:
            errors.append(str(error))
        else:
            torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert all("written to in place" in it for it in errors)
