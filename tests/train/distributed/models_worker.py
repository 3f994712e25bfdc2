"""What models and layers compute in two processes, beside what one does; each check gives its largest error.

python -m tests.train.distributed.models_worker FOLDER
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn import functional

from burnlike import models, nn as layers, optim
from burnlike.data import DataLoader, TensorDataset
from burnlike.errors import ShapeError
from burnlike.interop import from_torch
from burnlike.models import DecoderLmConfig
from burnlike.models.decoder_lm.configs import ExpertsPart, LearnedPositions, PlainPart
from burnlike.module import seed_param_ids
from burnlike.nn.joint_batch import JointBatch, join
from burnlike.optim.core.sharded import whole
from burnlike.train import DistributedConfig, Learner, StepOutput, TrainingConfig, make_parallel
from burnlike.train.parallel.single_process import SingleProcess

from ...checks import write_results

SIZES: dict[str, Any] = {"vocab_size": 31, "max_sequence_length": 12, "d_model": 16, "n_layers": 2, "d_ff": 16}
LANGUAGE_MODELS: Mapping[str, DecoderLmConfig] = {
    "grouped heads": DecoderLmConfig(**SIZES, n_heads=4, n_heads_kv=2, tied=False, sliding_window=4),
    "gpt": DecoderLmConfig(
        **SIZES,
        n_heads=2,
        norm="LayerNorm",
        attention_bias=True,
        attention_output_bias=True,
        positions=LearnedPositions(),
        feed_forward=PlainPart(),
    ),
    "experts": DecoderLmConfig(**SIZES, n_heads=2, feed_forward=ExpertsPart(n_experts=4, n_selected=2)),
    "norms of heads": DecoderLmConfig(**SIZES, n_heads=2, query_key_norm=True),
}
TOKENS = torch.randint(31, (4, 9), generator=torch.Generator().manual_seed(3))
CPU = torch.device("cpu")


def language_model(name: str) -> models.DecoderLm:
    torch.manual_seed(0)
    return LANGUAGE_MODELS[name].init().double()


def trained(model: nn.Module) -> dict[str, Tensor]:
    """The whole weights after three steps."""
    optimizer = optim.AdamWConfig(epsilon=1e-3).init()
    for _ in range(3):
        output = model(TOKENS[:, :-1], with_balance=True)
        loss = functional.cross_entropy(output.logits.flatten(0, 1), TOKENS[:, 1:].flatten())
        (loss if output.balance is None else loss + output.balance).backward()
        optimizer.step(0.01, model, optim.GradientsParams.from_module(model))
    return {name: whole(it.detach()) for name, it in model.named_parameters()}


def largest(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> float:
    assert found.keys() == expected.keys()
    return max(float((found[name] - it).abs().max()) for name, it in expected.items())


def tensor_parallel(name: str) -> float:
    """Training and generation with some heads in each process."""
    one, model = language_model(name), language_model(name)
    parallelize_module(model, init_device_mesh("cpu", (2,)), model.tensor_parallel_plan())
    error = largest(trained(model), trained(one))
    assert torch.equal(model.generate(TOKENS[:, :4], 4), one.generate(TOKENS[:, :4], 4))
    return error


def too_few_heads(name: str) -> float:
    """One head of keys and values can't be divided between two processes."""
    model = LANGUAGE_MODELS[name].replace(n_heads_kv=1).init()
    parallelize_module(model, init_device_mesh("cpu", (2,)), model.tensor_parallel_plan())
    with pytest.raises(ShapeError, match="each has whole heads, of 4 heads and 1 of keys"):
        model(TOKENS)
    return 0.0


GENERATING: Mapping[str, Callable[[], Any]] = {
    **{name: lambda name=name: language_model(name) for name in LANGUAGE_MODELS},
    "encoder and decoder": lambda: models.EncoderDecoderConfig(
        vocab_size=31, d_model=16, n_layers=2, n_heads=2, d_head=8, d_ff=16
    ).init(),
    "lstm": lambda: models.LstmLmConfig(vocab_size=31, d_model=8, d_hidden=8).init(),
}


def generated(name: str) -> float:
    """Continuations by a model under fully_shard, also where its `generate` is registered as torch asks."""
    for is_registered in (False, True):
        found = []
        for is_sharded in (False, True):
            torch.manual_seed(0)
            model: Any = GENERATING[name]()
            for path, block in [*model.named_modules()] if is_sharded else ():
                if path.rpartition(".")[2].isdigit() and "experts" not in path:
                    fully_shard(block)
            fully_shard(model) if is_sharded else None
            if is_sharded and is_registered:
                register_fsdp_forward_method(model, "generate")
            cached = [{"use_cache": it} for it in (True, False)] if isinstance(model, models.DecoderLm) else [{}]
            found.append([model.generate(TOKENS[:, :4], 4, **it).tolist() for it in cached * 2])
        assert found[0] == found[1]
    return 0.0


def pipelined(name: str) -> float:
    """The gradients of two stages, of micro-batches; what both have (tied weights) they have a summand of."""
    from torch.distributed.pipelining import ScheduleGPipe, SplitPoint, pipeline  # seconds, which few checks need

    one, tokens, targets = language_model(name), TOKENS[:, :-1], TOKENS[:, 1:]
    if one.has_balance:
        one.eval()  # the balance is no part of the pipeline's output
    stages = pipeline(one, mb_args=(tokens[:1],), split_spec={"blocks.1": SplitPoint.BEGINNING})
    rank = dist.get_rank()
    stage = stages.build_stage(rank, CPU)

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    schedule: Any = ScheduleGPipe(stage, 4, loss_fn=loss)
    schedule.step(*([tokens] if rank == 0 else []), **({"target": targets} if rank else {}))
    grads = {
        key: it.grad for key, it in stage.submod.named_parameters() if it.grad is not None and it.grad.abs().sum() > 0
    }
    every: list[Any] = [None, None]
    dist.all_gather_object(every, grads)
    again = language_model(name)
    loss(again(tokens), targets).backward()
    expected = {key: it.grad for key, it in again.named_parameters() if it.grad is not None}
    found = {key: sum(part[key] for part in every if key in part) for key in expected}
    return largest(found, expected)  # pyright: ignore[reportArgumentType]


class Joint(nn.Module):
    """Layers whose output for an item depends on the other items of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 8)
        self.norm = layers.BatchNormConfig(num_features=8).init()
        self.image_norm = layers.BatchNormConfig(num_features=2, momentum=0.3).init()
        self.twin_norm: nn.Module = from_torch(nn.Sequential(nn.BatchNorm1d(8)))[0]
        self.experts = layers.MixtureOfExpertsConfig(d_model=8, d_ff=4, n_experts=4, n_selected=2).init()
        self.last = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.twin_norm(self.norm(self.first(x)))
        mixed, balance = self.experts.forward_balance(y + self.image_norm(y.view(-1, 2, 2, 2)).flatten(1))
        return self.last(mixed).squeeze(1), balance


ROWS = torch.randn(19, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
"""In batches of six the last has one row: the other process has an item that only stands in for none."""


def joint_loss(model: nn.Module, batch: tuple[Tensor, ...]) -> StepOutput:
    predicted, balance = model(batch[0][:, :5])
    return StepOutput(functional.mse_loss(predicted, batch[0][:, 5]) + 0.3 * balance, len(predicted))


def learned(parallel: SingleProcess, **options: Any) -> dict[str, Tensor]:
    """Weights and running statistics after three epochs of a Learner."""
    torch.manual_seed(4)
    seed_param_ids(4)
    model = Joint().double()
    learner = Learner(model, optim.AdamWConfig(epsilon=1e-3).init(), 0.02, loss=joint_loss, parallel=parallel)
    ranks: Any = {"rank": parallel.rank, "world_size": parallel.world_size}
    loader = DataLoader(TensorDataset(ROWS), batch_size=6 // parallel.world_size, seed=3, **ranks)
    learner.fit(loader, None, TrainingConfig(epochs=3, accumulation_steps=2, **options))
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: whole(it.detach()) for name, it in tensors.items()}


def joint(strategy: str) -> float:
    """BatchNorm and the balance of experts see the batch of all processes."""
    parallel = make_parallel(DistributedConfig.from_dict({"strategy": strategy}), CPU)
    expected = learned(SingleProcess())
    return max(largest(learned(parallel, **it), expected) for it in ({}, {"activation_checkpointing": True}))


def joint_statistics() -> float:
    """Running statistics of more items than 16 bits can count, and of none, which leaves them as they were."""
    norm, batch = layers.BatchNormConfig(num_features=2, momentum=1.0).init().half(), JointBatch()
    join(norm, batch)
    for rows in (torch.tensor([[1.0, 2.0], [3.0, 8.0]]).half().repeat(20_000, 1), torch.ones(0, 2).half()):
        with batch.part(counts=True):
            norm(rows)
    found = torch.stack([norm.running_mean, norm.running_var])
    return float((found - torch.tensor([[2.0, 5.0], [1.0, 9.0]])).abs().max())


CHECKS: Mapping[str, Callable[[], float]] = {
    **{f"tensor parallel, {name}": lambda name=name: tensor_parallel(name) for name in LANGUAGE_MODELS},
    **{f"generated, {name}": lambda name=name: generated(name) for name in GENERATING},
    **{f"pipelined, {name}": lambda name=name: pipelined(name) for name in LANGUAGE_MODELS},
    **{f"joint, {strategy}": lambda strategy=strategy: joint(strategy) for strategy in ("ddp", "fsdp2")},
    "joint statistics": joint_statistics,
    "too few heads": lambda: too_few_heads("grouped heads"),
}


if __name__ == "__main__":
    write_results(Path(sys.argv[1]), CHECKS)
