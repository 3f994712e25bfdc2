"""A backend that burnlike does not know sees everything that its tensors do."""

import doctest
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.backend import Backend, map_ops, missing_ops
from burnlike.errors import BackendError
from examples import recording_backend
from examples.recording_backend import Recording

from .recording import only_recorded_ops

EXAMPLE = Path(__file__).parents[2] / "examples" / "recording_backend.py"


def test_arithmetic_is_recorded_by_name_and_in_order() -> None:
    backend = Recording(Cpu())
    x = Tensor(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), backend)
    with only_recorded_ops(backend):
        y = ((x + x) + 1.0).sum()
    assert backend.log == ["float_ops.add", "float_ops.add", "float_ops.sum"]
    assert y.inner.tolist() == [24.0]


def test_tables_are_told_apart_by_kind() -> None:
    backend = Recording(Cpu())
    Tensor(torch.tensor([[1, 2]]), backend).sum()
    assert backend.log == ["int_ops.sum"]


def test_an_op_beside_the_tables_is_noticed() -> None:
    backend = Recording(Cpu())
    x = Tensor(torch.ones(2), Cpu())
    with pytest.raises(AssertionError, match=r"aten\.sum"), only_recorded_ops(backend):
        x.sum()  # the functions of another backend than the one that is watched


def test_a_recording_is_a_backend() -> None:
    backend = Recording(Cpu(float=torch.float64))
    assert isinstance(backend, Backend)
    assert missing_ops(backend) == []
    assert (backend.device, backend.float_dtype, backend.int_dtype) == (torch.device("cpu"), torch.float64, torch.int64)
    assert backend.name == "recording<torch<cpu>>"
    assert Autodiff(backend).name == "autodiff<recording<torch<cpu>>>"
    assert backend.full_precision() is backend
    assert Recording(Cpu(float=torch.float16)).full_precision().float_dtype is torch.float32


def test_a_recording_is_hashable_and_immutable() -> None:
    backend = Recording(Cpu())
    assert {backend: 1}[backend] == 1
    assert backend != Recording(Cpu())
    with pytest.raises(AttributeError, match="make another one"):
        backend.inner = Cpu()
    with pytest.raises(AttributeError, match="make another one"):
        backend.anything = 1  # pyright: ignore[reportAttributeAccessIssue]


def test_tensors_of_two_recordings_do_not_mix() -> None:
    x, y = (Tensor(torch.ones(2), Recording(Cpu())) for _ in range(2))
    with pytest.raises(TypeError, match="different backends"):
        x + y


def test_autodiff_of_a_recording_computes_gradients_with_its_functions() -> None:
    backend = Recording(Cpu())
    tracked = Autodiff(backend)
    with only_recorded_ops(backend):
        x = Tensor(torch.tensor([[1.0, 2.0, 3.0]]), tracked).require_grad()
        gradients = (x + x).sum().backward()
        grad = x.grad(gradients)
    log = [name for name in backend.log if name != "float_ops.detach"]
    assert log[:2] == ["float_ops.add", "float_ops.sum"]
    assert {"float_ops.full", "float_ops.expand"} <= {*log[2:]}  # the backward pass
    assert grad is not None
    assert grad.backend is backend
    assert grad.inner.tolist() == [[2.0, 2.0, 2.0]]


class Incomplete(Recording):
    """A backend whose Float tensors have no `add`."""

    @property
    def float_ops(self) -> Any:
        table = map_ops(self.inner.float_ops, lambda _name, function: function)
        del table.add
        return table


@pytest.mark.parametrize("decorate", [lambda backend: backend, Autodiff], ids=["plain", "autodiff"])
def test_a_missing_entry_is_named(decorate: Any) -> None:
    with pytest.raises(BackendError, match=r"lacks float_ops\.add; add"):
        Tensor(torch.ones(2), decorate(Incomplete(Cpu())))


def test_what_is_no_backend_at_all_is_refused() -> None:
    backend: Any = object()
    with pytest.raises(BackendError, match="expected a Backend"):
        Tensor(torch.ones(2), backend)


def test_the_examples_docstrings_are_right() -> None:
    assert doctest.testmod(recording_backend) == (0, 4)


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out
    assert "float_ops.matmul" in printed
    assert "gradient" in printed
