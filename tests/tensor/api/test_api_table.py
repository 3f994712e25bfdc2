"""Every name of Burn's tensor API is compared with numbers: by a vector, a test of its own, or a case of `api_cases_others`."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.tensor import Transaction, set_print_options
from tests.vectors import calls
from tests.vectors.cases import run
from tests.vectors.files import read
from tools.tensor_api import groups

from .api_cases import CASES, check

importlib.import_module("tests.tensor.api.api_cases_others")

ROOT = Path(__file__).parents[3]
ROWS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "api_table.json").read_text())
NAMES = [row["name"] for row in ROWS]

# Names that burnlike spells otherwise, by design.
SPELLED = {
    "inner": "without_autodiff",
    "no_grad": "without_autodiff",
}
# Names that no vector has, by the test that compares what they give with torch or with numbers.
TESTED = {
    "arithmetic/test_float_math.py::test_functions_of_one_tensor": "log1p, acos, atan, floor, square (Float)",
    "arithmetic/test_float_math.py::test_functions_of_two_tensors": "atan2",
    "arithmetic/test_int_math.py::test_square_stays_int": "square (Int)",
    "arithmetic/test_int_math.py::test_bits_of_two_tensors_and_of_a_scalar": "bitwise_or_scalar, bitwise_left_shift",
    "arithmetic/test_numeric.py::test_vectors_have_dot_and_no_matmul": "dot",
    "arithmetic/test_numeric.py::test_pairs_ignore_nan_in_the_other_and_keep_it_in_the_receiver": "min_pair",
    "arithmetic/test_numeric.py::test_operators_stand_for_the_methods": (
        "__add__/__sub__/__mul__/__truediv__/__mod__/__neg__"
    ),
    "arithmetic/test_numeric.py::test_operators_with_a_scalar_on_the_left": "__radd__/__rsub__/__rmul__, __rtruediv__",
    "arithmetic/test_comparison.py::test_comparisons_are_element_wise_and_broadcast": (
        "equal_scalar, not_equal_scalar, greater_scalar, greater_equal_scalar, lower_scalar, lower_equal_scalar"
    ),
    "creation/test_creation.py::test_a_new_tensor_has_the_backends_dtype_for_its_kind": "empty",
    "creation/test_creation.py::test_like_keeps_shape_dtype_and_backend": "empty_like",
    "creation/test_creation.py::test_from_data_loses_no_digit_on_the_way": "from_floats, from_ints",
    "creation/test_creation.py::test_from_bool_takes_every_other_number_as_true": "from_bool",
    "creation/test_creation.py::test_random_elements_have_the_moments_of_their_distribution": "random",
    "creation/test_conversion.py::test_kinds_take_the_backends_element_types": (
        "int (Float), int (Bool), float (Int), float (Bool)"
    ),
    "creation/test_conversion.py::test_cast_follows_its_argument": "cast (Float), cast (Int), cast (Bool)",
    "creation/test_quantization.py::test_dequantized_values_are_within_half_a_step": "quantize_dynamic, dequantize",
    "creation/test_quantization.py::test_given_scales": "quantize",
    "functions/test_activation.py::test_values_and_gradients_are_those_of_torch_in_float64": (
        "activation.gelu_approximate, activation.hard_sigmoid, activation.hard_swish, activation.mish, "
        "activation.softsign, activation.tanhshrink"
    ),
    "functions/test_activation.py::test_softplus_is_the_identity_above_its_threshold": (
        "activation.softplus_with_threshold"
    ),
    "functions/test_einsum.py::test_einsum_is_torch_with_scalars_of_rank_1": "einsum",
    "functions/test_module_attention.py::test_scores_are_scaled_capped_hidden_and_biased_in_this_order": (
        "module.attention_fallback"
    ),
    "functions/test_module_conv.py::test_weight_backward_is_the_gradient_of_the_weight": (
        "module.conv2d_weight_backward"
    ),
    "functions/test_module_layers.py::test_layer_norm_is_torchs_on_the_last_dimension": "module.layer_norm",
    "functions/test_module_layers.py::test_batch_norm_by_the_batch_gives_its_biased_statistics": (
        "module.batch_norm_train"
    ),
    "functions/test_module_pool.py::test_backward_of_max_pool_is_the_gradient": (
        "module.max_pool2d_with_indices_backward"
    ),
    "functions/test_module_pool.py::test_backward_of_avg_pool_is_the_gradient": "module.avg_pool2d_backward",
    "inspection/test_autodiff.py::test_backward_gives_the_gradients_of_the_leaves_which_are_in_their_grad_too": (
        "backward, grad"
    ),
    "inspection/test_autodiff.py::test_grad_remove_takes_out_and_grad_replace_overwrites": "grad_remove, grad_replace",
    "inspection/test_autodiff.py::test_leaves_detach_and_flags": (
        "require_grad, is_require_grad, is_tracked, set_require_grad, detach, without_autodiff, inner, autodiff, "
        "from_inner, is_autodiff, no_grad"
    ),
    "inspection/test_display.py::test_options_hold_for_all_tensors": "set_print_options",
    "inspection/test_metadata.py::test_what_a_tensor_is": "rank, dtype, dims, shape, device",
    "inspection/test_metadata.py::test_a_move_to_another_backend_keeps_elements_and_dtype": "to_device",
    "inspection/test_metadata.py::test_the_method_checks_too": "assert_shape",
    "inspection/test_metadata.py::test_the_primitive_is_the_torch_tensor": "into_primitive, from_primitive",
    "inspection/test_metadata.py::test_burns_ownership_calls_change_nothing": "inplace, extract, can_mut",
    "inspection/test_reading.py::test_the_async_forms_give_the_same": (
        "into_data_async, to_data_async, into_scalar_async"
    ),
    "inspection/test_reading.py::test_a_scalar_is_the_only_element": "into_scalar",
    "inspection/test_reading.py::test_the_try_forms_return_the_error": "try_into_scalar, try_into_scalar_async",
    "inspection/test_reading.py::test_a_transaction_reads_in_the_order_of_registration": (
        "Transaction.register, Transaction.execute, Transaction.try_execute, Transaction.execute_async"
    ),
    "shape/test_masks.py::test_mask_select_wants_exactly_the_shape": "mask_select_async",
    "shape/test_masks.py::test_positions_are_of_the_int_type_of_the_backend": "nonzero_async, argwhere_async",
    "shape/test_shape.py::test_dimensions_change_places": "t",
    "shape/test_shape.py::test_roll_has_the_direction_of_torch": "roll_dim",
}
TEST_OF = {name: test for test, names in TESTED.items() for name in names.split(", ")}
FUNCTIONS: dict[str, Any] = {"set_print_options": set_print_options}
# Names of torch's tensors, burnlike's own, and two that Burn had up to 0.13.
NOT_OF_BURN = {"T", "backend", "clone", "item", "numpy", "pin_memory", "from_full_precision", "to_full_precision"}


def numeric(record: dict[str, Any]) -> bool:
    """Whether a vector says what numbers come out."""
    expected = record["expected"]
    forms = expected if isinstance(expected, list) else [expected]
    return any(isinstance(it, bool) or (isinstance(it, dict) and {"data", "full", "text"} & it.keys()) for it in forms)


VECTORS: dict[str, dict[str, Any]] = {}
for found in read(ROOT / "tests" / "vectors" / "tensor_ops.json"):
    if numeric(found):
        VECTORS.setdefault(found["op"], found)


def key_of(row: dict[str, Any]) -> str:
    """The name of a row; with its kind where several rows have the name."""
    name = row["name"]
    return name if NAMES.count(name) == 1 else f"{name} ({row['kinds'][0]})"


@pytest.mark.parametrize("row", ROWS, ids=key_of)
def test_every_name_exists(row: dict[str, Any]) -> None:
    name = row["name"]
    if name.startswith("__"):
        assert all(callable(getattr(Tensor, operator)) for operator in name.split("/"))
    elif name.startswith("Transaction."):
        assert callable(getattr(Transaction, name.split(".")[1]))
    elif name not in FUNCTIONS:
        assert calls.function_named(SPELLED.get(name, name)) is not None


@pytest.mark.parametrize("row", ROWS, ids=key_of)
def test_every_name_has_a_numeric_case_that_passes(row: dict[str, Any]) -> None:
    key = key_of(row)
    if key in CASES:
        check(CASES[key](Cpu()))
        check(CASES[key](Autodiff(Cpu())))
        return
    if key in TEST_OF:
        file, _, test = TEST_OF[key].partition("::")
        assert f"def {test}(" in (Path(__file__).parents[1] / file).read_text()
        return
    record = VECTORS.get(key)
    assert record is not None, f"{key} has neither a vector nor a case nor a test"
    plain = Cpu(int=torch.int32)
    for backend in (plain, Autodiff(plain)):
        outcome = run(record, backend)
        assert outcome.verdict == "passed", outcome.reason


def test_every_case_has_a_row() -> None:
    keys = {key_of(row) for row in ROWS}
    assert [name for name in (*CASES, *TEST_OF) if name not in keys] == []


def test_every_method_and_function_has_a_row() -> None:
    listed = {row.name for group in groups() for row in group.rows}
    assert sorted(listed - set(NAMES) - NOT_OF_BURN) == []


def test_every_kind_has_rows() -> None:
    assert {kind for row in ROWS for kind in row["kinds"]} == {"Float", "Int", "Bool"}
