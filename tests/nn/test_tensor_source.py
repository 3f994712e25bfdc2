"""Recipes of tensors in another library's layout, and their inverse."""

import pytest
import torch

from burnlike.errors import NoCounterpartError
from burnlike.nn.tensor_source import TensorRecipe, TensorSource, inverse, whole


def test_the_inverse_gives_back_the_tensors() -> None:
    # GPT-2's way: [d_input, 2 * d_output], of which each here is [d_output, d_input]; a bias; three that become one.
    recipes = whole(
        {
            "query.weight": TensorSource("packed", (0, 2), transposed=True, dim=-1),
            "key.weight": TensorSource("packed", (1, 2), transposed=True, dim=-1),
            "query.bias": TensorSource("packed_bias", (0, 2)),
            "key.bias": TensorSource("packed_bias", (1, 2)),
        }
    )
    recipes["three"] = TensorRecipe(tuple(map(TensorSource, "abc")))
    theirs = {"packed": torch.randn(3, 8), "packed_bias": torch.randn(8), **{name: torch.randn(2, 2) for name in "abc"}}
    ours = {name: recipe.make(theirs) for name, recipe in recipes.items()}
    assert torch.equal(ours["key.weight"], theirs["packed"][:, 4:].mT)
    assert torch.equal(ours["three"], torch.cat([theirs[name] for name in "abc"]))
    for name, recipe in inverse(recipes).items():
        assert torch.equal(recipe.make(ours), theirs[name])
    for name, recipe in recipes.items():
        for source in recipe.sources:
            part = ours[name].chunk(len(recipe.sources))[0]
            assert source.whole_shape(part.shape) == list(theirs[source.name].shape)


def test_a_part_that_is_not_there_is_an_error() -> None:
    with pytest.raises(NoCounterpartError, match="'packed' has 2 parts, of which 1 are there"):
        inverse(whole({"key": TensorSource("packed", (1, 2))}))
