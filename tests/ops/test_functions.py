"""exp, sigmoid, tanh, log and the normal distribution of the kernels, compiled for each instruction set."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from burnlike.ops import native_status

from .cuda_emulation import ROOT, build_flags

FLAGS = {
    "default": [],
    "avx2": ["-mavx2", "-mfma", "-mf16c"],
    "avx512": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma"],
    "avx512_bf16": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512bf16", "-mfma"],
}
DTYPES = {torch.float32: np.float32, torch.float64: np.float64}
# The largest distance from the exact value, in units of the last place.
FUNCTIONS = {"exp": 1.0, "sigmoid": 2.5, "tanh": 2.5, "cdf": 9.0, "density": 3.0}
# The same on CUDA in float32; exp of 16-bit values has an error of |x| 2^-24 of the value, for x from -20 here.
QUICK_FUNCTIONS = {"decay": 5.5, "decay_of_values": 30.0, "tanh": 6.0, "cdf": 16.0, "density": 8.0}
SPECIAL = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-42, -1e-42, 1e-300, 88.7, 89.5, -87.5, -103.9]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ctypes.CDLL]:
    folder = tmp_path_factory.mktemp("functions")
    made = {}
    for isa in native_status().isas:
        target = folder / f"{isa}.so"
        command = [*build_flags(), "-O3", *FLAGS[isa], "-shared", str(Path(__file__).with_name("functions.cpp"))]
        subprocess.run([*command, "-o", str(target)], check=True, cwd=ROOT)
        made[isa] = ctypes.CDLL(str(target))
    return made


@pytest.fixture(scope="module")
def quick_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The functions as CUDA computes them in float32, by instructions with the errors that NVIDIA's manual allows."""
    target = tmp_path_factory.mktemp("quick") / "quick.so"
    header = Path(__file__).parent / "cuda_emulation" / "quick_float.h"
    source = str(Path(__file__).with_name("functions.cpp"))
    command = [*build_flags(), "-O2", "-include", str(header), "-shared", source, "-o", str(target)]
    subprocess.run(command, check=True, cwd=ROOT)
    return ctypes.CDLL(str(target))


def values(dtype: torch.dtype) -> Tensor:
    torch.manual_seed(0)
    near = torch.randn(20000, dtype=torch.float64) * torch.logspace(-8, 2, 20000, dtype=torch.float64)
    limit = 110 if dtype == torch.float32 else 750
    return torch.cat([near, torch.linspace(-limit, limit, 50001), torch.tensor(SPECIAL)]).to(dtype)


def called(library: ctypes.CDLL, name: str, inputs: Tensor) -> Tensor:
    given = inputs.numpy()
    results = np.empty_like(given)
    function = getattr(library, f"{name}_{str(inputs.dtype).removeprefix('torch.')}")
    function(given.ctypes.data_as(ctypes.c_void_p), results.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(given.size))
    return torch.from_numpy(results)


def steps_apart(actual: Tensor, exact: np.ndarray) -> float:
    """The largest distance of finite values from exact ones, in units of the last place; of subnormal ones the sign
    and magnitude count, as 1 / (1 + exp(-x)) rounds them to zero."""
    got = actual.numpy()
    with np.errstate(over="ignore", under="ignore"):
        rounded = exact.astype(got.dtype)
    tiny = np.finfo(got.dtype).tiny
    subnormal = np.abs(rounded) < tiny
    assert (np.abs(got[subnormal] - rounded[subnormal]) < tiny).all()
    finite = np.isfinite(rounded)
    infinite = np.isinf(rounded)
    assert (got[infinite] == rounded[infinite]).all()
    assert (np.isnan(got) == np.isnan(rounded)).all()
    normal = finite & ~subnormal
    spacing = np.spacing(np.abs(rounded[normal])).astype(exact.dtype)
    return float(np.max(np.abs(got[normal].astype(exact.dtype) - exact[normal]) / spacing))


def exact_values(name: str, inputs: Tensor) -> np.ndarray:
    """In float64 for float32, in the extended type of x87 for float64."""
    x = inputs.numpy().astype(np.float64 if inputs.dtype == torch.float32 else np.longdouble)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return {
            "exp": np.exp,
            "sigmoid": lambda it: 1 / (1 + np.exp(-it)),
            "tanh": np.tanh,
            "cdf": exact_cdf,
            "density": lambda it: np.exp(-it * it / 2) / np.sqrt(8 * np.arctan(np.longdouble(1))),
        }[name](x)


def exact_cdf(x: np.ndarray) -> np.ndarray:
    """Phi(x) by its Taylor series where x is small (Abramowitz & Stegun 1964, 26.2.11), else by Laplace's continued
    fraction for the tail (26.2.14)."""
    x = x.astype(np.longdouble)
    magnitude = np.minimum(np.abs(x), 60)
    density = np.exp(-magnitude * magnitude / 2) / np.sqrt(8 * np.arctan(np.longdouble(1)))
    term = np.minimum(magnitude, 3)
    square, series = term * term, term
    for place in range(3, 121, 2):
        term = term * square / place
        series = series + term
    fraction = magnitude
    for place in range(300, 0, -1):
        fraction = magnitude + place / np.where(fraction == 0, 1, fraction)
    tail = np.where(magnitude < 3, 0.5 - density * series, density / fraction)
    return np.where(x < 0, tail, 1 - tail)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_exact_to_the_last_places(name: str, dtype: torch.dtype, libraries: dict) -> None:
    inputs = values(dtype)
    result = called(libraries["default"], name, inputs)
    assert steps_apart(result, exact_values(name, inputs)) < FUNCTIONS[name]
    zeros = inputs == 0
    assert name != "tanh" or torch.equal(result[zeros].signbit(), inputs[zeros].signbit())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_instruction_set_gives_the_same_bits(name: str, dtype: torch.dtype, libraries: dict) -> None:
    inputs = values(dtype)
    expected = called(libraries["default"], name, inputs)
    for library in libraries.values():
        torch.testing.assert_close(called(library, name, inputs), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("name", "distance"), QUICK_FUNCTIONS.items())
def test_float32_on_cuda_is_exact_to_some_units_in_the_last_place(
    name: str, distance: float, quick_library: ctypes.CDLL, libraries: dict[str, ctypes.CDLL]
) -> None:
    inputs = values(torch.float32)
    if name in ("decay", "decay_of_values"):
        inputs = -inputs.abs()
        inputs = inputs[~(inputs < (-87 if name == "decay" else -20))]
    elif name != "tanh":
        inputs = inputs[~(inputs.abs() > 12)]  # beyond it the density is 0, below 1e-32 before
    result = called(quick_library, name, inputs)
    assert steps_apart(result, exact_values("exp" if name.startswith("decay") else name, inputs)) < distance
    bits = torch.tensor([-torch.inf, torch.nan, -88.0, 0.0])
    assert called(quick_library, "decay", bits).tolist()[::2] == [0.0, 0.0]
    exact = values(torch.float64)
    for function in FUNCTIONS:
        expected = called(libraries["default"], function, exact)
        torch.testing.assert_close(called(quick_library, function, exact), expected, rtol=0, atol=0, equal_nan=True)


def test_logarithm_is_exact_to_the_last_places(libraries: dict[str, ctypes.CDLL]) -> None:
    inputs = values(torch.float64).abs()
    inputs = torch.cat([inputs, 1 + inputs[:20000] / 1e3, inputs[:20000] * 1e300, -inputs[:5]])
    result = called(libraries["default"], "log", inputs)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = np.log(inputs.numpy().astype(np.longdouble))
    assert steps_apart(result, exact) < 2.5
    for library in libraries.values():
        torch.testing.assert_close(called(library, "log", inputs), result, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_decay_is_exp_of_what_is_not_positive(dtype: torch.dtype, libraries: dict[str, ctypes.CDLL]) -> None:
    inputs = -values(dtype).abs()
    result = called(libraries["default"], "decay", inputs)
    is_zero = inputs < (-87 if dtype == torch.float32 else -708)
    assert (result[is_zero] == 0).all()
    assert steps_apart(result[~is_zero], exact_values("exp", inputs[~is_zero])) < 1.0
    for library in libraries.values():
        torch.testing.assert_close(called(library, "decay", inputs), result, rtol=0, atol=0, equal_nan=True)
