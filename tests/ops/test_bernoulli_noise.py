"""Noise of torch's own random numbers: what is refused, and that all instruction sets draw the same."""

import pytest
import torch

from burnlike.ops import bernoulli_noise_, force_cpu_isa, native_status

from .hostile import freed


def test_every_instruction_set_draws_the_same_and_goes_on_where_the_last_one_stopped() -> None:
    found: list[torch.Tensor] = []
    for isa in native_status().isas:
        with force_cpu_isa(isa):
            torch.manual_seed(3)
            parts = [bernoulli_noise_(torch.empty(count), 0.3, 2.0) for count in (1, 311, 313, 2000, 0)]
            found.append(torch.cat([*parts, torch.rand(3)]))
    assert all(torch.equal(found[0], it) for it in found)
    assert found[0][:-3].unique().tolist() == [0.0, 2.0]
    assert abs((found[0][:-3] > 0).double().mean().item() - 0.3) < 0.03
    assert (bernoulli_noise_(torch.empty(9), 0.0) == 0).all()
    assert (bernoulli_noise_(torch.empty(9), 1.0) == 1).all()


def test_other_noise_and_states_are_refused() -> None:
    state, noise = torch.default_generator.get_state(), torch.zeros(4)
    call = torch.ops.burnlike.bernoulli_noise_.default
    broken = state.clone()
    broken[8:12] = 255  # the count of numbers that are left
    for arguments, said in (
        ((torch.zeros(4, 4).mT[1:], state, 0.5, 1.0), "expected contiguous noise"),
        ((torch.zeros(4, dtype=torch.int64), state, 0.5, 1.0), "expected float32"),
        ((noise, state[1:], 0.5, 1.0), "expected the 5056 bytes"),
        ((noise, state.view(torch.int8), 0.5, 1.0), "expected the 5056 bytes"),
        ((noise, broken, 0.5, 1.0), "expected the state of a generator"),
        ((noise, state, 1.5, 1.0), "expected a probability"),
        ((noise, state, float("nan"), 1.0), "expected a probability"),
        ((freed(torch.zeros(4)), state, 0.5, 1.0), "storage was freed"),
        ((noise, freed(state.clone()), 0.5, 1.0), "storage was freed"),
    ):
        with pytest.raises(RuntimeError, match=said):
            call(*arguments)
