"""Keys: numbers as a function of values, the same in eager and in compiled code."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo.testing
from torch import Tensor
from torch.utils import _pytree as pytree

from burnlike import mlax
from burnlike.errors import ArgumentError
from burnlike.random.philox import philox

KEYS = [mlax.Key(0), mlax.Key(-1), mlax.Key(2**40 + 1), mlax.Key(3).fold_in(2), mlax.Key(3).split(2)[1]]

# kat_vectors of Random123: counter, key, expected words.
KNOWN = [
    ((0, 0), 0, (0xFF1DAE59, 0x6CD10DF2)),
    ((0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFF, (0x2C3F628B, 0xAB4FD7AD)),
    ((0x243F6A88, 0x85A308D3), 0x13198A2E, (0xDD7CE038, 0xF62A4C12)),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_words_are_those_of_random123(counter: tuple[int, int], key: int, expected: tuple[int, int]) -> None:
    assert philox(*counter, key) == expected
    words = philox(*(torch.tensor(it) for it in (*counter, key)))
    assert tuple(word.item() for word in words) == expected


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_uniform_numbers_are_uniform(dtype: torch.dtype) -> None:
    found = mlax.Key(1).rand((100, 1000), dtype=dtype)
    assert (found.dtype, found.shape) == (dtype, (100, 1000))
    values = found.double().flatten()
    assert 0 <= values.min() < values.max() < 1
    below = torch.finfo(dtype).eps / 2
    assert torch.equal(values, (values / below).round() * below)
    counts = torch.histc(values, 32, 0, 1)
    assert (counts - 3125).square().sum() / 3125 < 80  # chi squared of 31: 80 has a probability of 4e-6
    assert torch.corrcoef(torch.stack((values[1:], values[:-1])))[0, 1].abs() < 0.02
    bits = (values / below).long() & 15 if dtype != torch.bfloat16 else (values / below / 2).long() & 7
    assert torch.bincount(bits).double().std() < 0.05 * len(values) / (bits.max() + 1)


def test_normal_numbers_are_normal() -> None:
    values = mlax.Key(1).randn((200_000,), dtype=torch.float64)
    for power, expected in {1: 0.0, 2: 1.0, 3: 0.0, 4: 3.0}.items():
        assert values.pow(power).mean().item() == pytest.approx(expected, abs=0.05)
    assert mlax.Key(1).randn((), dtype=torch.bfloat16).dtype == torch.bfloat16


def test_what_a_key_gives_depends_on_its_64_bits_alone() -> None:
    assert mlax.Key(2**64 + 5) == mlax.Key(5)
    assert mlax.Key(2**63) == mlax.Key(-(2**63))
    for key in KEYS:
        other = mlax.Key(torch.tensor(key.seed))
        assert key == other
        assert hash(key) == hash(other)
        assert key.split(3) == other.split(3)
        assert key.fold_in(7) == other.fold_in(7) == key.fold_in(torch.tensor(7))
        assert torch.equal(key.rand((5,)), other.rand((5,)))
        assert key.generator().initial_seed() == other.generator().initial_seed()
    assert torch.equal(mlax.Key(1).rand((7,))[:3], mlax.Key(1).rand((3,)))


def test_keys_and_the_numbers_that_they_draw_are_apart() -> None:
    key = mlax.Key(3)
    made = [key, *key.split(50), *(key.fold_in(index) for index in range(50)), mlax.Key(4), *mlax.Key(4).split(2)]
    assert len({*made}) == len(made)
    drawn = torch.cat([each.rand((100,), dtype=torch.float64) for each in made])
    assert len(drawn.unique()) == len(drawn)


def drawn(key: Any, x: Tensor) -> tuple[Any, ...]:
    first, second = key.split(2)
    return key.rand(x.shape), first.fold_in(3).rand(x.shape), second.randn(x.shape, dtype=torch.float64), second


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_code_draws_the_same_numbers_and_is_compiled_once_for_all_keys(backend: str) -> None:
    counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
    compiled, x = torch.compile(drawn, fullgraph=True, backend=counter), torch.zeros(2, 3)
    for key in KEYS:
        for found, expected in zip(compiled(key, x), drawn(key, x), strict=True):
            assert torch.equal(found, expected) if isinstance(found, Tensor) else found == expected
    assert counter.frame_count <= 2  # the second one takes the seed as a variable


def test_a_generator_can_not_be_made_in_compiled_code() -> None:
    draw: Callable[..., Any] = torch.compile(
        lambda key: torch.rand(2, generator=key.generator()), fullgraph=True, backend="eager"
    )
    with pytest.raises(Exception, match=r"compiled code can't make a torch\.Generator: draw by key\.rand"):
        draw(mlax.Key(0))
    assert issubclass(ArgumentError, ValueError)


def test_vmap_maps_over_keys() -> None:
    keys = mlax.Key(5).split(4)
    many = mlax.Key(torch.tensor([key.seed for key in keys]))
    assert many == mlax.Key(many.seed.clone())
    assert many != keys[0]
    x = torch.zeros(3)
    expected = torch.stack([drawn(key, x)[1] for key in keys])
    mapped = torch.func.vmap(lambda key: drawn(key, x)[1])
    assert torch.equal(mapped(many), expected)
    assert torch.equal(torch.compile(mapped, fullgraph=True, backend="eager")(many), expected)
    gradient = torch.func.vmap(torch.func.grad(lambda w, key: (w * key.rand((3,))).sum()), in_dims=(None, 0))
    assert torch.equal(gradient(x, many), torch.stack([key.rand((3,)) for key in keys]))


def test_a_key_is_a_pytree() -> None:
    assert pytree.tree_leaves({"key": mlax.Key(7), "x": 1}) == [7, 1]
    assert pytree.tree_map(lambda seed: seed + 1, mlax.Key(7)) == mlax.Key(8)
    assert [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(mlax.Key(7))[0]] == [".seed"]
