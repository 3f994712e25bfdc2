"""What was pickled, in terms of the public names alone: this file runs on the version that wrote and on today's."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import prune, weight_norm

import burnlike as bl
from burnlike import func, interop, mlax, module as bm, nn as bn, optim
from burnlike.tensor import Distribution, TensorData
from burnlike.tensor.quantization import QuantScheme

CPU = bl.Cpu()


def double(tensor: Tensor) -> Tensor:
    return tensor * 2


def half(tensor: Tensor) -> Tensor:
    return tensor / 2


def drawn(device: Any) -> Tensor:
    return torch.arange(6.0, device=device).reshape(3, 2)


class Head(bm.ModuleEnum):
    """Several kinds of head."""


class Branches:
    """A user's container: two modules, a list of more, a bare parameter, and a number."""

    def __init__(self, left: Any, right: Any, more: Any, scale: Any, width: int = 3) -> None:
        self.left, self.right, self.more, self.scale, self.width = left, right, more, scale, width

    def module_children(self) -> dict[str, Any]:
        return {"left": self.left, "right": self.right, "more": [*self.more], "scale": self.scale, "width": self.width}

    def with_module_children(self, children: Mapping[str, Any]) -> "Branches":
        return Branches(**children)


class Pair(NamedTuple):
    first: Any
    second: Any


class Block(bm.Module):
    """A burnlike module with what it may hold."""

    def __init__(self) -> None:
        super().__init__()
        self.width = 2
        self.layers = [nn.Linear(2, 2), bn.LinearConfig(d_input=2, d_output=2).init()]
        self.scale = bm.Param.from_data([1.0, 2.0], name="scale").load_mapper(half).save_mapper(double)
        self.seen = bm.Param.running(torch.zeros(2))
        self.named = {"a": nn.Linear(1, 2), "b": {"c": nn.Linear(2, 1)}}
        self.tuple = (nn.Linear(2, 1), nn.Linear(1, 1))
        self.tied = self.scale
        self.head = Head(Deep=[nn.Linear(2, 2), nn.Linear(2, 2)])
        self.sizes = [1, 2]
        self.absent = None
        self.teacher = bl.constant(nn.Linear(1, 1))
        self.typed = bl.Tensor.from_data([1.0, 2.0], CPU)
        self.register_buffer("cache", torch.ones(2), persistent=False)
        self.frozen = bm.Param.from_tensor(torch.ones(2), trainable=False)
        self.count = bm.Param.from_tensor(torch.tensor(3))


class Holds(bm.Module):
    """Containers of users' own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(1, 2)
        self.branches = Branches(
            nn.Linear(1, 1), nn.Linear(1, 1), [nn.Linear(1, 1), nn.Linear(1, 1)], nn.Parameter(torch.ones(1))
        )
        self.pair = Pair(nn.Linear(1, 1), nn.Linear(2, 1))


class Refers(nn.Module):
    """Not burnlike's: the mark of the constant stays."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.teacher = bl.constant(nn.Linear(1, 1))


class Lazy(bm.Module):
    """Pickled, it has its values."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = bm.Param.uninitialized(drawn, [3, 2])
        self.bias = nn.Parameter(torch.zeros(3))


class Net(mlax.Module):
    """Handles, keys, trees of data, and plain values."""

    def __init__(self) -> None:
        self.a = mlax.Parameter(True, torch.ones(2), "label")
        self.b = mlax.Parameter(False, [1.0, 2.0])
        self.late = mlax.Parameter(None)
        self.tree = mlax.Parameter(True, {"x": torch.ones(1), "y": [torch.zeros(2), torch.ones(3)]})
        self.layers = [nn.Linear(2, 2), nn.Linear(2, 1)]
        self.size = 3

    def forward(self, x: Tensor) -> Tensor:
        return x * self.a.data


def plain() -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))
    model[2].weight = model[0].weight
    model[0].bias.requires_grad_(False)
    bm.params(model)[1].with_name("label")
    bm.params(model)[2].load_mapper(half).save_mapper(double)
    return model


def replaced() -> nn.Module:
    model = plain()
    bm.params(model)
    model[0].weight = nn.Parameter(torch.ones(2, 2))
    model[2].extra = nn.Parameter(torch.ones(1))
    return model


def known(model: nn.Module) -> nn.Module:
    bm.params(model)
    return model


def pruned() -> nn.Module:
    model = known(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
    prune.l1_unstructured(model[0], "weight", amount=1)
    weight_norm(model[1])
    return known(model)


def adapted() -> nn.Module:
    return known(bm.apply_lora(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2)), bm.LoraConfig(rank=2, alpha=4.0)))


def normed() -> nn.Module:
    block = Block()
    return known(
        bm.apply_reparameterization(block, lambda p: bm.WeightNorm(p.base()) if p.path == "layers.1.weight" else None)
    )


def parts_of_a_partition() -> Any:
    return mlax.partition(known(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))), lambda p: "bias" not in p.path)


def decoder() -> nn.Module:
    sizes = {"vocab_size": 5, "d_model": 4, "d_ff": 4, "n_layers": 1, "n_heads": 2, "max_sequence_length": 4}
    return known(bn.DecoderLmConfig(**sizes, dropout=0.1).init())


def trained(config: Any, steps: int = 2) -> Any:
    model = nn.Linear(2, 2, bias=not isinstance(config, optim.MuonConfig))
    optimizer = config.init()
    for _ in range(steps):
        model(torch.ones(3, 2)).sum().backward()
        optimizer.step(1e-2, model, optim.GradientsParams.from_module(model))
    return {"model": model, "optimizer": optimizer}


def trained_by_closures() -> Any:
    model = nn.Linear(2, 2)
    optimizer = optim.LbfgsConfig().init()

    def closure(module: nn.Module) -> Any:
        loss = module(torch.ones(3, 2)).square().sum()
        loss.backward()
        return loss, optim.GradientsParams.from_module(module)

    optimizer.step(1e-2, model, closure)
    return {"model": model, "optimizer": optimizer}


def torchs() -> Any:
    model = nn.Linear(2, 2)
    optimizer = interop.TorchOptimizer(model, optim.AdamWConfig(), lr=1e-2)
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    return {"model": model, "optimizer": optimizer}


RULES = [
    optim.AdaGradConfig(),
    optim.AdafactorConfig(),
    optim.AdamConfig(),
    optim.AdamWConfig(weight_decay=0.1),
    optim.AdanConfig(),
    optim.LambConfig(),
    optim.LionConfig(),
    optim.MuonConfig(),
    optim.RmsPropConfig(momentum=0.9, centered=True),
    optim.ScheduleFreeAdamWConfig(),
    optim.SgdConfig(momentum=optim.MomentumConfig()),
]


def schedules() -> Any:
    made = [
        optim.ConstantLrConfig(lr=0.1),
        optim.CosineAnnealingConfig(initial_lr=0.1, num_iters=10),
        optim.ExponentialLrConfig(initial_lr=0.1, gamma=0.9),
        optim.LinearLrConfig(initial_lr=0.1, final_lr=0.01, num_iters=10),
        optim.NoamLrConfig(factor=0.1, warmup_steps=4, model_size=8),
        optim.StepLrConfig(initial_lr=0.1, gamma=0.5, step_size=2),
    ]
    found = [config.init() for config in made]
    for schedule in found:
        schedule.step()
    return found


def tensors() -> Any:
    x = bl.Tensor.from_data([[1.0, 2.0], [3.0, 4.0]], CPU)
    with_grads = bl.Tensor.from_data([1.0, 2.0], bl.Autodiff(CPU))
    return {"float": x, "bool": x > 1.5, "int": x.int(), "autodiff": with_grads}


def kept_gradients() -> Any:
    x = bl.Tensor.from_data([1.0, 2.0], bl.Autodiff(CPU)).require_grad()
    gradients = (x * x).sum().backward()
    return {"x": x, "gradients": gradients}


def plain_data() -> Any:
    group = bl.ParamGroup.from_regex("bias").fuse(bl.ParamGroup.from_ids([bm.ParamId(9)]))
    return [
        bm.ParamId(7),
        TensorData.from_nested([[1.0, 2.0]]),
        Distribution.Uniform(0.0, 1.0),
        group,
        mlax.Key(3),
        QuantScheme(),
    ]


MODULES: dict[str, Callable[[], Any]] = {
    "block": lambda: known(Block()),
    "block_frozen": lambda: bm.freeze(known(Block())),
    "block_valid": lambda: known(Block()).valid(),
    "holds": lambda: known(Holds()),
    "lazy": lambda: known(Lazy()),
    "refers": lambda: known(Refers()),
    "plain": plain,
    "plain_valid": lambda: bm.valid(plain()),
    "plain_clone": lambda: bm.clone(plain()),
    "replaced": lambda: known(replaced()),
    "pruned": pruned,
    "lora": adapted,
    "lora_block": lambda: known(bm.apply_lora(Block(), bm.LoraConfig(rank=1, alpha=1.0))),
    "weight_norm": normed,
    "mlax": lambda: known(Net()),
    "mlax_trainable": lambda: mlax.partition(known(Net()))[0],
    "mlax_rest": lambda: mlax.partition(known(Net()))[1],
    "part": lambda: parts_of_a_partition()[0],
    "part_rest": lambda: parts_of_a_partition()[1],
    "stack": lambda: func.stack([known(nn.Linear(2, 2)) for _ in range(2)]),
    "decoder": decoder,
}

OTHERS: dict[str, Callable[[], Any]] = {
    **{f"optimizer_{type(rule).__name__.removesuffix('Config')}": lambda rule=rule: trained(rule) for rule in RULES},
    "optimizer_Lbfgs": trained_by_closures,
    "torch_optimizer": torchs,
    "schedules": schedules,
    "configs": lambda: [*RULES, bm.LoraConfig(rank=2, alpha=4.0), bn.LinearConfig(d_input=2, d_output=2)],
    "tensors": tensors,
    "gradients": kept_gradients,
    "plain_data": plain_data,
}


def describe(value: Any) -> Any:
    """What can be said of `value`, as JSON has it; the same of two objects that a user can't tell apart."""
    if isinstance(value, nn.Module):
        return _of_module(value)
    if isinstance(value, Tensor):
        return [str(value.dtype), value.requires_grad, value.tolist()]
    if isinstance(value, bl.Tensor):
        return [repr(value.spec), value.inner.tolist()]
    if isinstance(value, dict) and "gradients" in value:
        return describe(value["x"].grad(value["gradients"]))
    if isinstance(value, dict):
        return {str(key): describe(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    if hasattr(value, "into_record"):
        return [type(value).__name__, _of_record(value.into_record())]
    if isinstance(value, torch.optim.Optimizer):
        return [type(value).__name__, describe(value.state_dict())]
    return [type(value).__name__, repr(value)]


def _of_record(record: Any) -> Any:
    tensors = {name: tensor.tolist() for name, tensor in record.tensors.items()}
    return {"tensors": tensors, "values": describe(dict(record.values))}


def _of_module(module: nn.Module) -> Any:
    facts: dict[str, Any] = {"class": type(module).__name__, "shown": bm.display(module)}
    if isinstance(module, mlax.Module):
        facts["leaves"] = [
            [p.path, str(p.id) if not p.is_hole else None, p.kind, p.trainable, p.name, p.is_hole]
            for p in mlax.leaves(module, holes=True)
        ]
    facts["params"] = [
        {
            "path": p.path,
            "aliases": list(p.aliases),
            "id": str(p.id),
            "kind": p.kind,
            "trainable": p.trainable,
            "name": p.name,
            "mappers": [getattr(mapper, "__name__", None) for mapper in p.mappers],
            "requires_grad": p.tensor.requires_grad,
            "values": p.tensor.tolist() if p.is_initialized else None,
        }
        for p in bm.params(module)
    ]
    facts["state_dict"] = list(module.state_dict())
    facts["restored"] = [[p.path, p.trainable, p.tensor.requires_grad] for p in bm.params(bm.train(bm.clone(module)))]
    return facts
