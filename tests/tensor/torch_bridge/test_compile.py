"""torch.compile(fullgraph=True): typed tensors in, out and through."""

import io
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch._dynamo.utils import counters

from burnlike import Autodiff, Cpu, Int, Tensor
from burnlike.errors import TensorError

TRACKED = Autodiff(Cpu())


@pytest.fixture(scope="module", autouse=True)
def counts_of_this_file_alone() -> None:
    counters.clear()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def compiled(function: Any, backend: Any = "eager") -> Any:
    return torch.compile(function, fullgraph=True, backend=backend)


def chain(x: Any, y: Any) -> Any:
    z = (x * 2.0 + y).exp().reshape(6)
    return z, z.sum(), z.greater(y.reshape(6)), z.argmax(0)


def test_in_out_and_through() -> None:
    x, y = Tensor(torch.rand(2, 3)), Tensor(torch.rand(2, 3))
    for got, expected in zip(compiled(chain)(x, y), chain(x, y), strict=True):
        assert got.spec is expected.spec
        torch.testing.assert_close(got.inner, expected.inner)


def test_created_inside() -> None:
    def function(t: torch.Tensor) -> Any:
        x = Tensor(t, Cpu())
        return (x + Tensor.ones((2, 3), Cpu())).sum().inner, Tensor.arange(0, 3, Cpu())

    total, indices = compiled(function)(torch.zeros(2, 3))
    assert total.tolist() == [6.0]
    assert indices.spec.kind is Int


@pytest.mark.parametrize("make", [Cpu, lambda: Autodiff(Cpu())], ids=["cpu", "autodiff"])
def test_a_backend_made_or_passed_in_anew_is_the_known_one(make: Any) -> None:
    inside = compiled(lambda t: Tensor(t, make()) + 1.0)(torch.zeros(2))
    passed = compiled(lambda t, backend: Tensor(t, backend) + 1.0)(torch.zeros(2), make())
    assert inside.spec is passed.spec is Tensor(torch.zeros(2), make()).spec


def test_a_backend_that_was_never_used_says_so() -> None:
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"first tensor can't be made inside of torch.compile"):
        compiled(lambda t: Tensor(t, Cpu(int=torch.uint8)) + 1.0)(torch.zeros(2))


def test_backward_through_a_compiled_function() -> None:
    x = Tensor(torch.rand(4), TRACKED).require_grad()
    loss = compiled(lambda t: (t * t).sum(), "aot_eager")(x)
    torch.testing.assert_close(x.grad(loss.backward()).inner, 2 * x.inner.detach())


def test_a_module_with_typed_input_and_output() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(3, 2))
            self.linear = torch.nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.linear(x.matmul(self.weight)).add(1.0)

    model = Model()
    x = Tensor(torch.rand(4, 3), TRACKED)
    expected = model(x)
    torch.testing.assert_close(compiled(model)(x).inner, expected.inner)


def test_a_loop_does_not_compile_again() -> None:
    counter = CompileCounter()
    step = compiled(lambda x, y: (x * y + 1.0).tanh(), counter)
    x, y = Tensor(torch.rand(3)), Tensor(torch.rand(3))
    for _ in range(10):
        x = step(x, y)
        y = Tensor(torch.rand(3), Cpu())
    assert counter.frame_count == 1


def test_another_kind_or_rank_compiles_anew_and_is_right() -> None:
    double = compiled(lambda x: x + x)
    assert double(Tensor(torch.ones(2))).inner.tolist() == [2.0, 2.0]
    assert double(Tensor(torch.ones(2, dtype=torch.int64))).spec.kind is Int
    assert double(Tensor(torch.ones(1, 2))).rank() == 2


def test_errors_name_their_reason() -> None:
    x, y = Tensor(torch.rand(3)), Tensor(torch.rand(3, 1))
    with pytest.raises((TensorError, torch._dynamo.exc.Unsupported), match="different ranks"):
        compiled(lambda x, y: x + y)(x, y)


def test_one_program_serves_all_sizes() -> None:
    def function(x: Any) -> list[Any]:
        rows = x.dims()[0]
        return [
            x.var(0),
            *x.var_mean(0),
            x.sum_dim(0).expand([rows, 3]),
            x.reshape([rows * 3]),
            x.slice([[1, rows]]),
            x.select(0, Tensor.arange(0, rows, Cpu())),
            x.pad([(1, 0)], 0.0),
            x.matmul(x.transpose()),
            Tensor.cat([x, x.narrow(0, 0, 1)], 0),
        ]

    counter = CompileCounter()
    step = torch.compile(function, fullgraph=True, backend=counter, dynamic=True)
    for rows in (4, 5, 8):
        x = Tensor(torch.rand(rows, 3))
        for got, expected in zip(step(x), function(x), strict=True):
            assert got.spec is expected.spec
            torch.testing.assert_close(got.inner, expected.inner)
    assert counter.frame_count == 1


def test_an_exported_program_can_be_saved() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return {"sum": x.add(y), "mask": x > y}

    backend = Autodiff(Cpu(int=torch.int32))
    x, y = Tensor(torch.rand(2, 3), backend), Tensor(torch.rand(2, 3), backend)
    file = io.BytesIO()
    torch.export.save(torch.export.export(Model(), (x, y)), file)
    file.seek(0)
    result = torch.export.load(file).module()(x, y)
    assert torch.equal(result["sum"].inner, x.inner + y.inner)
    assert result["mask"].spec is (x > y).spec


def test_export_and_no_graph_breaks() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.add(1.0).sum()

    x = Tensor(torch.rand(2, 3), TRACKED)
    exported = torch.export.export(Model(), (x,))
    result = exported.module()(x)
    assert isinstance(result, Tensor)
    torch.testing.assert_close(result.inner, x.add(1.0).sum().inner)
    assert not counters["graph_break"]
