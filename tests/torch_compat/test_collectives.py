"""Exchanges that gradients flow back through."""

import torch

from burnlike._torch_compat.collectives import exchanged, gathered


def test_gathered(group: None) -> None:
    own = torch.randn(3, 2, requires_grad=True)
    found = gathered(own, torch.distributed.group.WORLD)
    (found * torch.arange(6.0).view(3, 2)).sum().backward()
    assert torch.equal(found, own)
    assert own.grad is not None
    assert torch.equal(own.grad, torch.arange(6.0).view(3, 2))


def test_exchanged(group: None) -> None:
    rows = torch.randn(3, 2, requires_grad=True)
    found = exchanged(rows, [3], [3], torch.distributed.group.WORLD)
    (found * 2).sum().backward()
    assert torch.equal(found, rows)
    assert rows.grad is not None
    assert torch.equal(rows.grad, torch.full((3, 2), 2.0))
