"""A layer's result has the rank and kind of what it is given."""

from burnlike import D1, D2, D3, Cpu, Int, Tensor, nn


def ranks_and_kinds(x: Tensor[Cpu, D2], tokens: Tensor[Cpu, D2, Int]) -> None:
    linear = nn.LinearConfig(d_input=4, d_output=4).init()
    other: Tensor[Cpu, D3] = linear(x)  # error
    linear(3)  # error
    row: Tensor[Cpu, D2] = nn.EmbeddingConfig(n_embedding=8, d_model=4).init()(tokens)  # error
    matrix: Tensor[Cpu, D2] = nn.MseLossConfig().init()(x, x)  # error
    one: Tensor[Cpu, D1, Int] = nn.MseLossConfig().init()(x, x)  # error
