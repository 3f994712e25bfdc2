"""A graph of 20 operations under torch.compile, typed tensors in and out beside torch's: the cost of a call."""

from typing import Any

import torch

from benchmarks._harness import Comparison, compare, main
from burnlike import Cpu, Tensor


def graph(x: Any, y: Any) -> Any:
    """20 operations that are methods of both."""
    for _ in range(5):
        x = x.mul(y).add(0.5).tanh().sub(y)
    return x


def run(repeats: int) -> list[Comparison]:
    """Measure the compiled call on 8 and on 65,536 elements."""
    results = []
    for elements in (8, 65_536):
        a, b = torch.rand(elements), torch.rand(elements)
        x, y = Tensor(a, Cpu()), Tensor(b, Cpu())
        torch._dynamo.reset()
        typed, plain = torch.compile(graph, fullgraph=True), torch.compile(lambda x, y: graph(x, y), fullgraph=True)
        torch.testing.assert_close(typed(x, y).inner, plain(a, b))
        calls = 1000 if elements == 8 else 20
        results.append(
            compare(
                f"20 compiled operations, {elements} elements, {calls} calls",
                lambda typed=typed, x=x, y=y, calls=calls: [typed(x, y) for _ in range(calls)],
                lambda plain=plain, a=a, b=b, calls=calls: [plain(a, b) for _ in range(calls)],
                theirs_name="torch",
                bar=1 / 1.05,
                repeats=repeats,
            )
        )
    return results


if __name__ == "__main__":
    main(__doc__ or "", run)
