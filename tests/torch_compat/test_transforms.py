"""Transforms of `torch.func`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from burnlike._torch_compat import transforms


def test_transforming() -> None:
    seen: list[bool] = []

    def loss(x: Tensor) -> Tensor:
        seen.append(transforms.transforming())
        return x.sum()

    torch.func.grad(loss)(torch.ones(2))
    assert seen == [True]
    assert not transforms.transforming()


def test_readable() -> None:
    seen: list[bool] = []

    def loss(x: Tensor) -> Tensor:
        seen.append(transforms.readable(x))
        return x.sum()

    torch.func.grad(loss)(torch.ones(2))
    assert seen == [False]
    assert transforms.readable(torch.ones(2))
    assert not transforms.readable(torch.ones(2, device="meta"))


def test_in_forward_mode() -> None:
    assert not transforms.in_forward_mode()
    with forward_ad.dual_level():
        assert transforms.in_forward_mode()
    assert not transforms.in_forward_mode()


def of_argument(transform: Callable[..., Any], question: Callable[[Tensor], bool]) -> bool:
    """What `question` says of the argument within `transform`; it says False of tensors outside."""
    seen: list[bool] = []

    def asked(x: Tensor) -> Tensor:
        seen.append(question(x))
        return x.sum()

    assert not question(torch.ones(2, 3))
    transform(asked)(torch.ones(2, 3))
    return seen[0]


def test_is_wrapped() -> None:
    assert of_argument(torch.func.grad, transforms.is_wrapped)
    assert of_argument(torch.func.vmap, transforms.is_wrapped)


def test_is_batched() -> None:
    assert of_argument(torch.func.vmap, transforms.is_batched)
    assert not of_argument(torch.func.grad, transforms.is_batched)


def test_is_batched_by_autograd() -> None:
    seen: list[bool] = []
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: seen.append(transforms.is_batched_by_autograd(grad)))
    torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True, retain_graph=True)
    torch.autograd.grad(y, x, torch.ones(3))
    assert seen == [True, False]


def test_is_differentiated() -> None:
    assert of_argument(torch.func.grad, transforms.is_differentiated)
    assert not of_argument(torch.func.vmap, transforms.is_differentiated)
