"""One forward pass with typed tensors and with torch's: within 3 %.

A decoder of `burnlike.nn`, whose layers take both; and a network that is written in typed operations throughout, beside
the same one in torch's.
"""

from typing import Any

import torch
from torch import nn

from benchmarks._harness import Comparison, compare, main
from burnlike import Cpu, Tensor
from burnlike.nn import DecoderLmConfig
from burnlike.tensor import activation


class Mlp(nn.Module):
    """Four residual layers, `[batch, 512] -> [batch, 512]`."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ParameterList(torch.randn(512, 1024) / 32 for _ in range(4))
        self.outer = nn.ParameterList(torch.randn(1024, 512) / 32 for _ in range(4))

    def forward(self, x: Any) -> Any:
        gelu = activation.gelu if isinstance(x, Tensor) else nn.functional.gelu
        for inner, outer in zip(self.inner, self.outer, strict=True):
            x = x + gelu(x.matmul(inner)).matmul(outer)
        return x


def run(repeats: int) -> list[Comparison]:
    """Measure both networks."""
    config = DecoderLmConfig(vocab_size=256, max_sequence_length=128, d_model=128, n_layers=5, n_heads=4, d_ff=352)
    model, mlp = config.init().eval(), Mlp()
    tokens, x = torch.randint(0, 256, (8, 128)), torch.randn(64, 512)
    typed, typed_x = Tensor(tokens, Cpu()), Tensor(x, Cpu())
    with torch.no_grad():
        assert torch.equal(model(typed).inner, model(tokens))
        torch.testing.assert_close(mlp(typed_x).inner, mlp(x))
        options = {"theirs_name": "torch", "bar": 1 / 1.03, "repeats": repeats}
        return [
            compare("decoder forward, 8 x 128 tokens", lambda: model(typed), lambda: model(tokens), **options),
            compare("residual network in typed operations", lambda: mlp(typed_x), lambda: mlp(x), **options),
        ]


if __name__ == "__main__":
    main(__doc__ or "", run)
