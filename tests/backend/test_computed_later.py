"""A backend that computes later: what reads waits, and a training gives torch's numbers."""

import copy
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from burnlike import Autodiff, Tensor as Typed
from burnlike.optim import GradientsParams, SgdConfig
from burnlike.tensor import activation
from tests.backend.counting import Changed

LATER = {
    *("add", "div", "exp", "linear", "mask_where", "matmul", "mean", "mean_dim", "mul", "neg", "ones_like", "relu"),
    *("square", "sub", "sum", "sum_dim", "tanh"),
}
VIEWS = {"detach", "empty", "expand", "flatten", "full", "permute", "reshape", "split", "squeeze", "swap_dims", "zeros"}


class Queued(Changed):
    """Computes in a thread, one function after the other, into memory that is NaN before."""

    def __init__(self) -> None:
        self.__dict__.update(thread=ThreadPoolExecutor(1), pending=[])
        super().__init__(self._queued)

    def sync(self) -> None:
        pending: list[Future[None]] = self.__dict__["pending"]
        while pending:
            pending.pop(0).result()

    def _queued(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        short = name.partition(".")[2]

        def called(*args: Any) -> Any:
            if short not in LATER:
                if short not in VIEWS:
                    self.sync()
                return function(*args)
            args = tuple(it.detach() if isinstance(it, Tensor) else it for it in args)
            shapes = function(*[it.to("meta") if isinstance(it, Tensor) else it for it in args])
            result = torch.full(shapes.shape, torch.nan).to(shapes.dtype)

            def fill() -> None:
                with torch.no_grad():
                    np.copyto(result.numpy(), function(*args).numpy())  # unseen by torch, which counts writes

            self.__dict__["pending"].append(self.__dict__["thread"].submit(fill))
            return result

        return called


@pytest.fixture
def backend() -> Iterator[Queued]:
    made = Queued()
    yield made
    made.__dict__["thread"].shutdown()


READERS: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda x: x.numpy(),
    "asarray": np.asarray,
    "to_data": lambda x: np.array(x.to_data().to_vec()).reshape(64, 64),
    "dlpack": lambda x: torch.from_dlpack(x).numpy(),
    "deepcopy": lambda x: copy.deepcopy(x).inner.numpy(),
    "batch": lambda x: torch.utils.data.default_collate([x]).inner[0].numpy(),
}


@pytest.mark.parametrize("name", READERS)
def test_what_reads_a_tensor_waits_for_it(backend: Queued, name: str) -> None:
    values = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)) / 8
    x = y = Typed(values, backend)
    expected = values
    for _ in range(20):
        y, expected = activation.relu(y.matmul(x)) + y, torch.relu(expected @ values) + expected
    np.testing.assert_allclose(READERS[name](y), expected, rtol=1e-4, atol=1e-4)


def test_a_training_over_it_gives_torchs_numbers(backend: Queued) -> None:
    torch.manual_seed(0)
    model, values = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1)), torch.randn(8, 6)
    reference, optimizer = copy.deepcopy(model), SgdConfig().init()
    for _ in range(4):
        loss = model(Typed(values, Autodiff(backend))).square().mean()
        optimizer.step(0.1, model, GradientsParams.from_grads(loss.backward(), model))
        expected = reference(values).square().mean()
        reference.zero_grad()
        expected.backward()
        with torch.no_grad():
            for parameter in reference.parameters():
                parameter.sub_(0.1 * parameter.grad)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for one, other in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
