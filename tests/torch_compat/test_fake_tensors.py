"""Tensors without values."""

import torch

from burnlike._torch_compat import fake_tensors


def test_new_mode() -> None:
    one = fake_tensors.fake_of(torch.zeros(3, 4), fake_tensors.new_mode())
    assert (torch.zeros(2, 3) @ one).shape == (2, 4)


def test_fake_of() -> None:
    fake = fake_tensors.fake_of(torch.zeros(3, 4, dtype=torch.float64).t(), fake_tensors.new_mode())
    assert (fake.shape, fake.stride(), fake.dtype) == ((4, 3), (1, 4), torch.float64)
    assert fake.device.type == "cpu"


def test_is_fake() -> None:
    one = fake_tensors.fake_of(torch.zeros(2), fake_tensors.new_mode())
    assert fake_tensors.is_fake(one + torch.ones(2))
    assert not fake_tensors.is_fake(torch.zeros(2))
    assert not fake_tensors.is_fake(1.0)
