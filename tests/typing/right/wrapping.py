"""Wrapping torch tensors: the backend is known, rank and kind are what an annotation says."""

from typing import Any, assert_type

import torch

from burnlike import D1, D2, Autodiff, Cpu, Float, Int, Tensor

bare = Tensor(torch.ones(2, 3))
assert_type(bare, Tensor[Any, Any, Any])
indices = Tensor(torch.tensor([0, 1]), Cpu())
assert_type(indices, Tensor[Cpu, Any, Any])
matrix: Tensor[Cpu, D2] = Tensor(torch.ones(2, 3), Cpu())
tracked: Tensor[Autodiff[Cpu], D2] = Tensor(torch.ones(2, 3), Autodiff(Cpu()))
whole: Tensor[Cpu, D1, Int] = Tensor(torch.tensor([0, 1]), Cpu())

assert_type(matrix.select(0, indices), Tensor[Cpu, D2, Float])
assert_type(indices.bitwise_and(indices), Tensor[Cpu, Any, Int])
assert_type(whole + whole, Tensor[Cpu, D1, Int])
assert_type(tracked.exp().backward().get(torch.ones(1)), torch.Tensor | None)
assert_type(matrix.inner, torch.Tensor)
