"""Operations over lists of tensors."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from burnlike._torch_compat import foreach

A, B, C = (torch.tensor(values) for values in ([1.0, -4.0], [2.0, 0.5], [3.0, -1.0]))
IN_PLACE: dict[str, tuple[tuple[Any, ...], dict[str, Any], Tensor]] = {
    "add_": (([B],), {"alpha": 2}, A + 2 * B),
    "addcdiv_": (([B], [C], [0.5]), {}, A + 0.5 * B / C),
    "addcmul_": (([B], [C]), {"value": -1}, A - B * C),
    "clamp_max_": ((0.5,), {}, torch.tensor([0.5, -4.0])),
    "clamp_min_": ((0.5,), {}, torch.tensor([1.0, 0.5])),
    "copy_": (([B],), {}, B),
    "div_": (([4.0],), {}, A / 4),
    "lerp_": (([B], [0.25]), {}, A + 0.25 * (B - A)),
    "mul_": (([B],), {}, A * B),
    "neg_": ((), {}, -A),
    "sub_": (([B],), {"alpha": 2}, A - 2 * B),
    "zero_": ((), {}, torch.zeros(2)),
}
RESULTS: dict[str, tuple[tuple[Any, ...], dict[str, Any], Tensor]] = {
    "add": (([A], [B]), {"alpha": 2}, A + 2 * B),
    "addcmul": (([A], [B], [C]), {"value": 2}, A + 2 * B * C),
    "clamp_min": (([A], 0.5), {}, torch.tensor([1.0, 0.5])),
    "div": (([A], [B]), {}, A / B),
    "mul": (([A], torch.tensor(3.0)), {}, 3 * A),
    "rsqrt": (([B],), {}, B**-0.5),
    "sqrt": (([B],), {}, B**0.5),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str) -> None:
    args, options, expected = IN_PLACE[name]
    written = [A.clone()]
    getattr(foreach, name)(written, *args, **options)
    assert_close(written[0], expected)


@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str) -> None:
    args, options, expected = RESULTS[name]
    assert_close(getattr(foreach, name)(*args, **options)[0], expected)
