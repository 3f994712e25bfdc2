"""Fixtures shared by all tests: seeds, devices, and the values that Burn computed."""

import gc
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

from burnlike._torch_compat.inductor import quote_paths

from .fork_server import ForkServer

HERE = Path(__file__).parent
LONGEST_S = 3600
"""When a test is taken for hanging."""

# Nothing here may depend on how busy the machine is.
hypothesis.settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")

# Where processes share the tests, there is one for each core.
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # for processes that tests start

# Asked for in this way, the driver is not started, and processes that are forked later can use CUDA.
HAS_CUDA = torch.cuda.device_count() > 0
# Results on a GPU are compared with float64 and with Burn's: products and convolutions in all digits of float32.
torch.backends.cudnn.allow_tf32 = False
torch.backends.cuda.matmul.allow_tf32 = False

# torch's own keeps a stack trace for each kind of device that is absent, which takes longer than many a test.
if not HAS_CUDA:
    torch.manual_seed = torch.default_generator.manual_seed

# A shell that starts the suite in the background has it ignore SIGINT, and so would the processes that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# The checkout has the environment with torch, and the caches of its compiler.
if " " in str(HERE):
    quote_paths()


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer() as started:
        yield started


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def threads_of_its_own() -> Iterator[None]:
    """The test may change the number of torch's threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _ends() -> Iterator[None]:
    """A test that hangs fails, whatever it waits for; no test takes nearly as long."""

    def hangs(*_: object) -> None:
        raise TimeoutError(f"the test has taken {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(LONGEST_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip CUDA tests where there is no device, but fail if they were asked for by `-m cuda`."""
    if HAS_CUDA:
        return
    asked_for = config.getoption("markexpr") == "cuda"
    for item in items:
        if item.get_closest_marker("cuda") is None:
            continue
        if asked_for:
            raise pytest.UsageError("`-m cuda` was asked for, but torch sees no CUDA device")
        item.add_marker(pytest.mark.skip(reason="torch sees no CUDA device; `make test-cuda` runs it"))


def pytest_collection_finish() -> None:
    """Tens of thousands of tests live as long as the process: the garbage collector need not look at them again."""
    gc.collect()
    gc.freeze()


def tensor_of(entry: dict[str, Any], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor from its form in the golden files: dtype, shape, values."""
    return torch.tensor(entry["values"], dtype=dtype).reshape(entry["shape"])


@pytest.fixture
def golden() -> Callable[[str], dict[str, Any]]:
    """The values of a golden file that Burn 0.22.1 wrote, by name."""

    def load(name: str) -> dict[str, Any]:
        return json.loads((HERE / "golden" / "v0.22" / f"{name}.values.json").read_text())

    return load


@pytest.fixture
def vectors() -> Callable[[str], dict[str, Any]]:
    """Numbers of Burn's own tests, by file name."""

    def load(name: str) -> dict[str, Any]:
        return json.loads((HERE / "vectors" / f"{name}.json").read_text())

    return load
