"""Cases of free functions: activations, layers, linear algebra."""

from typing import Any

import torch
from torch.nn import functional

from burnlike.tensor import activation, linalg, module
from burnlike.tensor.options import AvgPoolOptions, ConvOptions, MaxPoolOptions

from .api_cases import Pairs, case, double, floats, ints

POINTS = [-4.0, -1.0, -0.25, 0.0, 0.5, 3.5]


@case("activation.gelu_approximate")
def gelu_approximate(backend: Any) -> Pairs:
    x = floats(POINTS, backend)
    return [(activation.gelu_approximate(x), functional.gelu(double(POINTS), approximate="tanh"))]


@case("activation.hard_sigmoid")
def hard_sigmoid(backend: Any) -> Pairs:
    return [(activation.hard_sigmoid(floats(POINTS, backend), 0.2, 0.5), [0.0, 0.3, 0.45, 0.5, 0.6, 1.0])]


@case("activation.hard_swish")
def hard_swish(backend: Any) -> Pairs:
    return [(activation.hard_swish(floats(POINTS, backend)), functional.hardswish(double(POINTS)))]


@case("activation.mish")
def mish(backend: Any) -> Pairs:
    return [(activation.mish(floats(POINTS, backend)), functional.mish(double(POINTS)))]


@case("activation.softsign")
def softsign(backend: Any) -> Pairs:
    return [(activation.softsign(floats(POINTS, backend)), [-0.8, -0.5, -0.2, 0.0, 1 / 3, 7 / 9])]


@case("activation.tanhshrink")
def tanhshrink(backend: Any) -> Pairs:
    return [(activation.tanhshrink(floats(POINTS, backend)), functional.tanhshrink(double(POINTS)))]


@case("activation.softplus_with_threshold")
def softplus_with_threshold(backend: Any) -> Pairs:
    # Above the threshold of beta * x the function is x itself: 3.5 * 2 > 5.
    expected = torch.log1p(torch.exp(2.0 * double(POINTS))) / 2.0
    expected[-1] = 3.5
    return [(activation.softplus_with_threshold(floats(POINTS, backend), 2.0, 5.0), expected)]


@case("module.conv2d_weight_backward")
def conv2d_weight_backward(backend: Any) -> Pairs:
    x = torch.arange(32.0, dtype=torch.float64).reshape(1, 2, 4, 4) / 8
    weight = torch.ones(3, 2, 2, 2, dtype=torch.float64)
    grad = torch.arange(27.0, dtype=torch.float64).reshape(1, 3, 3, 3) / 9
    expected = torch.nn.grad.conv2d_weight(x, weight.shape, grad)
    args = [floats(it.tolist(), backend) for it in (x, weight, grad)]
    return [(module.conv2d_weight_backward(*args, ConvOptions()), expected)]


@case("module.max_pool2d_with_indices_backward")
def max_pool2d_with_indices_backward(backend: Any) -> Pairs:
    x = floats([[[[1.0, 2.0], [4.0, 3.0]]]], backend)
    options = MaxPoolOptions([2, 2], stride=[1, 1])
    _, indices = module.max_pool2d_with_indices(x, options)
    grad = floats([[[[5.0]]]], backend)
    return [(module.max_pool2d_with_indices_backward(x, options, grad, indices), [[[[0.0, 0.0], [5.0, 0.0]]]])]


@case("module.avg_pool2d_backward")
def avg_pool2d_backward(backend: Any) -> Pairs:
    x, grad = floats([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]], backend), floats([[[[4.0, 8.0]]]], backend)
    options = AvgPoolOptions([2, 2], stride=[1, 1])
    return [(module.avg_pool2d_backward(x, grad, options), [[[[1.0, 3.0, 2.0], [1.0, 3.0, 2.0]]]])]


@case("module.attention_fallback")
def attention_fallback(backend: Any) -> Pairs:
    q, k, v = (torch.randn(1, 2, 3, 4, dtype=torch.float64) for _ in range(3))
    expected = functional.scaled_dot_product_attention(q, k, v)
    return [(module.attention_fallback(*(floats(it.tolist(), backend) for it in (q, k, v))), expected)]


@case("module.layer_norm")
def layer_norm(backend: Any) -> Pairs:
    x, gamma, beta = [[1.0, 2.0, 4.0], [0.0, -1.0, 3.0]], [1.0, 2.0, 0.5], [0.0, 1.0, -1.0]
    args = [floats(it, backend) for it in (x, gamma, beta)]
    expected = functional.layer_norm(double(x), [3], double(gamma), double(beta), 1e-5)
    plain = functional.layer_norm(double(x), [3], double(gamma), None, 1e-5)
    return [(module.layer_norm(*args, 1e-5), expected), (module.layer_norm(*args[:2], None, 1e-5), plain)]


@case("module.batch_norm_train")
def batch_norm_train(backend: Any) -> Pairs:
    x, gamma, beta = [[1.0, 2.0], [3.0, 6.0]], [1.0, 2.0], [0.0, 1.0]
    found = module.batch_norm_train(*(floats(it, backend) for it in (x, gamma, beta)), 0.0)
    return [
        (found.output, [[-1.0, -1.0], [1.0, 3.0]]),
        (found.mean, [2.0, 4.0]),
        (found.variance, [1.0, 4.0]),
    ]


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
