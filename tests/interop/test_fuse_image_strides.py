"""Strides that a program can see: parts in channels_last do as the stock model does."""

import copy
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from burnlike.interop import fuse
from burnlike.interop.fused import images
from burnlike.interop.fused.native_convolution import way_of
from burnlike.ops import half_products

from ..processes import HANGS_S

IMAGES = (2, 3, 16, 16)


@pytest.fixture(autouse=True)
def gains(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on machines where channels_last is faster, which is tried once in a process."""
    monkeypatch.setattr(images, "gains", lambda: True)


class Part(nn.Module):
    """Two convolutions, whose results the forward passes below copy, slice or write to."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.relu, self.dropout = nn.ReLU(inplace=True), nn.Dropout(0.5)


class Tokens(Part):
    """Rows that are a copy in the stock model."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        tokens = x.permute(0, 2, 3, 1).contiguous()
        tokens += 1.0
        return self.conv2(x)


class Flat(Part):
    """Rows that are a view in the stock model, and are written to."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv2(self.conv1(x))
        x.flatten(1).mul_(2.0)
        return x * 1.0


class Item(Part):
    def forward(self, x: Tensor) -> Tensor:
        x = self.conv2(self.conv1(x))
        rows = x.reshape(len(x), -1)
        rows[:, 0] = 7.0
        return x * 1.0


class Function(Part):
    def forward(self, x: Tensor) -> Tensor:
        x = self.conv2(self.conv1(x))
        F.relu(x.reshape(len(x), -1), inplace=True)
        return x * 1.0


class Child(Part):
    def forward(self, x: Tensor) -> Tensor:
        x = self.conv2(self.conv1(x))
        self.relu(x.flatten(1))
        return x * 1.0


class Children(Part):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Sequential(nn.Flatten(), nn.ReLU(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv2(self.conv1(x))
        self.rows(x)
        return x * 1.0


class Loop(Part):
    """A write that comes before the copy in the code, and behind it in the second turn."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv2(self.conv1(x))
        rows = x * 1.0
        for _ in range(2):
            rows += 1.0
            rows = x.reshape(len(x), -1)
        return x * 1.0


class DroppedTokens(Part):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.conv2(self.conv1(x)).flatten(2).permute(0, 2, 1), 0.5, self.training)


class DroppedRows(Part):
    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.conv2(self.conv1(x)).permute(0, 2, 3, 1))


class ChildOfNew(Part):
    """A write to what a layer has computed, but of rows that the same statement makes."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv2(self.conv1(x))
        x.flatten(1).add_(self.conv2(x * 1.0).sum())
        return x * 1.0


KEPT = [Tokens, Flat, Item, Function, Child, Children, Loop, ChildOfNew, DroppedTokens, DroppedRows]
"""Modules whose code depends on strides."""


class DroppedSlice(Part):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.conv2(self.conv1(x))[:, :8], 0.5, self.training)


class Halves(Part):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.conv2(self.conv1(x)).chunk(2, 1)


class Groups(Part):
    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(self.conv1(x)).reshape(2, 4, 4, 16, 16)


class WritesToNew(Part):
    """A write to what a layer has computed of such rows, as in GoogLeNet."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4096, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.flatten(self.conv2(self.conv1(x)), 1)
        return F.relu(self.linear(x), inplace=True)


class StridedSlice(Part):
    """A convolution of 1 x 1 of some channels, which are not one behind the other in channels_last."""

    def __init__(self) -> None:
        super().__init__()
        self.strided = nn.Conv2d(6, 48, 1, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.strided(self.conv2(self.conv1(x))[:, :6])


class FlatAtTheEnd(Part):
    """A write before the rows are made, as in most models."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.conv2(self.conv1(x)))
        return torch.flatten(x, 2)


def conv(count: int) -> nn.Module:
    return nn.Conv2d(count, 16, 3, padding=1)


def relu() -> nn.Module:
    return nn.ReLU(inplace=True)


COMPUTED = [
    DroppedSlice,
    Halves,
    Groups,
    FlatAtTheEnd,
    WritesToNew,
    StridedSlice,
    lambda: nn.Sequential(conv(3), relu(), conv(16), relu()),
    lambda: nn.Sequential(nn.Conv2d(3, 8, 1), relu(), nn.Dropout(0.0, inplace=True), nn.Conv2d(8, 8, 1)),
    lambda: nn.Sequential(nn.Conv2d(3, 8, 1), relu(), nn.Dropout(0.5, inplace=True), nn.Conv2d(8, 8, 1)).eval(),
    *(
        lambda count=count: nn.Sequential(nn.Conv2d(3, count, 1), nn.Conv2d(count, 48, 1, stride=2))
        for count in (2, 3, 5, 6)
    ),
]
"""Parts that compute in channels_last."""


def results_of(model: nn.Module, x: Tensor) -> list[Tensor]:
    """The results, and the gradients of the input and of the parameters."""
    torch.manual_seed(1)
    x = x.clone().requires_grad_()
    result = model(x)
    results = [result] if isinstance(result, Tensor) else [*result]
    assert all(it.view(2, -1).shape[0] == 2 for it in results if type(model) not in KEPT)
    for it in results:
        it.square().sum().backward(retain_graph=True)
    return [*results, *(it.grad for it in (x, *model.parameters()) if it.grad is not None)]


@pytest.mark.parametrize("make", [*KEPT, *COMPUTED])
def test_code_that_copies_slices_or_writes(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    stock, x = make(), torch.randn(IMAGES)
    fused = copy.deepcopy(stock)
    assert any("channels_last" in it.ops for it in fuse(fused).fused) == (make not in KEPT)
    for found, expected in zip(results_of(fused, x), results_of(stock, x), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, None])
@pytest.mark.parametrize("padding", [(0, 0), (1, 0), "valid"])
@pytest.mark.parametrize(("groups", "size", "weight"), [(1, (2, 3, 64, 64), (48, 3)), (2, (2, 6, 8, 8), (6, 3))])
def test_no_strided_convolution_of_1_x_1_is_onednns_in_channels_last(
    dtype: Any, padding: Any, groups: int, size: Any, weight: Any
) -> None:
    """Its gradient of the weight overruns memory, at 3 or 6 channels and others."""
    options = ((2, 2), padding, (1, 1), groups)
    assert way_of(torch.Size(size), torch.Size((*weight, 1, 1)), dtype, options, "avx2") is not None


PROGRAM = """
import torch; from torch import nn; import burnlike as bl
from burnlike.interop.fused import images
images.gains = lambda: True
torch.set_num_threads(1)
model = nn.Sequential(*(nn.Conv2d(3, 48, 1, stride=2, bias=False), nn.Conv2d(48, 48, 1))[:{count}]).to(torch.{dtype})
assert bl.interop.fuse(model).fused
for _ in range(20):
    x = torch.randn(2, 3, 64, 64).to(torch.{dtype})
    model(x if {count} == 2 else x.contiguous(memory_format=torch.channels_last)).sum().backward()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("count", "dtype"), [(2, "float32"), (2, "bfloat16"), (1, "bfloat16")])
def test_strided_convolutions_of_1_x_1_write_to_no_other_memory(count: int, dtype: str) -> None:
    """A process of its own, which would end."""
    if count == 1 and torch.bfloat16 not in half_products.SLOW:
        pytest.skip("this CPU multiplies bfloat16: one convolution is torch's own")
    program = PROGRAM.format(count=count, dtype=dtype)
    assert subprocess.run([sys.executable, "-c", program], timeout=HANGS_S, check=False).returncode == 0


def test_many_gradients_at_once() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 4)
    model = nn.Sequential(conv(3), nn.Tanh(), conv(16), nn.Flatten())
    fused = copy.deepcopy(model)
    assert "channels_last" in fuse(fused).fused[0].ops
    y, z = fused(x.requires_grad_())[:, :5], model(x)[:, :5]
    rows = torch.eye(10).view(10, 2, 5)
    (found,) = torch.autograd.grad(y, x, rows, is_grads_batched=True)
    (expected,) = torch.autograd.grad(z, x, rows, is_grads_batched=True)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
