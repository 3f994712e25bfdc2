"""Cases of operations on tensors."""

import math

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
    *(
        Case(
            type(config).__name__.removesuffix("Config"),
            config,
            lambda: (floats(2, 3), floats(2, 1)),
            reference,
            bad_shapes=((3, 3), (3,)),
        )
        for config, reference in (
            (nn.SubtractConfig(), lambda layer, a, b: a + b * -1),
            (nn.DivideConfig(), lambda layer, a, b: a * b**-1),
        )
    ),
    *(
        Case(type(config).__name__.removesuffix("Config"), config, lambda: (floats(2, 3).abs() + 0.1,), reference)
        for config, reference in (
            (nn.NegateConfig(), lambda layer, x: x * -1),
            (nn.ExpConfig(), lambda layer, x: torch.e**x),
            (nn.LogConfig(), lambda layer, x: torch.log2(x) * math.log(2)),
            (nn.SqrtConfig(), lambda layer, x: x**0.5),
            (nn.ConstantTensorConfig(value=-1.5), lambda layer, x: torch.tensor([[-1.5]]).to(x)),
        )
    ),
    Case(
        "MatMul",
        nn.MatMulConfig(),
        lambda: (floats(2, 3, 4), floats(1, 4, 2)),
        lambda layer, a, b: (a[..., None] * b[:, None]).sum(2),
        bad_shapes=((3, 4), (3, 4)),
    ),
    Case(
        "Softmax",
        nn.SoftmaxConfig(),
        lambda: (floats(2, 3),),
        lambda layer, x: x.exp() / x.exp().sum(1, keepdim=True),
    ),
    Case(
        "Softmax/dim",
        nn.SoftmaxConfig(dim=1),
        lambda: (floats(2, 3, 2),),
        lambda layer, x: x.exp() / x.exp().sum(1, keepdim=True),
        bad_shapes=((2,),),
    ),
    *(
        Case(
            type(config).__name__.removesuffix("Config") + "/kept" * config.keep_dims,
            config,
            lambda: (floats(2, 4, 3),),
            reference,
            bad_shapes=((2,),),
        )
        for config, reference in (
            (nn.SumConfig(dims=(0, 2)), lambda layer, x: x[0].sum(1) + x[1].sum(1)),
            (nn.MaxConfig(dims=(0, -1)), lambda layer, x: x.movedim(1, 0).flatten(1).sort(1).values[:, -1]),
            (nn.MinConfig(dims=(0, -1)), lambda layer, x: x.movedim(1, 0).flatten(1).sort(1).values[:, 0]),
            (nn.MaxConfig(dims=(2,), keep_dims=True), lambda layer, x: x.sort(2).values[:, :, -1:]),
        )
    ),
    Case(
        "Stack",
        nn.StackConfig(dim=1),
        lambda: (floats(2, 3), floats(2, 3), floats(2, 3)),
        lambda layer, a, b, c: torch.cat((a[:, None], b[:, None], c[:, None]), 1),
        bad_shapes=((2, 4), (3,), ()),
    ),
    Case(
        "Slice",
        nn.SliceConfig(dim=1, start=1, end=-1),
        lambda: (floats(2, 5, 3),),
        lambda layer, x: torch.cat((x[:, 1:2], x[:, 2:3], x[:, 3:4]), 1),
        bad_shapes=((2,), (2, 2)),
    ),
    Case(
        "Slice/step",
        nn.SliceConfig(dim=-1, step=2),
        lambda: (floats(2, 5),),
        lambda layer, x: x[:, [0, 2, 4]],
        bad_shapes=((),),
    ),
    Case(
        "Pad",
        nn.PadConfig(dim=1, before=1, after=2, value=0.5),
        lambda: (floats(2, 3, 2),),
        lambda layer, x: torch.cat((x[:, :1] * 0 + 0.5, x, x[:, :2] * 0 + 0.5), 1),
        bad_shapes=((2,),),
    ),
    Case(
        "Pad/reflect",
        nn.PadConfig(dim=-2, before=2, after=1, mode="reflect"),
        lambda: (floats(2, 3, 2),),
        lambda layer, x: x[:, [2, 1, 0, 1, 2, 1]],
        bad_shapes=((2,), (2, 2, 2)),
    ),
    Case(
        "Pad/edge",
        nn.PadConfig(dim=-1, before=2, after=1, mode="edge"),
        lambda: (floats(3),),
        lambda layer, x: x[[0, 0, 0, 1, 2, 2]],
        bad_shapes=((), (2, 0)),
    ),
    Case(
        "Parameter",
        nn.ParameterConfig(shape=(1, 3)),
        lambda: (floats(2, 5),),
        lambda layer, x: torch.stack((layer.weight, layer.weight)),
        bad_shapes=((),),
    ),
]
