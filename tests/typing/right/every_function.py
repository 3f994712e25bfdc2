"""Every free function once: rank and kind of the result."""

from typing import Any, assert_type

import torch

from burnlike import D1, D2, D3, D4, D5, Bool, Cpu, Float, Int, Tensor
from burnlike.tensor import (
    ConvOptions,
    ConvTransposeOptions,
    DeformConvOptions,
    GridSampleOptions,
    InterpolateOptions,
    StftOptions,
    UnfoldOptions,
    activation,
    grid,
    linalg,
    loss,
    module,
    signal,
)


def activations(x: Tensor[Cpu, D3], alpha: Tensor[Cpu, D1], raw: torch.Tensor) -> None:
    assert_type(activation.relu(x), Tensor[Cpu, D3, Float])
    assert_type(activation.gelu(x), Tensor[Cpu, D3, Float])
    assert_type(activation.gelu_approximate(x), Tensor[Cpu, D3, Float])
    assert_type(activation.sigmoid(x), Tensor[Cpu, D3, Float])
    assert_type(activation.log_sigmoid(x), Tensor[Cpu, D3, Float])
    assert_type(activation.silu(x), Tensor[Cpu, D3, Float])
    assert_type(activation.hard_swish(x), Tensor[Cpu, D3, Float])
    assert_type(activation.mish(x), Tensor[Cpu, D3, Float])
    assert_type(activation.tanh(x), Tensor[Cpu, D3, Float])
    assert_type(activation.selu(x), Tensor[Cpu, D3, Float])
    assert_type(activation.softsign(x), Tensor[Cpu, D3, Float])
    assert_type(activation.tanhshrink(x), Tensor[Cpu, D3, Float])
    assert_type(activation.relu6(x), Tensor[Cpu, D3, Float])
    assert_type(activation.softmax(x, 1), Tensor[Cpu, D3, Float])
    assert_type(activation.softmin(x, 1), Tensor[Cpu, D3, Float])
    assert_type(activation.quiet_softmax(x, 1), Tensor[Cpu, D3, Float])
    assert_type(activation.log_softmax(x, 1), Tensor[Cpu, D3, Float])
    assert_type(activation.glu(x, 1), Tensor[Cpu, D3, Float])
    assert_type(activation.leaky_relu(x, 0.5), Tensor[Cpu, D3, Float])
    assert_type(activation.softplus(x, 0.5), Tensor[Cpu, D3, Float])
    assert_type(activation.elu(x, 0.5), Tensor[Cpu, D3, Float])
    assert_type(activation.celu(x, 0.5), Tensor[Cpu, D3, Float])
    assert_type(activation.thresholded_relu(x, 0.5), Tensor[Cpu, D3, Float])
    assert_type(activation.hard_shrink(x, 0.5), Tensor[Cpu, D3, Float])
    assert_type(activation.soft_shrink(x, 0.5), Tensor[Cpu, D3, Float])
    assert_type(activation.hard_sigmoid(x, 0.5, 1.0), Tensor[Cpu, D3, Float])
    assert_type(activation.shrink(x, 0.5, 1.0), Tensor[Cpu, D3, Float])
    assert_type(activation.hardtanh(x, 0.5, 1.0), Tensor[Cpu, D3, Float])
    assert_type(activation.threshold(x, 0.5, 1.0), Tensor[Cpu, D3, Float])
    assert_type(activation.prelu(x, alpha), Tensor[Cpu, D3, Float])
    assert_type(activation.prelu(x, raw), Tensor[Cpu, D3, Float])


def convolutions(
    a: Tensor[Cpu, D3], b: Tensor[Cpu, D4], c: Tensor[Cpu, D5], bias: Tensor[Cpu, D1], raw: torch.Tensor
) -> None:
    assert_type(module.conv1d(a, a, bias, ConvOptions()), Tensor[Cpu, D3, Float])
    assert_type(module.conv2d(b, b, None, ConvOptions()), Tensor[Cpu, D4, Float])
    assert_type(module.conv2d(b, raw, raw, ConvOptions()), Tensor[Cpu, D4, Float])
    assert_type(module.conv3d(c, c, bias, ConvOptions()), Tensor[Cpu, D5, Float])
    assert_type(module.conv2d_weight_backward(b, b, b, ConvOptions()), Tensor[Cpu, D4, Float])
    assert_type(module.deform_conv2d(b, b, b, None, bias, DeformConvOptions()), Tensor[Cpu, D4, Float])
    assert_type(module.conv_transpose1d(a, a, bias, ConvTransposeOptions()), Tensor[Cpu, D3, Float])
    assert_type(module.conv_transpose2d(b, b, bias, ConvTransposeOptions()), Tensor[Cpu, D4, Float])
    assert_type(module.conv_transpose3d(c, c, bias, ConvTransposeOptions()), Tensor[Cpu, D5, Float])
    assert_type(module.unfold4d(b, (2, 2), UnfoldOptions()), Tensor[Cpu, D3, Float])
    assert_type(module.fold4d(a, (4, 4), (2, 2), UnfoldOptions()), Tensor[Cpu, D4, Float])


def pools(a: Tensor[Cpu, D3], b: Tensor[Cpu, D4], c: Tensor[Cpu, D5]) -> None:
    assert_type(module.max_pool1d(a, 2, 2, 0, 1, False), Tensor[Cpu, D3, Float])
    assert_type(module.max_pool2d(b, (2, 2), (2, 2), (0, 0), (1, 1), False), Tensor[Cpu, D4, Float])
    assert_type(
        module.max_pool1d_with_indices(a, 2, 2, 0, 1, False), tuple[Tensor[Cpu, D3, Float], Tensor[Cpu, D3, Int]]
    )
    assert_type(
        module.max_pool2d_with_indices(b, (2, 2), (2, 2), (0, 0), (1, 1), False),
        tuple[Tensor[Cpu, D4, Float], Tensor[Cpu, D4, Int]],
    )
    assert_type(module.avg_pool1d(a, 2, 2, 0, True, False), Tensor[Cpu, D3, Float])
    assert_type(module.avg_pool2d(b, (2, 2), (2, 2), (0, 0), True, False), Tensor[Cpu, D4, Float])
    assert_type(module.adaptive_avg_pool1d(a, 2), Tensor[Cpu, D3, Float])
    assert_type(module.adaptive_avg_pool2d(b, (2, 2)), Tensor[Cpu, D4, Float])
    assert_type(module.adaptive_avg_pool3d(c, (2, 2, 2)), Tensor[Cpu, D5, Float])
    assert_type(module.interpolate(b, (4, 4), InterpolateOptions()), Tensor[Cpu, D4, Float])


def layers(
    x: Tensor[Cpu, D3],
    q: Tensor[Cpu, D4],
    w: Tensor[Cpu, D2],
    v: Tensor[Cpu, D1],
    ids: Tensor[Cpu, D2, Int],
    lengths: Tensor[Cpu, D1, Int],
    raw: torch.Tensor,
) -> None:
    assert_type(module.linear(x, w), Tensor[Cpu, D3, Float])
    assert_type(module.linear(x, raw, raw), Tensor[Cpu, D3, Float])
    assert_type(module.embedding(w, ids), Tensor[Cpu, D3, Float])
    assert_type(module.attention(q, q, q), Tensor[Cpu, D4, Float])
    assert_type(module.attention_fallback(q, q, q, None, None), Tensor[Cpu, D4, Float])
    assert_type(module.ctc_loss(x, ids, lengths, lengths, 0), Tensor[Cpu, D1, Float])
    assert_type(module.layer_norm(x, v, None, 1e-5), Tensor[Cpu, D3, Float])
    assert_type(module.batch_norm(x, v, v, v, v, 1e-5), Tensor[Cpu, D3, Float])
    assert_type(loss.cross_entropy_with_logits(w, w), Tensor[Cpu, D1, Float])


def linear_algebra(
    a: Tensor[Cpu, D2],
    v: Tensor[Cpu, D1],
    n: Tensor[Cpu, D2, Int],
    batch: Tensor[Cpu, D4],
    mask: Tensor[Cpu, D3, Bool],
    k: Tensor[Cpu, D1, Int],
) -> None:
    assert_type(linalg.matvec(a, v), Tensor[Cpu, D1, Float])
    assert_type(linalg.matvec(n, k), Tensor[Cpu, D1, Int])
    assert_type(linalg.matvec(batch, batch.select_dim(0, 0)), Tensor[Cpu, D3, Float])
    assert_type(linalg.outer(v, v), Tensor[Cpu, D2, Float])
    assert_type(linalg.outer(k, k), Tensor[Cpu, D2, Int])
    assert_type(linalg.outer_dim(a, a, 0), Tensor[Cpu, D3, Float])
    assert_type(linalg.diag(a), Tensor[Cpu, D1, Float])
    assert_type(linalg.diag(mask), Tensor[Cpu, D2, Bool])
    assert_type(linalg.det(batch), Tensor[Cpu, D2, Float])
    assert_type(linalg.trace(a), Tensor[Cpu, D1, Float])
    assert_type(linalg.trace(batch), Tensor[Cpu, D3, Float])
    assert_type(linalg.lu(a), tuple[Tensor[Cpu, D2, Float], Tensor[Cpu, D2, Float], Tensor[Cpu, D2, Float]])
    assert_type(linalg.qr(batch, False), tuple[Tensor[Cpu, D4, Float], Tensor[Cpu, D4, Float]])
    assert_type(linalg.cosine_similarity(a, a, 0), Tensor[Cpu, D2, Float])
    assert_type(linalg.vector_norm(a, 2.0, 0), Tensor[Cpu, D2, Float])
    assert_type(linalg.lp_norm(a, 3.0, 0), Tensor[Cpu, D2, Float])
    assert_type(linalg.vector_normalize(a, 2.0, 0, 1e-5), Tensor[Cpu, D2, Float])
    assert_type(linalg.l0_norm(n, 0), Tensor[Cpu, D2, Int])
    assert_type(linalg.l1_norm(a, 0), Tensor[Cpu, D2, Float])
    assert_type(linalg.l2_norm(a, 0), Tensor[Cpu, D2, Float])
    assert_type(linalg.max_abs_norm(n, 0), Tensor[Cpu, D2, Int])
    assert_type(linalg.min_abs_norm(a, 0), Tensor[Cpu, D2, Float])
    assert_type(Tensor.einsum("ij,jk->ik", [a, a]), Tensor[Cpu, Any, Float])


def signals(x: Tensor[Cpu, D2], v: Tensor[Cpu, D1], frames: Tensor[Cpu, D4], backend: Cpu) -> None:
    assert_type(signal.rfft(x, 1), tuple[Tensor[Cpu, D2, Float], Tensor[Cpu, D2, Float]])
    assert_type(signal.irfft(x, x, 1), Tensor[Cpu, D2, Float])
    assert_type(signal.cfft(v, v, 0, 8), tuple[Tensor[Cpu, D1, Float], Tensor[Cpu, D1, Float]])
    assert_type(signal.stft(x, v, StftOptions(8)), Tensor[Cpu, D4, Float])
    assert_type(signal.istft(frames, None, None, StftOptions(8)), Tensor[Cpu, D2, Float])
    assert_type(signal.hann_window(8, True, backend), Tensor[Cpu, D1, Float])
    assert_type(signal.hamming_window(8, True, backend), Tensor[Cpu, D1, Float])
    assert_type(signal.blackman_window(8, True, backend, torch.float64), Tensor[Cpu, D1, Float])


def grids(v: Tensor[Cpu, D1], k: Tensor[Cpu, D1, Int], t: Tensor[Cpu, D3], x: Tensor[Cpu, D4]) -> None:
    assert_type(grid.meshgrid([v, v]), list[Tensor[Cpu, Any, Float]])
    assert_type(grid.meshgrid((v, v)), list[Tensor[Cpu, D2, Float]])
    assert_type(grid.meshgrid_stack((k, k)), Tensor[Cpu, D3, Int])
    assert_type(grid.affine_grid_2d(t, (1, 1, 4, 4)), Tensor[Cpu, D4, Float])
    assert_type(x.grid_sample_2d(x, GridSampleOptions()), Tensor[Cpu, D4, Float])
