"""Cases of operations on tensors."""

import torch

from burnlike import nn

from . import Case, floats

CASES = [
    Case(
        "Add",
        nn.AddConfig(),
        lambda: (floats(2, 3), floats(2, 3), floats(2, 1)),
        lambda layer, a, b, c: a + b + c,
        bad_shapes=((2, 4), (3,)),
    ),
    Case(
        "Multiply",
        nn.MultiplyConfig(),
        lambda: (floats(2, 3), floats(2, 1)),
        lambda layer, a, b: a * b,
        bad_shapes=((4, 3), (3,)),
    ),
    Case(
        "Concat",
        nn.ConcatConfig(dim=1),
        lambda: (floats(2, 3, 2), floats(2, 1, 2)),
        lambda layer, a, b: torch.cat((a, b), 1),
        bad_shapes=((2, 3), (2, 3, 1), (2,)),
    ),
    Case(
        "Split",
        nn.SplitConfig(sizes=(1, 3)),
        lambda: (floats(2, 4),),
        lambda layer, x: (x[:, :1], x[:, 1:]),
        bad_shapes=((4, 2), ()),
    ),
    Case(
        "Select",
        nn.SelectConfig(dim=1, index=-1),
        lambda: (floats(2, 4, 3),),
        lambda layer, x: x[:, -1],
        bad_shapes=((2,), (2, 0)),
    ),
    Case(
        "Mean",
        nn.MeanConfig(dims=(1, -1)),
        lambda: (floats(2, 4, 3, 2),),
        lambda layer, x: x.sum((1, 3)) / 8,
        bad_shapes=((2,), (2, 3)),
    ),
    Case(
        "Mean/kept",
        nn.MeanConfig(dims=(1,), keep_dims=True),
        lambda: (floats(2, 4),),
        lambda layer, x: x.sum(1)[:, None] / 4,
    ),
    Case(
        "Flatten",
        nn.FlattenConfig(),
        lambda: (floats(2, 4, 3),),
        lambda layer, x: torch.flatten(x, 1),
        bad_shapes=((2,),),
    ),
    Case(
        "Flatten/dims",
        nn.FlattenConfig(start_dim=-3, end_dim=2),
        lambda: (floats(2, 4, 3, 2),),
        lambda layer, x: torch.flatten(x, 1, 2),
        bad_shapes=((2, 1),),
    ),
    Case(
        "Reshape",
        nn.ReshapeConfig(shape=(0, 2, -1)),
        lambda: (floats(2, 4, 3),),
        lambda layer, x: x.view(2, 2, 6),
        bad_shapes=((3, 3),),
    ),
    Case(
        "Permute",
        nn.PermuteConfig(dims=(0, -1, 1)),
        lambda: (floats(2, 4, 3),),
        lambda layer, x: x.transpose(1, 2),
        bad_shapes=((2, 3),),
    ),
]
