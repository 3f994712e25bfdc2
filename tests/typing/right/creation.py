"""The rank of a new tensor comes from the arity of its shape, the kind from `kind`, the backend is always named."""

from typing import assert_type

import torch

from burnlike import D1, D2, D3, D4, Autodiff, Bool, Cpu, Float, Int, Tensor
from burnlike.tensor import Distribution


def by_arity(backend: Cpu) -> None:
    assert_type(Tensor.zeros((3,), backend), Tensor[Cpu, D1, Float])
    assert_type(Tensor.ones((2, 3), backend), Tensor[Cpu, D2, Float])
    assert_type(Tensor.empty((2, 3, 4), backend), Tensor[Cpu, D3, Float])
    assert_type(Tensor.full((2, 3, 4, 5), 1.5, backend), Tensor[Cpu, D4, Float])
    assert_type(Tensor.random((2, 3), Distribution.Default, backend), Tensor[Cpu, D2, Float])


def by_kind(backend: Autodiff[Cpu]) -> None:
    assert_type(Tensor.zeros((2, 3), backend, kind=Int), Tensor[Autodiff[Cpu], D2, Int])
    assert_type(Tensor.zeros((2, 3), backend, kind=Bool), Tensor[Autodiff[Cpu], D2, Bool])
    assert_type(Tensor.full((2,), 7, backend, kind=Int), Tensor[Autodiff[Cpu], D1, Int])
    assert_type(Tensor.ones((2,), backend, dtype=torch.float64), Tensor[Autodiff[Cpu], D1, Float])


def like(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int], b: Tensor[Cpu, D2, Bool]) -> None:
    assert_type(x.zeros_like(), Tensor[Cpu, D2, Float])
    assert_type(n.ones_like(), Tensor[Cpu, D2, Int])
    assert_type(b.empty_like(), Tensor[Cpu, D2, Bool])
    assert_type(n.full_like(3), Tensor[Cpu, D2, Int])
    assert_type(x.random_like(Distribution.Default), Tensor[Cpu, D2, Float])


def from_lists(backend: Cpu) -> None:
    assert_type(Tensor.from_floats([1.0, 2.0], backend), Tensor[Cpu, D1, Float])
    assert_type(Tensor.from_floats([[1.0, 2.0]], backend), Tensor[Cpu, D2, Float])
    assert_type(Tensor.from_ints([1, 2], backend), Tensor[Cpu, D1, Int])
    assert_type(Tensor.from_ints([[1], [2]], backend), Tensor[Cpu, D2, Int])
    assert_type(Tensor.from_bool([True, False], backend), Tensor[Cpu, D1, Bool])


def of_known_rank(backend: Cpu) -> None:
    assert_type(Tensor.arange(0, 4, backend), Tensor[Cpu, D1, Int])
    assert_type(Tensor.eye(3, backend), Tensor[Cpu, D2, Float])
    assert_type(Tensor.triu_mask((3, 3), 0, backend), Tensor[Cpu, D2, Bool])
    assert_type(Tensor.cartesian_grid((2, 3), backend), Tensor[Cpu, D3, Int])


def wrapped(raw: torch.Tensor, backend: Cpu) -> None:
    x: Tensor[Cpu, D2] = Tensor(raw, backend)
    assert_type(x.backend, Cpu)
    assert_type(x.inner, torch.Tensor)
    assert_type(x.shape, torch.Size)
    assert_type(x.dtype, torch.dtype)
