"""Layers give typed tensors for typed ones, and torch's for torch's."""

from typing import TypeVar, assert_type

import torch

from burnlike import D1, D2, D3, D4, Backend, Cpu, Float, Int, Module, Tensor, nn

B = TypeVar("B", bound=Backend)


class Net(Module):
    """A convolutional classifier whose forward has no `Any`."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2dConfig(channels=(1, 8), kernel_size=(3, 3)).init()
        self.norm = nn.BatchNormConfig(num_features=8).init()
        self.pool = nn.AdaptiveAvgPool2dConfig(output_size=(1, 1)).init()
        self.dropout = nn.DropoutConfig(prob=0.1).init()
        self.head = nn.LinearConfig(d_input=8, d_output=10).init()
        self.loss = nn.CrossEntropyLossConfig().init()

    def forward(self, x: Tensor[B, D4], targets: Tensor[B, D1, Int]) -> Tensor[B, D1]:
        """The loss."""
        x = self.pool(nn.Relu()(self.norm(self.conv(x))))
        rows: Tensor[B, D2] = x.flatten(1, 3)
        logits = self.head(self.dropout(rows))
        assert_type(logits, Tensor[B, D2, Float])
        return self.loss(logits, targets)


def of_one_tensor(x: Tensor[Cpu, D2], raw: torch.Tensor) -> None:
    layer = nn.LinearConfig(d_input=4, d_output=4).init()
    assert_type(layer(x), Tensor[Cpu, D2, Float])
    assert_type(layer(raw), torch.Tensor)
    assert_type(nn.LayerNormConfig(d_model=4).init()(x), Tensor[Cpu, D2, Float])
    assert_type(nn.GeluConfig().init()(x), Tensor[Cpu, D2, Float])


def of_tokens(tokens: Tensor[Cpu, D2, Int], targets: Tensor[Cpu, D2]) -> Tensor[Cpu, D3]:
    x = nn.EmbeddingConfig(n_embedding=8, d_model=4).init()(tokens)
    assert_type(x, Tensor[Cpu, D3, Float])
    attended = nn.MultiHeadAttentionConfig(d_model=4, n_heads=2).init()(x)
    assert_type(attended.context, Tensor[Cpu, D3, Float])
    output, _ = nn.LstmConfig(d_input=4, d_hidden=4, bias=True).init()(attended.context)
    assert_type(output, Tensor[Cpu, D3, Float])
    assert_type(nn.MseLossConfig().init()(targets, targets), Tensor[Cpu, D1, Float])
    return nn.TransformerEncoderConfig(d_model=4, d_ff=8, n_heads=2, n_layers=1).init()(output)
