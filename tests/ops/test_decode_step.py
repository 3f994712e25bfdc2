"""A native step of decoding: what it refuses. What it computes is in tests/models/test_native_steps.py."""

from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike.ops.decode_step import DecodeForm, decode_step

from .hostile import freed, misaligned

FORM = DecodeForm(2, 1, 4, 0, True, False, False, False, False, False, False, False, 0)
"""Two heads of 4 values, one of keys and values; SwiGLU, no biases."""


def arguments() -> dict[str, Any]:
    torch.manual_seed(0)
    shapes = [(8,), (8, 8), (8, 4), (8, 4), (8, 8), (8,), (8, 12), (8, 12), (12, 8), (8,), (8, 5)]
    return {
        "x": torch.randn(3, 8),
        "weights": [torch.randn(shape) for shape in shapes],
        "caches": [torch.zeros(3, 1, 6, 4), torch.zeros(3, 1, 6, 4)],
        "starts": torch.zeros(3, dtype=torch.int64),
        "tables": (torch.ones(6, 2), torch.zeros(6, 2)),
        "filled": 2,
        "form": FORM,
        "epsilon": 1e-5,
    }


def with_weight(given: dict[str, Any], index: int, tensor: Tensor) -> dict[str, Any]:
    weights = [*given["weights"]]
    weights[index] = tensor
    return given | {"weights": weights}


def with_memory(given: dict[str, Any]) -> dict[str, Any]:
    """The same of a block that also attends to a memory of 5 slots."""
    weights, ones = given["weights"], torch.ones(8)
    weights = [*weights[:5], ones, torch.randn(8, 8), torch.randn(8, 8), *weights[5:]]
    form, caches = FORM._replace(has_memory=True), [*given["caches"], torch.zeros(3, 1, 5, 4), torch.zeros(3, 1, 5, 4)]
    more = {"bias": torch.zeros(2, 6), "memory_ends": torch.full((3,), 4)}
    return given | {"weights": weights, "form": form, "caches": caches} | more


WRONG: dict[str, Any] = {
    "x of another dtype": lambda it: it | {"x": it["x"].double()},
    "x without rows": lambda it: it | {"x": it["x"][:0]},
    "x in two pieces": lambda it: it | {"x": torch.randn(8, 3).mT},
    "too few weights": lambda it: it | {"weights": it["weights"][:-1]},
    "too many weights": lambda it: it | {"weights": [*it["weights"], it["weights"][0]]},
    "no weights": lambda it: it | {"weights": []},
    "a weight of another shape": lambda it: with_weight(it, 2, torch.randn(8, 8)),
    "a weight of another dtype": lambda it: with_weight(it, 1, torch.randn(8, 8).half()),
    "a weight without memory": lambda it: with_weight(it, 1, freed(torch.randn(8, 8))),
    "a weight that is not aligned": lambda it: with_weight(it, 1, misaligned(torch.randn(8, 8))),
    "a weight in pieces": lambda it: with_weight(it, 1, torch.randn(16, 16)[::2, ::2]),
    "int8 without scales": lambda it: with_weight(it, 1, torch.zeros(8, 8, dtype=torch.int8)),
    "a norm of another shape": lambda it: with_weight(it, 0, torch.ones(7)),
    "no caches": lambda it: it | {"caches": []},
    "one cache": lambda it: it | {"caches": it["caches"][:1]},
    "caches of another shape": lambda it: it | {"caches": [torch.zeros(3, 2, 6, 4)] * 2},
    "caches of another dtype": lambda it: it | {"caches": [torch.zeros(3, 1, 6, 4).double()] * 2},
    "a cache without memory": lambda it: it | {"caches": [it["caches"][0], freed(torch.zeros(3, 1, 6, 4))]},
    "a full cache": lambda it: it | {"filled": 6},
    "a negative slot": lambda it: it | {"filled": -1},
    "more tokens than slots": lambda it: it | {"x": torch.randn(15, 8)},
    "a start behind": lambda it: it | {"starts": torch.full((3,), 6)},
    "a negative start": lambda it: it | {"starts": torch.full((3,), -1)},
    "starts of another dtype": lambda it: it | {"starts": torch.zeros(3)},
    "starts of other rows": lambda it: it | {"starts": torch.zeros(2, dtype=torch.int64)},
    "no starts": lambda it: it | {"starts": torch.zeros(0, dtype=torch.int64)},
    "short tables": lambda it: it | {"tables": (torch.ones(2, 2), torch.ones(2, 2))},
    "wide tables": lambda it: it | {"tables": (torch.ones(6, 3), torch.ones(6, 3))},
    "unlike tables": lambda it: it | {"tables": (torch.ones(6, 2), torch.ones(6, 1))},
    "heads that do not fit": lambda it: it | {"form": FORM._replace(n_heads=3)},
    "heads that are no multiple": lambda it: it | {"form": FORM._replace(n_heads_kv=3)},
    "an unknown activation": lambda it: it | {"form": FORM._replace(activation=9)},
    "a negative window": lambda it: it | {"form": FORM._replace(window=-1)},
    "weights that are no tables": lambda it: it | {"form": FORM._replace(has_tables=True)},
    "an empty weight": lambda it: with_weight(it, 1, torch.zeros(0, 8)),
    "no form": lambda it: it | {"form": ()},
    "ends without a memory": lambda it: it | {"memory_ends": torch.zeros(3, dtype=torch.int64)},
    "a memory without ends": lambda it: with_memory(it) | {"memory_ends": None},
    "an end behind the memory": lambda it: with_memory(it) | {"memory_ends": torch.full((3,), 5)},
    "ends of other rows": lambda it: with_memory(it) | {"memory_ends": torch.zeros(2, dtype=torch.int64)},
    "a memory without caches": lambda it: with_memory(it) | {"caches": it["caches"]},
    "a bias of fewer distances": lambda it: with_memory(it) | {"bias": torch.zeros(2, 2)},
    "a bias of other heads": lambda it: with_memory(it) | {"bias": torch.zeros(3, 6)},
    "a bias in pieces": lambda it: with_memory(it) | {"bias": torch.zeros(6, 2).mT},
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_refused_before_anything_is_written(change: Any) -> None:
    given = change(arguments())
    before = [it.clone() for it in given["caches"] if it.untyped_storage().nbytes()]
    with pytest.raises(RuntimeError, match=r"decode_step|expected float32|storage"), torch.no_grad():
        decode_step(**given)
    after = [it for it in given["caches"] if it.untyped_storage().nbytes()]
    assert all(map(torch.equal, before, after))


def test_a_fake_and_a_count_of_operations() -> None:
    given = arguments()
    with torch.no_grad():
        logits = decode_step(**given)
    assert logits.shape == (3, 5)
    assert logits.isfinite().all()
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        assert decode_step(**arguments()).shape == (3, 5)
    # 64 + 32 + 32 + 64 + 3 * 96 products, 2 of 4 values for each of 2 heads and of the slots seen, 40 for the logits.
    for new, seen in ((1, 3), (2, 3 + 4)):
        given = arguments()
        given["x"] = torch.randn(3 * new, 8)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            decode_step(**given)
        assert counter.get_total_flops() == 2 * 3 * (new * 480 + 2 * 2 * 4 * seen + 40)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        decode_step(**with_memory(arguments()))
    assert counter.get_total_flops() == 2 * 3 * (480 + 128 + 2 * 2 * 4 * (3 + 5) + 40)
