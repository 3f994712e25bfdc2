"""Rows of the section "Tensors and backends": what Burn does, by running it, and what burnlike does instead."""

import math
from typing import Any

import pytest
import torch

from burnlike import Cpu, Tensor
from burnlike.tensor import Slice

from .rows import ELSEWHERE, row
from .running import ask
from .tensor_cases import Answer, Case, asked, burns, mine

NAN = math.nan


def both(
    op: str, *args: Any, kind: str = "Float", grad: bool = False, rank: int | None = None
) -> tuple[Answer, Answer]:
    """burnlike's answer and Burn's."""
    case = Case(op, [*args], kind, grad, rank=rank)
    ours = mine(case)
    return ours, burns(ask("tensors", [asked(case, ours)])[0])


def numbers(answer: Answer) -> Any:
    """The numbers of the first result."""
    assert answer.refused is None, answer
    return answer.outs[0].flatten().tolist()


def slopes(answer: Answer) -> Any:
    """The gradient of the first leaf."""
    assert answer.grads, answer
    return answer.grads[0].flatten().tolist()


@row("`max_dim`, `sort`, `topk` and others: equal elements")
def _() -> None:
    ours, theirs = both("argtopk", torch.tensor([1.0, 3.0, 3.0]), 3, 0)
    assert numbers(ours) == [1, 2, 0]
    assert theirs.refused


@row("Int powers with a negative exponent")
def _() -> None:
    ours, theirs = both("powi_scalar", torch.tensor([5, 1, -1]), -1, kind="Int")
    assert numbers(ours) == [0, 1, -1]
    assert theirs.refused or numbers(theirs)[0] == 1851100499643518157


@row("Means of Int types below 64 bits")
def _() -> None:
    ours, theirs = both("mean", torch.tensor([100, 100, 100], dtype=torch.int8), kind="Int")
    assert numbers(ours) == [100]
    assert theirs.refused or numbers(theirs) != [100]


@row("`quantize`, `quantize_dynamic`")
def _() -> None:
    x = torch.tensor([-3.0, 1.0, 2.0])
    ours, theirs = both("quantization.quantize_dynamic", x, {"value": "Q8F", "block": None})
    assert numbers(ours) == pytest.approx(numbers(theirs))


@row("`fmod_scalar`")
def _() -> None:
    ours, theirs = both("fmod_scalar", torch.tensor([1e10]), 3.0)
    assert (numbers(ours), numbers(theirs)) == ([1.0], [0.0])


@row("`categorical`")
def _() -> None:
    ours, theirs = both("categorical", torch.tensor([[-1.0, 2.0]]), 2)
    assert ours.refused
    assert theirs.refused is None


@row("`cov`")
def _() -> None:
    ours, theirs = both("cov", torch.tensor([[1.0, 2.0], [3.0, 5.0]]), 1, 3)
    assert ours.refused
    assert theirs.refused is None or "overflow" in theirs.refused


@row("Norms")
def _() -> None:
    ours, theirs = both("linalg.l2_norm", torch.zeros(1, 2), 1, grad=True)
    assert slopes(ours) == [0.0, 0.0]
    assert all(math.isnan(it) for it in slopes(theirs))
    ours, theirs = both("linalg.l2_norm", torch.full((1, 2), 300.0, dtype=torch.float16), 1)
    assert numbers(ours) == pytest.approx([424.25])
    assert numbers(theirs) == [math.inf]


@row("`linalg.det` of a singular matrix")
def _() -> None:
    singular = torch.diag(torch.tensor([1.0, 2.0, 3.0, 0.0]))[None]
    ours, theirs = both("linalg.det", singular, grad=True, rank=1)
    assert slopes(ours)[-1] == pytest.approx(-6.0)
    assert slopes(theirs)[-1] == 0.0


@row("`rfft`, `irfft` and `cfft` of length 1")
def _() -> None:
    ours, _ = both("signal.rfft", torch.tensor([[2.5]]), 1, None)
    assert numbers(ours) == [2.5]


@row("`linalg.qr`, `linalg.svd`")
def _() -> None:
    x = torch.tensor([[2.0, -1.0], [1.0, 3.0], [0.5, 1.0]])
    ours, theirs = both("linalg.qr", x, True)
    for left, right in zip(ours.outs, theirs.outs, strict=True):
        assert torch.allclose(left.abs(), right.abs(), atol=1e-5)
    ours, theirs = both("linalg.svd", x, 20)
    assert torch.allclose(ours.outs[1], theirs.outs[1], atol=1e-4)


@row("`affine_grid_2d` with a size of 1")
def _() -> None:
    ours, theirs = both("grid.affine_grid_2d", torch.eye(2, 3)[None], [1, 1, 1, 2])
    assert numbers(ours) == [-1.0, 0.0, 1.0, 0.0]
    assert any(math.isnan(it) for it in numbers(theirs))


@row("`grid_sample_2d`")
def _() -> None:
    ours, theirs = both("grid_sample_2d", torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), "Bicubic", "Border", False)
    assert numbers(ours) == [1.0]
    assert theirs.refused


@row("Derivatives where a function has a kink: `leaky_relu`, `prelu`, `selu` at 0, `hard_swish` at -3 and 3")
def _() -> None:
    # The weight of the gradient is -1.
    for name, args in (("leaky_relu", [0.2]), ("prelu", [torch.tensor([0.2])]), ("selu", [])):
        ours, theirs = both(f"activation.{name}", torch.zeros(1), *args, grad=True)
        assert slopes(ours) != pytest.approx(slopes(theirs))
    for place in (-3.0, 3.0):
        ours, theirs = both("activation.hard_swish", torch.tensor([place]), grad=True)
        assert slopes(ours) != pytest.approx(slopes(theirs))


@row("Derivatives of `powf` with base 0 and of `atan2(0, 0)`")
def _() -> None:
    ours, theirs = both("powf", torch.zeros(1), torch.full((1,), 2.0), grad=True)
    assert ours.grads
    assert theirs.grads
    assert math.isnan(theirs.grads[1].item())
    assert ours.grads[1].item() == 0.0
    ours, theirs = both("powf_scalar", torch.zeros(1), -2.0, grad=True)
    assert math.isnan(slopes(theirs)[0])
    assert slopes(ours) == [math.inf]
    ours, theirs = both("atan2", torch.zeros(1), torch.zeros(1), grad=True)
    assert math.isnan(slopes(theirs)[0])
    assert not math.isnan(slopes(ours)[0])


@row("A bound of `clamp` that is NaN")
def _() -> None:
    x = torch.tensor([1.0])
    ours, theirs = both("clamp_min", x, NAN, grad=True)
    assert math.isnan(numbers(ours)[0])
    assert numbers(theirs) == [1.0]
    ours, theirs = both("clamp", x, 2.0, -2.0)
    assert numbers(ours) == [2.0]
    assert theirs.refused


@row("Derivative of `max_abs_norm` and `min_abs_norm` at equal elements")
def _() -> None:
    ours, theirs = both("linalg.max_abs_norm", torch.tensor([[2.0, 2.0]]), 1, grad=True)
    assert slopes(ours) == [-0.5, -0.5]
    assert sorted(slopes(theirs)) == [-1.0, 0.0]


@row("Tensors of u16, u32 and u64")
def _() -> None:
    ours, theirs = both("sub", *[torch.tensor([3], dtype=torch.uint32)] * 2, kind="Int")
    assert ours.refused or numbers(ours) == [0]
    assert numbers(theirs) == [0]
    ours, theirs = both("max", torch.tensor([3], dtype=torch.uint16), kind="Int")
    assert ours.refused or ours.fault
    assert numbers(theirs) == [3]


@row("Texts of slices")
def _() -> None:
    for text in ("-1", "1..=-1"):
        assert Tensor(torch.arange(6), Cpu()).slice([Slice.parse(text)]).inner.tolist()[-1] == 5
        _, theirs = both("slice.parse", text, 6)
        assert theirs.outs[0][3] == 0
    ours, theirs = both("slice.parse", "1 .. 3", 6)
    assert ours.refused is None
    assert theirs.refused


@row("`from_floats`, `from_ints`")
def _() -> None:
    x = torch.tensor([0.1], dtype=torch.float64)
    assert Tensor.from_floats([0.1], Cpu(float=torch.float64)).inner.item() == 0.1
    _, theirs = both("from_floats", x)
    assert theirs.outs[0].dtype is torch.float32


@row("A fraction, NaN, or a number outside of the dtype beside an Int tensor")
def _() -> None:
    ours, theirs = both("add_scalar", torch.tensor([1], dtype=torch.int8), 300, kind="Int")
    assert ours.refused
    assert theirs.refused is None or "overflow" in theirs.refused


@row("Comparing an Int tensor with a number outside of its dtype")
def _() -> None:
    ours, theirs = both("equal_scalar", torch.tensor([44], dtype=torch.uint8), 300, kind="Int")
    assert ours.refused
    assert theirs.refused is None


@row("`gelu`")
def _() -> None:
    infinite = torch.tensor([math.inf, 1.0])
    ours, theirs = both("activation.gelu", infinite)
    assert numbers(theirs)[0] == math.inf
    assert numbers(ours)[0] == pytest.approx(torch.nn.functional.gelu(infinite)[0].item(), nan_ok=True)
    assert math.isnan(numbers(ours)[0]) or torch.backends.cpu.get_cpu_capability() != "AVX512"
    x = torch.tensor([0.7, -1.3], dtype=torch.float64, requires_grad=True)
    torch.nn.functional.gelu(x).backward(torch.tensor([-1.0, 0.75], dtype=torch.float64))
    assert x.grad is not None
    for answer in both("activation.gelu", x.detach().float(), grad=True):
        assert slopes(answer) == pytest.approx(x.grad.tolist(), rel=1e-5)


@row("`Tolerance.strict`")
def _() -> None:
    zero, small = torch.zeros(1, dtype=torch.float16), torch.tensor([1e-5], dtype=torch.float16)
    ours, theirs = both("data.assert_approx_eq", zero, small, "strict")
    assert ours.refused
    assert theirs.refused is None


@row("Display")
def _() -> None:
    ours, theirs = both("display", torch.tensor([1.0]))
    assert "backend:" in ours.outs[0]
    assert "backend:" not in theirs.outs[0]


ELSEWHERE.update(
    {
        "Names that torch's tensors have as attributes": (
            "tests/tensor/inspection/test_metadata.py::test_what_a_tensor_is"
        ),
        "Operators": "tests/tensor/arithmetic/test_numeric.py::test_operators_stand_for_the_methods",
        "`backward()`": (
            "tests/tensor/inspection/test_gradients_and_grad.py::test_gradients_that_are_dropped_stay_in_grad"
        ),
        "Gradients taken out of a container after DDP's `no_sync()`": (
            "tests/backend/test_distributed.py::test_loops_end_with_the_weights_of_torchs_own"
        ),
        "Memory handed to others": (
            "tests/tensor/torch_bridge/test_interop.py::test_numpy_reads_without_a_copy_and_without_writing"
        ),
        "`x[...]`": "tests/tensor/torch_bridge/test_interop.py::test_what_a_tensor_does_not_do_names_what_does",
        "Operations inside `torch.autocast`": (
            "tests/tensor/torch_bridge/test_interop.py::test_autocast_follows_torchs_promotion"
        ),
        "`try_...` methods": "tests/tensor/inspection/test_reading.py::test_the_try_forms_return_the_error",
        "`inplace`, `extract`, `can_mut`": (
            "tests/tensor/inspection/test_metadata.py::test_burns_ownership_calls_change_nothing"
        ),
        "The default Int type": "tests/backend/test_backend.py::test_creation_takes_the_backends_element_types",
        "`cast` with a torch dtype or a name": (
            "tests/tensor/creation/test_conversion.py::test_a_cast_is_the_same_in_a_graph_and_under_vmap"
        ),
        "`to_full_precision`, `from_full_precision`": (
            "tests/backend/test_backend.py::test_full_precision_widens_halves_only"
        ),
        "Gradient checkpointing": (
            "tests/tensor/inspection/test_autodiff.py::test_checkpoint_recomputes_and_gives_the_same_gradients"
        ),
        "A backend's types of tensors": "tests/backend/test_any_backend.py::test_a_model_trains_to_the_same_numbers",
        "Derivatives over a backend of one's own": (
            "tests/backend/test_derivatives.py::test_a_function_that_torch_has_not_is_named"
        ),
        "Layers of `torch.nn` over a backend of one's own": (
            "tests/backend/torch_calls/test_torch_layers.py::test_a_layer_that_is_left_out_is_refused_by_name"
        ),
        "An optimizer's update over a backend of one's own": (
            "tests/backend/test_any_backend.py::test_a_model_trains_to_the_same_numbers"
        ),
        "Asynchronous kernels": "tests/backend/test_backend.py::test_sync_waits_for_the_backends_device",
        "Gradients of distributed tensors": (
            "tests/backend/test_distributed.py::test_two_processes_equal_the_joined_batch"
        ),
        "Gradient of an update by `Mul` where an index stands twice": (
            "tests/tensor/shape/test_scattering.py::test_the_product_of_several_values_is_differentiable_twice"
        ),
        "Names of layer functions' options": "tests/tensor/core/test_options.py::test_builders_make_new_options",
        "Slices": "tests/tensor/shape/test_indexing.py::test_forms_of_the_same_slice",
        "`to_device` of a tensor": (
            "tests/tensor/inspection/test_metadata.py::test_a_backend_that_does_not_track_gets_no_history"
        ),
        "`into_data_async` and the like": (
            "tests/tensor/inspection/test_reading.py::test_the_async_forms_give_the_same"
        ),
        "Schemes of quantization": "tests/tensor/creation/test_quantization.py::test_what_does_not_fit_is_refused",
        "`TensorData`, `Slice`": "tests/tensor/host/test_data.py::test_json_has_burns_form_and_comes_back",
        "`triu_mask`, `tril_mask`, `diag_mask` of rank 1": (
            "tests/tensor/shape/test_masks.py::test_triangular_masks_have_leading_dimensions_of_size_1"
        ),
    }
)
