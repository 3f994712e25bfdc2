"""Every place that has to know a native op knows all of them: a new op fails here by name until it is everywhere."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike import ops
from burnlike.ops import StepOptions, native_status
from burnlike.ops._example import examples
from burnlike.ops._step import native_arguments

from . import hostile
from .cases import CASES

ROOT = Path(__file__).parents[2]
COUNTED = [name for name in native_status().calls if ":" not in name]
"""Every op, as csrc tells: each has a counter of its calls."""
OPS = [name for name in COUNTED if not name.endswith("_backward")]
"""Those that are called: a backward is run and tested by its forward."""
IN_NO_CASE = {
    "convolution_3x3": "of float32 alone, in channels of 16",
    "crc32": "of bytes, no floats",
    "decode_step": "of a whole model",
    "depthwise_convolution": "of float32 and bfloat16 alone, of 16 channels or more",
    "int8_linear": "of 8 bits, which a result in float64 is far from",
    "join_gates": "of lists of gates",
    "lstm_": "the steps of a function that has the derivatives",
    "read_values_": "of a file",
    "bernoulli_noise_": "of the state of torch's generator",
}
"""Ops for which the table of cases has no use; their own tests do it all."""
WITHOUT_CUDA = {
    "attention": "torch's own attention runs there",
    "batch_norm": "torch's own normalization runs there",
}
"""Ops with a derivative that have no kernel for CUDA."""
STEPS = [name for name in OPS if name.endswith("_step_")]


def schema_of(op: str) -> list[str]:
    """The names of an op's arguments in csrc/cpu."""
    return [argument.name for argument in getattr(torch.ops.burnlike, op).default._schema.arguments]


def test_every_op_counts_its_calls() -> None:
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("CPU")
    assert sorted(COUNTED) == sorted(
        name.removeprefix("burnlike::") for name in registered if name.startswith("burnlike::")
    )


@pytest.mark.parametrize("op", OPS)
def test_an_op_has_its_function_and_its_files(op: str) -> None:
    assert op in ops.__all__
    name = op.removesuffix("_")
    for path in (f"burnlike/ops/{name}.py", f"csrc/cpu/{name}.cpp"):
        assert (ROOT / path).is_file()


def test_every_op_has_its_cases_and_random_calls() -> None:
    expected = set(OPS) - IN_NO_CASE.keys()
    assert {case.raw._schema.name.removeprefix("burnlike::") for case in CASES} & set(OPS) == expected
    products = {"matrix_product", "half_product", "half_convolution", "lora_linear"}  # which have no counters
    assert {hostile.random_call(seed).op for seed in range(1500)} >= set(OPS) | products


def test_an_op_with_a_derivative_has_an_example_kernels_for_cuda_and_a_benchmark() -> None:
    differentiable = {case.raw._schema.name.removeprefix("burnlike::") for case in CASES if case.differentiable}
    assert set(examples()) == differentiable
    for name in differentiable:
        assert (ROOT / f"csrc/cuda/{name}.cu").is_file() == (name not in WITHOUT_CUDA)
        assert (ROOT / f"benchmarks/ops/{name}.py").is_file()


@pytest.mark.parametrize("op", STEPS)
def test_a_step_has_the_parameters_of_its_schema(op: str) -> None:
    *parameters, options = inspect.signature(getattr(ops, op)).parameters
    assert options == "options"
    assert [*parameters, *(field.name for field in fields(StepOptions))] == schema_of(op)
    assert inspect.signature(getattr(ops, f"{op}reference")) == inspect.signature(getattr(ops, op))


@pytest.mark.parametrize("op", STEPS)
def test_a_step_hands_its_arguments_over_in_the_order_of_its_schema(op: str) -> None:
    define: Callable[..., Any] = inspect.unwrap(getattr(ops, op))
    *parameters, _ = inspect.signature(define).parameters
    # Each value tells its argument.
    given: dict[str, Any] = {name: [name] if name in LISTS else number for number, name in enumerate(parameters, 1)}
    chosen = {field.name: field.name for field in fields(StepOptions)} | {"clip_value": 3.0, "seed": 5, "copies": ["c"]}
    handed = native_arguments(define(**given, options=StepOptions(**chosen)))
    assert dict(zip(schema_of(op), handed, strict=True)) == given | chosen


LISTS = {
    *("params", "grads", "times", "moments", "moments_1", "moments_2", "max_moments_2", "velocities"),
    *("scales", "scales_1", "scales_2"),
}
