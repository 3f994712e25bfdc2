"""What a function asks for is what it gets."""

from typing import TypeVar

from burnlike import D1, D2, D3, Backend, Bool, Cpu, Int, Tensor
from burnlike.tensor import activation, linalg, module, signal

B = TypeVar("B", bound=Backend)


def row_sums(x: Tensor[B, D2]) -> Tensor[B, D2]:
    return x.sum_dim(1)


def flattened(x: Tensor[B, D3]) -> Tensor[B, D1]:
    return x.reshape(2, 3)  # error


def calls(x: Tensor[Cpu, D3], n: Tensor[Cpu, D2, Int], v: Tensor[Cpu, D1]) -> None:
    row_sums(x)  # error
    row_sums(n)  # error
    activation.relu(n)  # error
    module.conv2d(x, x, None)  # error
    linalg.outer(v, x)  # error
    linalg.matvec(x, v)  # error
    linalg.matvec(x, x)  # error
    linalg.outer(n, n.float())  # error
    linalg.outer(n.bool(), n.bool())  # error
    linalg.det(n.float())  # error
    linalg.diag(v)  # error
    linalg.trace(v)  # error
    linalg.trace(n)  # error
    linalg.svd(v, 1)  # error
    linalg.l1_norm(n.bool(), 0)  # error
    module.embedding(n.float(), n.float())  # error
    signal.rfft(n, 0)  # error
    module.conv1d(x, x, None, None)  # error


def joined(x: Tensor[Cpu, D2], y: Tensor[Cpu, D3], n: Tensor[Cpu, D2, Int], b: Tensor[Cpu, D2, Bool]) -> None:
    Tensor.cat([x, n], 0)  # error
    Tensor.cat([x, y], 0)  # error
    Tensor.stack([x, y], 0)  # error
    Tensor.stack([n, b], 0)  # error


def indexed(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int], b: Tensor[Cpu, D3, Bool]) -> None:
    x.gather(0, x)  # error
    x.select(0, n)  # error
    x.mask_fill(b, 0.0)  # error
    x.mask_where(n, x)  # error
    x.select_dim(0)  # error


def reduced_as_in_torch(x: Tensor[Cpu, D2]) -> None:
    x.sum(1)  # error
    x.mean(dim=1)  # error
    x.max(dim=1)  # error
    x.argmax()  # error
    x.argmax(1, keepdim=True)  # error
    x.all(1)  # error
    x.any(dim=1)  # error


def squeezed(x: Tensor[Cpu, D3]) -> None:
    y: Tensor[Cpu, D3] = x.squeeze_dim(0)  # error
    z: Tensor[Cpu, D1] = x.select_dim(0, 0)  # error
    w: Tensor[Cpu, D3] = x.unsqueeze_dim(0)  # error
    x.select_dim(0, 0).select_dim(0, 0).select_dim(0, 0)  # error


def created() -> None:
    Tensor.zeros((2, 3))  # error
    Tensor.zeros((2, 3), "cpu")  # error
    Tensor.zeros((2, 3), Cpu)  # error
    Tensor.zeros((2.0, 3), Cpu())  # error
