"""Tensors without values."""

import copy
import logging
import warnings
import weakref

import pytest
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


def test_active_mode() -> None:
    assert fake_tensors.active_mode() is None
    mode = fake_tensors.new_mode()
    with mode:
        assert fake_tensors.active_mode() is fake_tensors.new_mode() is mode


def test_is_plain() -> None:
    one = fake_tensors.fake_of(torch.zeros(2), fake_tensors.new_mode())
    assert all(map(fake_tensors.is_plain, (type(one), torch.Tensor, torch.nn.Parameter)))
    assert not fake_tensors.is_plain(type("Wrapper", (torch.Tensor,), {}))


def test_NEEDS_VALUES() -> None:
    with fake_tensors.new_mode():
        for read in (lambda it: it.sum().item(), torch.nonzero):
            with pytest.raises(fake_tensors.NEEDS_VALUES):
                read(torch.ones(3))


def test_READS_NUMBER() -> None:
    assert fake_tensors.READS_NUMBER(torch.tensor(3)) == 3


def test_unlogged() -> None:
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    with fake_tensors.unlogged():
        assert logger.disabled
        with fake_tensors.new_mode(), pytest.raises(RuntimeError):
            _ = torch.ones(2, 3) @ torch.ones(2, 3)
    assert not logger.disabled


def test_memory_of() -> None:
    one, other = torch.zeros(4), torch.zeros(4)
    assert fake_tensors.memory_of(one.untyped_storage()) == fake_tensors.memory_of(one[2:].untyped_storage())
    assert fake_tensors.memory_of(one.untyped_storage()) != fake_tensors.memory_of(other.untyped_storage())


def test_forget() -> None:
    mode = fake_tensors.new_mode()
    with mode:
        one = torch.zeros(2)
    fake_tensors.forget(mode)
    assert not weakref.getweakrefs(one)


def test_adopt() -> None:
    mode = fake_tensors.new_mode()
    with mode:
        parameter = torch.nn.Parameter(torch.zeros(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        copied = copy.deepcopy(parameter)
    fake_tensors.adopt(copied, mode)
    with torch.no_grad():
        assert copied.mul_(2) is copied
        assert copied.view(2, 1).untyped_storage()._cdata == copied.untyped_storage()._cdata


def test_with_values() -> None:
    mode = fake_tensors.new_mode()
    with mode, fake_tensors.with_values():
        assert not fake_tensors.is_fake(torch.zeros(2))
    with mode:
        assert fake_tensors.is_fake(torch.zeros(2))
