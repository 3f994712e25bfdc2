"""What a typed operation costs beside torch's own, on 8 elements: 1,000 calls a repeat, so that ms read as us per call.

The bar is 1/1.3: a typed call takes at most 1.3 times as long.
"""

from collections.abc import Mapping
from timeit import Timer
from typing import Any

import torch

from benchmarks._harness import Comparison, compare, main
from burnlike import Autodiff, Cpu, Tensor
from burnlike.tensor import activation

BAR = 1 / 1.3

# Each pair computes the same: what torch writes for Burn's shapes is on the right.
ON_CPU = {
    "add": ("x.add(y)", "a.add(b)"),
    "x + y": ("x + y", "a + b"),
    "x * y": ("x * y", "a * b"),
    "x / y": ("x / y", "a / b"),
    "x + 2.0": ("x + 2.0", "a + 2.0"),
    "x * 2": ("x * 2", "a * 2"),
    "-x": ("-x", "-a"),
    "abs": ("x.abs()", "a.abs()"),
    "exp": ("x.exp()", "a.exp()"),
    "tanh": ("x.tanh()", "a.tanh()"),
    "powf_scalar": ("x.powf_scalar(2.5)", "a.pow(2.5)"),
    "clamp": ("x.clamp(-1.0, 1.0)", "a.clamp(-1.0, 1.0)"),
    "sum": ("x.sum()", "a.sum(0, True)"),
    "sum_dim": ("m.sum_dim(1)", "c.sum(1, True)"),
    "mean_dim": ("m.mean_dim(1)", "c.mean(1, True)"),
    "max_dim": ("m.max_dim(1)", "c.max(1, True).values"),
    "argmax": ("m.argmax(1)", "c.argmax(1, True)"),
    "matmul": ("m.matmul(n)", "c.matmul(d)"),
    "greater": ("x.greater(y)", "a.gt(b)"),
    "equal": ("x.equal(y)", "a.eq(b)"),
    "mask_where": ("x.mask_where(k, y)", "torch.where(g, b, a)"),
    "mask_fill": ("x.mask_fill(k, 0.5)", "a.masked_fill(g, 0.5)"),
    "reshape": ("x.reshape([2, 4])", "a.reshape([2, 4])"),
    "transpose": ("m.transpose()", "c.transpose(-2, -1)"),
    "swap_dims": ("m.swap_dims(0, 1)", "c.transpose(0, 1)"),
    "unsqueeze_dim": ("x.unsqueeze_dim(0)", "a.unsqueeze(0)"),
    "narrow": ("x.narrow(0, 2, 4)", "a.narrow(0, 2, 4)"),
    "select": ("x.select(0, i)", "a.index_select(0, j)"),
    "gather": ("x.gather(0, i)", "a.gather(0, j)"),
    "cat": ("Tensor.cat([x, y], 0)", "torch.cat([a, b], 0)"),
    "stack": ("Tensor.stack([x, y], 0)", "torch.stack([a, b], 0)"),
    "relu": ("activation.relu(x)", "torch.relu(a)"),
    "softmax": ("activation.softmax(x, 0)", "torch.softmax(a, 0)"),
}
WITH_A_PARAMETER = {
    "x + w": ("x + w", "a + w"),
    "x * w": ("x * w", "a * w"),
    "add(w)": ("x.add(w)", "a.add(w)"),
    "matmul(w)": ("m.matmul(v)", "c.matmul(v)"),
}


def names(backend: Any) -> dict[str, Any]:
    """The operands: a, b, c, ... of torch, and x, y, m, ... typed with the same values."""
    a, b, c, d = torch.rand(8), torch.rand(8), torch.rand(2, 4), torch.rand(4, 2)
    g, j = torch.rand(8) > 0.5, torch.arange(8)
    typed = {key: Tensor(value, backend) for key, value in zip("xymnki", (a, b, c, d, g, j), strict=True)}
    w, v = torch.nn.Parameter(torch.rand(8)), torch.nn.Parameter(torch.rand(4, 2))
    plain = {"a": a, "b": b, "c": c, "d": d, "g": g, "j": j, "w": w, "v": v}
    return {**typed, **plain, "torch": torch, "Tensor": Tensor, "activation": activation}


def run(repeats: int) -> list[Comparison]:
    """Measure every operation."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [
            *_measure("Cpu", ON_CPU, names(Cpu()), repeats),
            *_measure("Autodiff(Cpu), parameter", WITH_A_PARAMETER, names(Autodiff(Cpu())), repeats),
        ]
    finally:
        torch.set_num_threads(threads)


def _measure(
    label: str, table: Mapping[str, tuple[str, str]], operands: dict[str, Any], repeats: int
) -> list[Comparison]:
    results = []
    for name, (ours, theirs) in table.items():
        typed, plain = Timer(ours, globals=operands), Timer(theirs, globals=operands)
        results.append(
            compare(
                f"{label}: {name}",
                lambda timer=typed: timer.timeit(1000),
                lambda timer=plain: timer.timeit(1000),
                theirs_name="torch",
                bar=BAR,
                repeats=repeats,
            )
        )
    return results


if __name__ == "__main__":
    main(__doc__ or "", run)
