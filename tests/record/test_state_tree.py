"""What state_dict() methods give, as plain values and tensors and back; damaged trees are refused."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from burnlike.errors import RecordError, RecordFormatError
from burnlike.record.state_dict.state_tree import decode_tree, encode_tree
from burnlike.record.values import dump_values, load_values


def test_trees_of_states_come_back_as_they_were() -> None:
    tree = {
        "tuple": (1, (2.5, None), [True]),
        "numbers": {1: "one", (2, 3): {"$tensor": "no tensor"}},
        "counter": Counter({5: 2}),
        "tensor": [torch.arange(3), {"x": torch.ones(())}],
        "array": np.arange(3, dtype=np.uint32),
        "scalar": np.float64(0.1),
    }
    tensors: dict[str, torch.Tensor] = {}
    found = decode_tree(encode_tree(tree, "it", tensors), tensors, "here")
    assert repr(found) == repr({**tree, "scalar": 0.1})
    assert set(tensors) == {"it.tensor.0", "it.tensor.1.x", "it.array"}


def test_tensors_of_one_name_are_kept_apart() -> None:
    tensors: dict[str, torch.Tensor] = {}
    values = encode_tree({"a.b": torch.zeros(1), "a": {"b": torch.ones(1)}}, "it", tensors)
    found = decode_tree(values, tensors, "here")
    assert found["a.b"].item() == 0
    assert found["a"]["b"].item() == 1


KEYS = st.text("$ab.", max_size=3) | st.integers() | st.booleans()
LEAVES = st.integers() | st.floats(allow_nan=False) | st.text(max_size=3) | st.booleans() | st.none()
TREES = st.recursive(
    LEAVES,
    lambda below: (
        st.lists(below, max_size=3)
        | st.lists(below, max_size=3).map(tuple)
        | st.dictionaries(KEYS, below, max_size=3)
        | st.dictionaries(st.integers(), st.integers(), max_size=2).map(Counter)
    ),
    max_leaves=12,
)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(TREES)
def test_every_tree_comes_back_through_the_text_in_a_file(tree: Any) -> None:
    text = dump_values({"tree": encode_tree(tree, "tree", {})})
    assert repr(decode_tree(load_values(text, "text")["tree"], {}, "here")) == repr(tree)


@pytest.mark.parametrize(
    "damaged",
    [{"$tensor": "lost"}, {"$array": 3}, {"$tuple": 3}, {"$items": [[1]]}, {"$items": [[[], 1]]}, {"$code": "x"}],
)
def test_damaged_trees_are_refused(damaged: Any) -> None:
    with pytest.raises(RecordFormatError, match=r"here: a .* of the state is damaged"):
        decode_tree([damaged], {}, "here")


def test_what_holds_itself_or_needs_code_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(RecordError, match="nested too deeply, or holds itself"):
        encode_tree(ring, "ring", {})
    with pytest.raises(RecordError, match=r"'it\.f': .* got builtin_function_or_method, which can't be stored"):
        encode_tree({"f": print}, "it", {})


def test_time_grows_with_the_number_of_tensors_alone() -> None:
    class Asked(dict[str, torch.Tensor]):
        listed = 0

        def __iter__(self) -> Iterator[str]:
            self.listed += 1
            return super().__iter__()

        def keys(self) -> Any:
            self.listed += 1
            return super().keys()

    tensors = Asked()
    encode_tree([torch.ones(1) for _ in range(10)], "it", tensors)
    assert len(tensors) == 10
    assert not tensors.listed, "all names were gone through for a single one"
