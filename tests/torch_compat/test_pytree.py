"""torch's pytrees."""

from typing import Any

import pytest
import torch

from burnlike._torch_compat import pytree


class Pair:
    """What torch does not know."""

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


def keys_of(pair: Pair) -> Any:
    return [(pytree.GetAttrKey("a"), pair.a), (pytree.MappingKey("b"), pair.b)], None


@pytest.fixture(scope="module")
def pair() -> Pair:
    pytree.register_pytree_node(
        Pair,
        lambda it: ([it.a, it.b], None),
        lambda values, _: Pair(*values),
        serialized_type_name="tests.Pair",
        flatten_with_keys_fn=keys_of,
        to_dumpable_context=lambda context: context,
        from_dumpable_context=lambda context: context,
    )
    return Pair(1, [2, 3])


def test_register_pytree_node(pair: Pair) -> None:
    of_both = torch.func.vmap(lambda it: it.a + it.b)(Pair(torch.ones(2), torch.ones(2)))
    assert of_both.tolist() == [2.0, 2.0]


def test_SUPPORTED_NODES(pair: Pair) -> None:
    known = pytree.SUPPORTED_NODES[Pair]
    assert known.flatten_fn(pair)[0] == [1, [2, 3]]
    assert known.unflatten_fn([4, 5], None).b == 5


def test_tree_flatten(pair: Pair) -> None:
    assert pytree.tree_flatten({"x": pair})[0] == [1, 2, 3]
    leaves, _ = pytree.tree_flatten(pair, is_leaf=lambda it: isinstance(it, list))
    assert leaves == [1, [2, 3]]


def test_tree_unflatten(pair: Pair) -> None:
    _, form = pytree.tree_flatten(pair)
    assert pytree.tree_unflatten([4, 5, 6], form).b == [5, 6]


def test_tree_leaves(pair: Pair) -> None:
    assert pytree.tree_leaves(((pair,), {})) == [1, 2, 3]


def test_tree_map(pair: Pair) -> None:
    assert pytree.tree_map(lambda it: -it, pair).b == [-2, -3]


def test_tree_map_only(pair: Pair) -> None:
    assert pytree.tree_map_only(int, lambda it: -it, {"x": pair, "y": "text"})["y"] == "text"
    assert pytree.tree_map_only(int, lambda it: -it, pair).b == [-2, -3]


def test_TreeSpec(pair: Pair) -> None:
    _, form = pytree.tree_flatten(pair)
    assert isinstance(form, pytree.TreeSpec)


def test_tree_flatten_with_path(pair: Pair) -> None:
    paths = [path for path, _ in pytree.tree_flatten_with_path(pair)[0]]
    assert [path[0] for path in paths] == [pytree.GetAttrKey("a"), *[pytree.MappingKey("b")] * 2]
    assert paths[1][1].idx == 0


def test_GetAttrKey() -> None:
    assert pytree.GetAttrKey("a").name == "a"


def test_MappingKey() -> None:
    assert pytree.MappingKey("b").key == "b"


def test_broadcast_prefix() -> None:
    _, form = pytree.tree_flatten(([1, 2], 3))
    assert pytree.broadcast_prefix((0, None), form) == [0, 0, None]
    assert pytree.broadcast_prefix((0, 0, 0), form) is None
