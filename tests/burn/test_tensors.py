"""Every method and function of the tensor API, in burnlike and in Burn, on drawn arguments and at edges."""

import json
import math
from pathlib import Path

import pytest
import torch

from . import tensor_edges as tensor_edges  # its groups
from .running import ask
from .tensor_cases import Case, asked, burns, difference, mine
from .tensor_draws import GROUPS, cases_of
from .tensor_flaws import FLAWS, flaw_of

NOT_OF_BURN = {"T", "backend", "clone", "item", "numpy", "pin_memory", "to_full_precision", "from_full_precision"}

NAMES = Path(__file__).parents[1] / "tensor" / "api" / "api_table.json"
"""The public methods and functions of Burn's tensor API."""
NOT_RUN = {
    "coroutines, which give the same": (
        *("into_data_async", "to_data_async", "into_scalar_async", "try_into_scalar_async", "mask_select_async"),
        *("nonzero_async", "argwhere_async", "Transaction.execute_async"),
    ),
    "the types of elements that a Rust program names": (
        *("to_data_as", "try_to_data_as", "try_to_vec_as", "into_data_as", "try_into_data_as", "try_into_vec_as"),
        *("try_to_data", "try_into_data_dtype", "Transaction.try_execute"),
    ),
    "devices, and what a variable holds": (
        *("device", "to_device", "inplace", "extract", "can_mut", "into_primitive", "from_primitive"),
        *("set_print_options", "is_distributed", "set_distributed", "with_gradient_checkpointing_strategy"),
        *("gradient_checkpointing_strategy", "assert_shape"),
    ),
    "what each case with gradients runs": (
        *("backward", "grad", "grad_remove", "grad_replace", "inner", "from_inner", "no_grad", "require_grad"),
        *("is_require_grad", "set_require_grad", "autodiff", "is_autodiff", "is_tracked", "without_autodiff"),
    ),
    "draws, of which tests/tensor compares the moments": ("random", "random_like", "categorical"),
    "operators, which are the methods": (
        *("__add__/__sub__/__mul__/__truediv__/__mod__/__neg__", "__radd__/__rsub__/__rmul__", "__rtruediv__"),
    ),
    "run by the rows of docs/deviations": ("linalg.qr", "linalg.svd"),
    "run as quantization.*, whose results are dequantized": ("quantize", "quantize_dynamic", "dequantize"),
    "run as transaction": ("Transaction.register", "Transaction.execute"),
    "run as diag": ("linalg.diag",),
}


def test_each_method_and_function_is_run_by_a_case_or_named_with_its_reason() -> None:
    run = {case.op for name in GROUPS for case in cases_of(name)}
    names = {row["name"] for row in json.loads(NAMES.read_text())} - NOT_OF_BURN
    reasons = [name for some in NOT_RUN.values() for name in some]
    assert len(reasons) == len({*reasons})
    assert sorted(names - run - {*reasons}) == []
    assert sorted({*reasons} & run) == []


def compared(cases: list[Case]) -> tuple[list[str], set[str]]:
    """The differences that nothing explains, and the names of flaws that explain others."""
    ours = [mine(case) for case in cases]
    answers = ask("tensors", [asked(case, answer) for case, answer in zip(cases, ours, strict=True)])
    wrong, met = list[str](), set[str]()
    for case, left, answer in zip(cases, ours, answers, strict=True):
        right = burns(answer)
        found = difference(left, right)
        flaw = found and flaw_of(case, left, right)
        if flaw:
            met.add(flaw)
        elif found:
            wrong.append(f"{case}: {found}\n    burnlike {left}\n    Burn {right}")
    return wrong, met


@pytest.mark.burn
@pytest.mark.parametrize("name", GROUPS)
def test_group(name: str) -> None:
    cases = cases_of(name)
    wrong, _ = compared(cases)
    assert not wrong, f"{len(wrong)} of {len(cases)} differ:\n" + "\n".join(wrong[:40])


@pytest.mark.burn
def test_each_flaw_is_met_by_an_edge() -> None:
    _, met = compared(cases_of("edges"))
    is_infinite = torch.nn.functional.gelu(torch.tensor([math.inf, 1.0])).isinf().any()  # without AVX-512
    absent = {"torch's kernel of float32 gives NaN for gelu(inf)"} if is_infinite else set[str]()
    assert {*FLAWS} - met == absent
