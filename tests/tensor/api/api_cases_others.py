"""Cases of names that neither a vector nor a test of their own has."""

from typing import Any

import torch

from burnlike.errors import TensorError
from burnlike.tensor import linalg

from .api_cases import Pairs, bools, case, double, floats, ints, tracking


@case("full_like")
def full_like(backend: Any) -> Pairs:
    return [
        (floats([[1.0, 2.0]], backend).full_like(2.5), [[2.5, 2.5]]),
        (ints([1, 2], backend).full_like(7), [7, 7]),
        (bools([False, False], backend).full_like(True), [True, True]),
    ]


@case("flatten", "squeeze", "squeeze_dim", "unsqueeze_dims")
def shapes(backend: Any) -> Pairs:
    x = floats([[[1.0, 2.0]], [[3.0, 4.0]]], backend)
    return [
        (x.flatten(0, 1), [[1.0, 2.0], [3.0, 4.0]]),
        (x.flatten(0, 2), [1.0, 2.0, 3.0, 4.0]),
        (x.squeeze(), [[1.0, 2.0], [3.0, 4.0]]),
        (x.squeeze_dim(1), [[1.0, 2.0], [3.0, 4.0]]),
        (ints([5, 6], backend).unsqueeze_dims([0, -1]), [[[5], [6]]]),
    ]


ROWS = [[1.0, -2.0], [0.5, 4.0]]


READERS = "into_data to_data try_into_data try_to_data"


@case(*READERS.split())
def data(backend: Any) -> Pairs:
    x, n, b = floats(ROWS, backend), ints([3, -4], backend), bools([True, False], backend)
    return [pair for name in READERS.split() for pair in (
        (getattr(x, name)(), ROWS),
        (getattr(n, name)(), [3, -4]),
        (getattr(b, name)(), [True, False]),
        (getattr(x, name)().dtype, torch.float32),
    )]  # fmt: skip


TYPED = "to_data_as try_to_data_as into_data_as try_into_data_as"
NAMED = "to_data_dtype try_to_data_dtype into_data_dtype try_into_data_dtype"


@case(*TYPED.split(), *NAMED.split())
def data_of_another_type(backend: Any) -> Pairs:
    n = ints([3, -4], backend)
    pairs: Pairs = []
    for name in TYPED.split():
        pairs.append((getattr(n, name)(float), double([3.0, -4.0])))
    for name in NAMED.split():
        found = getattr(n, name)(torch.float16)
        pairs += [(found, [3.0, -4.0]), (found.dtype, torch.float16)]
    return pairs


@case("try_to_vec_as", "try_into_vec_as")
def vectors_of_another_type(backend: Any) -> Pairs:
    n = ints([[3, -4], [0, 1]], backend)
    return [(n.try_to_vec_as(float), [3.0, -4.0, 0.0, 1.0]), (n.try_into_vec_as(int), [3, -4, 0, 1])]


@case("gradient_checkpointing_strategy", "with_gradient_checkpointing_strategy")
def checkpointing(backend: Any) -> Pairs:
    x = floats([2.0], tracking(backend)).require_grad()
    kept = x.with_gradient_checkpointing_strategy(x.gradient_checkpointing_strategy())
    grads = (kept * kept).backward()
    return [(x.gradient_checkpointing_strategy(), "NoCheckpointing"), (x.grad(grads), [4.0])]


@case("is_distributed", "set_distributed")
def distributed(backend: Any) -> Pairs:
    x = floats([2.0], backend)
    try:
        x.set_distributed("0")
    except TensorError:
        refused = True
    else:
        refused = False
    return [(x.is_distributed(), False), (refused, True)]


@case("linalg.lu")
def lu(backend: Any) -> Pairs:
    x = floats([[1.0, 2.0], [4.0, 3.0]], backend)
    p, low, up = linalg.lu(x)
    return [
        (p, [[0.0, 1.0], [1.0, 0.0]]),
        (low, [[1.0, 0.0], [0.25, 1.0]]),
        (up, [[4.0, 3.0], [0.0, 1.25]]),
        (p.matmul(low).matmul(up), [[1.0, 2.0], [4.0, 3.0]]),
    ]


@case("linalg.qr")
def qr(backend: Any) -> Pairs:
    # The first column has length 5; the determinant, 2, leaves 2 / 5 for the second. Signs are free.
    data = [[3.0, 1.0], [4.0, 2.0]]
    q, r = linalg.qr(floats(data, backend), True)
    return [
        (q.matmul(r), data),
        (q.transpose().matmul(q), [[1.0, 0.0], [0.0, 1.0]]),
        (r.abs(), [[5.0, 2.2], [0.0, 0.4]]),
    ]


@case("linalg.svd")
def svd(backend: Any) -> Pairs:
    data = [[3.0, 0.0], [4.0, 5.0], [0.0, 1.0]]
    u, s, vt = linalg.svd(floats(data, backend), 30)
    return [
        (s, torch.linalg.svdvals(double(data))),
        (u.mul(s.unsqueeze(rank=2)).matmul(vt), data),
        (u.transpose().matmul(u), [[1.0, 0.0], [0.0, 1.0]]),
        (vt.matmul(vt.transpose()), [[1.0, 0.0], [0.0, 1.0]]),
    ]


MATRIX = [[1.0, -2.0, 2.0], [0.0, 3.0, -4.0]]


@case("linalg.l2_norm")
def l2_norm(backend: Any) -> Pairs:
    return [(linalg.l2_norm(floats(MATRIX, backend), 1), [[3.0], [5.0]])]


@case("linalg.vector_norm_dims", "linalg.lp_norm_dims", "linalg.l2_norm_dims")
def norms_of_several_dims(backend: Any) -> Pairs:
    x = floats(MATRIX, backend)
    return [
        (linalg.vector_norm_dims(x, "L1", [0, 1]), [[12.0]]),
        (linalg.vector_norm_dims(x, 3.0, [-1]), [[17.0 ** (1 / 3)], [91.0 ** (1 / 3)]]),
        (linalg.lp_norm_dims(x, 3.0, [0, 1]), [[108.0 ** (1 / 3)]]),
        (linalg.l2_norm_dims(x, [0, 1]), [[34.0**0.5]]),
    ]


@case("linalg.l0_norm_dims", "linalg.l1_norm_dims", "linalg.max_abs_norm_dims", "linalg.min_abs_norm_dims")
def counting_norms_of_several_dims(backend: Any) -> Pairs:
    x, n = floats(MATRIX, backend), ints([[1, -2, 2], [0, 3, -4]], backend)
    return [
        (linalg.l0_norm_dims(x, [0, 1]), [[5.0]]),
        (linalg.l1_norm_dims(x, [0]), [[1.0, 5.0, 6.0]]),
        (linalg.max_abs_norm_dims(x, [0, 1]), [[4.0]]),
        (linalg.min_abs_norm_dims(x, [1]), [[1.0], [0.0]]),
        (linalg.l0_norm_dims(n, [0, 1]), [[5]]),
        (linalg.l1_norm_dims(n, [0, 1]), [[12]]),
        (linalg.max_abs_norm_dims(n, [1]), [[2], [4]]),
        (linalg.min_abs_norm_dims(n, [0, 1]), [[0]]),
    ]
