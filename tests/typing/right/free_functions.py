"""The functions that stand beside Tensor."""

from typing import assert_type

from burnlike import D1, D2, D3, D4, Cpu, Float, Int, Tensor
from burnlike.tensor import activation, linalg, module, signal
from burnlike.tensor.options import ConvOptions


def activations(x: Tensor[Cpu, D3], alpha: Tensor[Cpu, D1]) -> None:
    assert_type(activation.relu(x), Tensor[Cpu, D3, Float])
    assert_type(activation.softmax(x, 1), Tensor[Cpu, D3, Float])
    assert_type(activation.prelu(x, alpha), Tensor[Cpu, D3, Float])


def layers(x: Tensor[Cpu, D4], weight: Tensor[Cpu, D4], bias: Tensor[Cpu, D1], ids: Tensor[Cpu, D2, Int]) -> None:
    assert_type(module.conv2d(x, weight, bias, ConvOptions()), Tensor[Cpu, D4, Float])
    assert_type(module.embedding(bias.unsqueeze_dim(0), ids), Tensor[Cpu, D3, Float])
    assert_type(module.linear(x, bias.unsqueeze_dim(0), None), Tensor[Cpu, D4, Float])


def linear_algebra(a: Tensor[Cpu, D2], v: Tensor[Cpu, D1], n: Tensor[Cpu, D3, Int], batch: Tensor[Cpu, D4]) -> None:
    assert_type(linalg.matvec(a, v), Tensor[Cpu, D1, Float])
    assert_type(linalg.outer(v, v), Tensor[Cpu, D2, Float])
    assert_type(linalg.diag(n), Tensor[Cpu, D2, Int])
    assert_type(linalg.det(batch), Tensor[Cpu, D2, Float])
    assert_type(linalg.trace(a), Tensor[Cpu, D1, Float])
    assert_type(linalg.qr(a, True), tuple[Tensor[Cpu, D2, Float], Tensor[Cpu, D2, Float]])
    assert_type(linalg.l2_norm(a, 0), Tensor[Cpu, D2, Float])


def signals(x: Tensor[Cpu, D2]) -> None:
    assert_type(signal.rfft(x, 1), tuple[Tensor[Cpu, D2, Float], Tensor[Cpu, D2, Float]])
    assert_type(signal.hann_window(8, True, x.backend), Tensor[Cpu, D1, Float])
