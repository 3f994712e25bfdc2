"""Trainings of several processes that equal one of a single process with the joined batches: one table.

A row is a training (`ROWS`), a column a mesh (`COLUMNS`); a case is one of each. `test_cases.py` runs them:

    python -m tests.train.distributed.cases FOLDER CASE...

runs these in one of several processes, one after the other, each in a process group of its own, and writes what it
found to `FOLDER/CASE.pt`. An exception ends the process, so that the others don't wait.
"""

import io
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.compiler.config
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore  # pyright: ignore[reportPrivateImportUsage] - torch documents it
from torch.distributed.rendezvous import rendezvous
from torch.nn import functional

from burnlike.data import DataLoader, TensorDataset
from burnlike.errors import BurnlikeError
from burnlike.models import DecoderLmConfig, LoRAConfig, MlpConfig
from burnlike.models.decoder_lm.configs import ExpertsPart
from burnlike.module import ParamGroup, freeze, seed_param_ids
from burnlike.nn import BatchNormConfig
from burnlike.optim import (
    AdafactorConfig,
    AdamWConfig,
    ClipByGlobalNorm,
    ClipByNorm,
    ClipByValue,
    GradientClipping,
    LambConfig,
    MuonConfig,
    OptimizerGroupConfig,
    SgdConfig,
)
from burnlike.optim.core.sharded import whole
from burnlike.train import (
    Callback,
    ClassificationConfig,
    DistributedConfig,
    EmaConfig,
    Float8Config,
    Interrupted,
    Interrupter,
    LanguageModelConfig,
    Learner,
    PlainRenderer,
    StepOutput,
    TrainingConfig,
    make_parallel,
    metrics,
)

CPU = torch.device("cpu")
TIMES = ("time", "items_per_s", "tokens_per_s")
JOINED = 8
"""Items of a batch of all processes."""
_generator = torch.Generator().manual_seed(1)
TOKENS = torch.randint(32, (21, 9), generator=_generator)
FEATURES = torch.randn(21, 6, generator=_generator, dtype=torch.float64)
CLASSES = torch.randint(3, (21,), generator=_generator)

DECODER = DecoderLmConfig(vocab_size=32, max_sequence_length=8, d_model=16, n_layers=2, n_heads=4, d_ff=32, tied=False)
NEW_TOKENS = (5, *range(28, 32))  # the table has a row for one of them already
EXPERTS = DECODER.replace(feed_forward=ExpertsPart(n_experts=4, n_selected=2))
BATCH_NORM = MlpConfig(sizes=(6, 8, 8, 3), norm=BatchNormConfig(num_features=8))


def _frozen(model: nn.Module) -> nn.Module:
    return freeze(model, ParamGroup.from_regex(r"^(embedding|blocks\.0)\b"))


def _with_wholes(_: nn.Module, clipping: GradientClipping | None) -> Any:
    """Rules that compute with whole tensors: norms, means of rows and columns, matrices."""
    rules = {r"^blocks.*weight$": MuonConfig(weight_decay=0.1), r"^(embedding|head)\b": LambConfig(epsilon=1e-3)}
    groups = [
        OptimizerGroupConfig(params=ParamGroup.from_regex(paths), optimizer=rule) for paths, rule in rules.items()
    ]
    return AdafactorConfig(epsilon_1=1e-6, grad_clipping=clipping, groups=tuple(groups)).init()


def _masked_mean(model: nn.Module, batch: Tensor) -> StepOutput:
    """A mean over few of the items: often a process has none of them, and its mean is 0 / 0."""
    logits, targets = model(batch[:, :-1]), batch[:, 1:]
    each = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(targets).mean(1)
    counts = batch[:, 0] % 5 == 0
    targets = targets.masked_fill(~counts[:, None], -100)
    return StepOutput((each * counts).sum() / counts.sum(), int(counts.sum()), logits.detach(), targets)


@dataclass(frozen=True)
class Row:
    """A training.

    Attributes:
        model: the config; a decoder is trained on tokens, another one on classes.
        loss: of a Learner; None: of the task that the model is for.
        smoothing: of the labels of a decoder.
        change: what is done to the model before.
        options: of the TrainingConfig.
        learner: options of the Learner, as its `precision`.
        items: of the data; the last batch is smaller.
        stop: a step after which the last process asks for a stop, and all go on from the checkpoint.
        dtype: of the weights.
        tolerance: of weights, averages, losses and metrics, relative to the largest of each.
    """

    model: Any = DECODER
    loss: Callable[[nn.Module, Any], StepOutput] | None = None
    smoothing: float = 0.0
    change: Callable[[nn.Module], nn.Module] | None = None
    clipping: GradientClipping | None = None
    optimizer: Callable[[nn.Module, GradientClipping | None], Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    learner: Mapping[str, Any] = field(default_factory=dict)
    items: int = 16
    stop: int | None = None
    dtype: torch.dtype = torch.float64
    tolerance: float = 1e-10


ROWS: Mapping[str, Row] = {
    "plain": Row(),
    "uneven": Row(items=17),  # the last batch has one item, so that other processes have none
    "smoothed": Row(smoothing=0.1, items=17),
    "masked mean": Row(loss=_masked_mean, items=17),
    "parts uneven": Row(items=15),  # of the last batch one process has four items, and another one three
    "tied": Row(DECODER.replace(tied=True)),
    "lora": Row(LoRAConfig(of=DECODER, rank=2)),
    "new tokens": Row(LoRAConfig(of=DECODER.replace(vocab_size=28), rank=2, new_tokens=NEW_TOKENS), tolerance=1e-12),
    "new tokens, tied": Row(
        LoRAConfig(of=DECODER.replace(vocab_size=28, tied=True), rank=2, new_tokens=NEW_TOKENS), tolerance=1e-12
    ),
    "batch norm": Row(BATCH_NORM, items=21),
    "frozen": Row(change=_frozen),
    "bf16": Row(learner={"precision": "bfloat16"}, dtype=torch.float32, tolerance=5e-2),
    "accumulation": Row(options={"accumulation_steps": 2}, items=21),
    "clip norm": Row(clipping=ClipByGlobalNorm(threshold=0.05)),
    "clip norms": Row(clipping=ClipByNorm(threshold=0.01)),
    "clip values": Row(clipping=ClipByValue(threshold=1e-3)),
    "torch": Row(
        optimizer=lambda model, _: torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3),
        learner={"grad_clipping": ClipByGlobalNorm(threshold=0.05)},
    ),
    "sgd": Row(optimizer=lambda _, clipping: SgdConfig(grad_clipping=clipping).init()),
    "whole tensors": Row(optimizer=_with_wholes, clipping=ClipByGlobalNorm(threshold=0.05), items=21, stop=3),
    "ema": Row(learner={"ema": EmaConfig(decay=0.9)}, options={"accumulation_steps": 2}, items=21),
    "checkpointing": Row(options={"activation_checkpointing": True}),
    "resumed": Row(learner={"ema": EmaConfig(decay=0.9)}, items=21, stop=3),
    # Scales are of what a process has, so that it rounds otherwise.
    "float8": Row(options={"float8": Float8Config(emulate=True)}, dtype=torch.float32, tolerance=2e-1),
    "experts": Row(EXPERTS),
    "compiled": Row(options={"compile": True}),
}
EXPERT_ROWS: Mapping[str, Row] = {
    "experts": Row(EXPERTS),
    "experts, clip norm": Row(EXPERTS, clipping=ClipByGlobalNorm(threshold=0.05)),
    "experts, torch": Row(
        EXPERTS,
        optimizer=lambda model, _: torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3),
        learner={"grad_clipping": ClipByGlobalNorm(threshold=0.05)},
    ),
    "experts, whole tensors": Row(EXPERTS, optimizer=_with_wholes, items=21, stop=3),
    "experts, resumed": Row(EXPERTS, learner={"ema": EmaConfig(decay=0.9)}, items=21, stop=3),
    "experts, checkpointing": Row(EXPERTS, options={"activation_checkpointing": True, "accumulation_steps": 2}),
    "experts, compiled": Row(EXPERTS, options={"compile": True}),
}
"""Of meshes that divide experts, in place of the others."""


@dataclass(frozen=True)
class Column:
    """A mesh.

    Attributes:
        options: of the DistributedConfig; each pair of its `kinds` is in `pairs.py`.
        without: the rows that this mesh does not take, each with a part of the error that says why.
    """

    options: Mapping[str, Any]
    processes: int = 2
    without: Mapping[str, str] = field(default_factory=dict)

    @property
    def config(self) -> DistributedConfig:
        return DistributedConfig(**self.options)

    @property
    def rows(self) -> Mapping[str, Row]:
        rows = EXPERT_ROWS if self.config.expert > 1 else ROWS
        return {name: row for name, row in rows.items() if name in self.without or self._takes(name, row)}

    def _takes(self, name: str, row: Row) -> bool:
        if row.options.get("compile"):  # half a minute each
            return self.processes == 2 and self.config.pipeline == 1
        return name not in ("float8", "masked mean") or self.config.context == 1


_NO_SEQUENCE = {"batch norm": "distributed.context: the loss did not divide its sequences"}
_NO_PARTS: Mapping[str, str] = dict.fromkeys(("batch norm", "experts"), "depends on the whole batch")

COLUMNS: Mapping[str, Column] = {
    "ddp": Column({"strategy": "ddp"}),
    "fsdp2": Column({"strategy": "fsdp2"}),
    "hsdp": Column({"strategy": "fsdp2", "replicate": 2}, processes=4),
    "tensor": Column({"strategy": "fsdp2", "tensor": 2}),
    "fsdp2 x tensor": Column({"strategy": "fsdp2", "tensor": 2}, processes=4),
    "ddp x tensor": Column({"strategy": "ddp", "tensor": 2}, processes=4),
    "hsdp x tensor": Column({"strategy": "fsdp2", "replicate": 2, "shard": 1, "tensor": 2}, processes=4),
    "ddp x context": Column({"strategy": "ddp", "context": 2}, processes=4, without=_NO_SEQUENCE),
    "fsdp2 x context": Column(
        {"strategy": "fsdp2", "context": 2},
        without={**_NO_SEQUENCE, "float8": "training.float8: expected none with distributed.context"},
    ),
    "hsdp x context": Column({"strategy": "fsdp2", "replicate": 2, "context": 2}, processes=4, without=_NO_SEQUENCE),
    "context x tensor": Column({"strategy": "fsdp2", "context": 2, "tensor": 2}, processes=4, without=_NO_SEQUENCE),
    "expert": Column({"strategy": "fsdp2", "expert": 2}),
    "fsdp2 x expert": Column({"strategy": "fsdp2", "expert": 2}, processes=4),
    "ddp x expert": Column({"strategy": "ddp", "expert": 2}, processes=4),
    "hsdp x expert": Column({"strategy": "fsdp2", "replicate": 2, "expert": 2}, processes=4),
    "context x expert": Column({"strategy": "fsdp2", "context": 2, "expert": 2}, processes=4),
    "tensor x expert": Column({"strategy": "fsdp2", "tensor": 2, "expert": 2}, processes=4),
    "pipeline": Column({"strategy": "ddp", "pipeline": 2}, without=_NO_PARTS),
    "ddp x pipeline": Column(
        {"strategy": "ddp", "pipeline": 2, "schedule": "GPipe", "microbatches": 2}, processes=4, without=_NO_PARTS
    ),
    "tensor x pipeline": Column(
        {"strategy": "fsdp2", "shard": 1, "tensor": 2, "pipeline": 2}, processes=4, without=_NO_PARTS
    ),
    # Three items are micro-batches of two sizes, and four are of one size, that of the batches before.
    "fsdp2 x pipeline": Column({"strategy": "fsdp2", "pipeline": 2, "microbatches": 2}, processes=4, without=_NO_PARTS),
    "hsdp x pipeline": Column(
        {"strategy": "fsdp2", "replicate": 2, "shard": 1, "pipeline": 2}, processes=4, without=_NO_PARTS
    ),
}
"""To add a mesh, add a line."""

CASES: Mapping[str, tuple[Row, Column]] = {
    f"{name}, {row}": (column.rows[row], column) for name, column in COLUMNS.items() for row in column.rows
}

Found = dict[str, Any]


def _loaders(row: Row, parallel: Any) -> list[DataLoader[Any, Any]]:
    part = {"batch_size": JOINED // parallel.data_size, "rank": parallel.data_rank, "world_size": parallel.data_size}
    is_decoder = row.model is not BATCH_NORM
    data = TOKENS if is_decoder else TensorDataset(FEATURES, CLASSES)
    items = [data[place] for place in range(row.items)]
    return [DataLoader(items, fingerprint="the same", seed=seed, **part) for seed in (3, None)]


class _Lines(Callback):
    """The lines of metrics; and a stop of the last process."""

    def __init__(self, stop: int | None, parallel: Any, interrupter: Interrupter) -> None:
        self.lines: list[dict[str, Any]] = []
        self._stop, self._interrupter = stop, interrupter
        self._is_last = parallel.rank == parallel.world_size - 1

    def on_metrics(self, learner: Learner[Any], line: Mapping[str, Any]) -> None:
        self.lines.append({name: it for name, it in line.items() if name not in TIMES})

    def on_step_end(self, learner: Learner[Any]) -> None:
        if learner.step == self._stop and self._is_last:
            self._interrupter.stop()


def _learner(row: Row, parallel: Any) -> Learner[Any]:
    torch.manual_seed(5)
    seed_param_ids(5)
    model = row.model.init().to(row.dtype)
    model = model if row.change is None else row.change(model)
    make = row.optimizer or (lambda _, clipping: AdamWConfig(epsilon=1e-3, grad_clipping=clipping).init())
    optimizer = make(model, row.clipping)
    language = LanguageModelConfig(sample_length=0, label_smoothing=row.smoothing)
    task = (ClassificationConfig() if row.model is BATCH_NORM else language).init()
    step = {"task": task} if row.loss is None else {"loss": row.loss}
    options = {**step, "metrics": {"Accuracy": metrics.AccuracyConfig().init()}, "parallel": parallel}
    rate = None if isinstance(optimizer, torch.optim.Optimizer) else 1e-2
    return Learner(model, optimizer, rate, **options, **row.learner)


def _fit(row: Row, parallel: Any, directory: Path, stop: int | None) -> tuple[Learner[Any], list[dict[str, Any]]]:
    learner, interrupter = _learner(row, parallel), Interrupter()
    lines = _Lines(stop, parallel, interrupter)
    training = TrainingConfig(epochs=2, log_every_steps=1, **row.options)
    train_loader, valid_loader = _loaders(row, parallel)
    kept: dict[str, Any] = {"directory": directory} if row.stop else {}
    try:
        learner.fit(
            train_loader,
            valid_loader,
            training,
            renderer=PlainRenderer(io.StringIO()),
            callbacks=[lines],
            interrupter=interrupter,
            **kept,
        )
    except Interrupted:
        assert learner.step == stop
    return learner, lines.lines


def train(row: Row, config: DistributedConfig, directory: Path) -> Found:
    """The whole weights, averages and buffers of two epochs, by name, and the lines of metrics."""
    parallel = make_parallel(config, CPU)
    lines: list[dict[str, Any]] = []
    if row.stop is not None and not config.is_single:
        lines += _fit(row, parallel, directory, row.stop)[1]
    learner, others = _fit(row, parallel, directory, None)
    tensors = {**dict(learner.model.named_parameters()), **dict(learner.model.named_buffers())}
    found = {name: whole(it.detach()).clone() for name, it in tensors.items()}
    if learner.ema is not None:
        found |= {f"ema of {name}": whole(it).clone() for name, it in learner.ema.into_record().tensors.items()}
    every: dict[str, Tensor] = {}
    for rank, each in enumerate(parallel.gather(found)):
        for name, it in each.items():
            assert torch.equal(every.setdefault(name, it), it), f"rank {rank} has another {name}"
    return {"tensors": every, "lines": [*lines, *others]}


def run_one(name: str, folder: Path) -> Found:
    """What a single process finds for a row."""
    with tempfile.TemporaryDirectory(dir=folder) as directory:
        return train({**ROWS, **EXPERT_ROWS}[name], DistributedConfig(), Path(directory) / "run")


def main(folder: Path, names: Sequence[str]) -> None:
    """Run cases in this process, which is one of several."""
    store, rank, world_size = next(rendezvous("env://"))
    torch.compiler.config.fail_on_recompile_limit_hit = True  # a layer that is left uncompiled
    for number, name in enumerate(names):
        own = PrefixStore(f"case {number}", store)
        dist.init_process_group("gloo", store=own, rank=rank, world_size=world_size, timeout=timedelta(minutes=5))
        result = run_case(name, folder / f"run of {name}")
        if rank == 0:
            torch.save(result, folder / f"{name}.pt")
        dist.destroy_process_group()


def run_case(name: str, directory: Path) -> Found:
    """What the processes find for a case; of one that a mesh does not take, the `error`."""
    row, column = CASES[name]
    if name.partition(", ")[2] not in column.without:
        return train(row, column.config, directory)
    try:
        train(row, column.config, directory)
    except BurnlikeError as error:
        return {"error": str(error)}
    return {"error": "none"}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
