"""The Learner's pieces: what it is given, autocast, scaling, activation checkpointing, compilation, callbacks."""

import io
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torchmetrics
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from burnlike.errors import ArgumentError, ConfigError, DataError
from burnlike.models import DecoderLmConfig
from burnlike.optim import AdamWConfig, ClipByGlobalNorm, CosineAnnealingConfig, ModuleLrSchedulerConfig, SgdConfig
from burnlike.train import (
    Callback,
    CheckpointingConfig,
    Learner,
    MetricsLog,
    PlainRenderer,
    StepOutput,
    TrainingConfig,
    next_token_loss,
)
from burnlike.train.parallel.strategies import blocks_of

ROWS = torch.randn(12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def mse(model: nn.Module, batch: Tensor) -> Tensor:
    return functional.mse_loss(model(batch[:, :2]).squeeze(1), batch[:, 2])


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)).double()


def quiet() -> PlainRenderer:
    return PlainRenderer(io.StringIO())


def by_hand(batches: list[Tensor], clip: float | None = None) -> nn.Module:
    """SGD with momentum on whole batches, in plain torch."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for batch in batches:
        optimizer.zero_grad()
        mse(model, batch).backward()
        if clip is not None:
            norm = torch.cat([it.grad.flatten() for it in model.parameters()]).norm()
            for it in model.parameters():
                it.grad.mul_((clip / norm).clamp(max=1.0))
        optimizer.step()
        schedule.step()
    return model


def learner_of_torch(clip: float | None = None, **options: Any) -> Learner[Tensor]:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    clipping = None if clip is None else ClipByGlobalNorm(threshold=clip)
    return Learner(model, optimizer, schedule, loss=mse, grad_clipping=clipping, **options)


@pytest.mark.parametrize("clip", [None, 0.05])
def test_micro_batches_of_unequal_size_are_the_whole_batch_for_torchs_optimizers(clip: float | None) -> None:
    """Windows of 3 + 3 + 2 and 3 + 1 rows: clipped once, the schedule stepped once for each."""
    learner = learner_of_torch(clip)
    batches = [ROWS[:3], ROWS[3:6], ROWS[6:8], ROWS[8:11], ROWS[11:12]]
    config = TrainingConfig(epochs=2, accumulation_steps=3)
    learner.fit(batches, training=config, renderer=quiet())
    assert learner.step == 4
    expected = by_hand([ROWS[:8], ROWS[8:]] * 2, clip)
    for a, b in zip(learner.model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


def test_one_batch_a_step_is_the_loop_by_hand_to_the_bit() -> None:
    learner = learner_of_torch()
    batches = [ROWS[:4], ROWS[4:8], ROWS[8:]]
    learner.fit(batches, training=TrainingConfig(epochs=2), renderer=quiet())
    for a, b in zip(learner.model.parameters(), by_hand(batches * 2).parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_schedule_of_burnlike_sets_the_rate_of_torchs_optimizer() -> None:
    model = network()
    schedule = CosineAnnealingConfig(initial_lr=0.1, num_iters=10).init()
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=9.0), schedule, loss=mse)
    expected = CosineAnnealingConfig(initial_lr=0.1, num_iters=10).init()
    assert [learner.train_step(ROWS) for _ in range(3)] == [expected.step() for _ in range(3)]


class Diverging(nn.Module):
    """A weight whose gradient overflows float16 when it is scaled."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight[None]).squeeze()


@pytest.mark.parametrize("ours", [True, False])
def test_float16_skips_steps_that_overflow_and_scales_less(ours: bool) -> None:
    model = Diverging()
    optimizer: Any = SgdConfig().init() if ours else torch.optim.SGD(model.parameters(), lr=1e-3)
    learner = Learner(model, optimizer, 1e-3 if ours else None, loss=lambda m, x: m(x), precision="float16")
    assert learner.scaler is not None
    first = learner.scaler.get_scale()
    learner.train_step(torch.full((1,), 30000.0))
    assert model.weight.item() == 1.0
    assert learner.scaler.get_scale() < first
    learner.train_step(torch.full((1,), 0.5))
    assert model.weight.item() == pytest.approx(1.0 - 0.5e-3, rel=1e-6)


def test_bfloat16_computes_in_bfloat16_and_keeps_the_weights() -> None:
    seen = []

    class Noting(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            result = super().forward(input)
            seen.append(result.dtype)
            return result

    model = Noting(2, 1)
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1), loss=lambda m, x: m(x).float().mean(), precision="bfloat16"
    )
    learner.train_step(torch.ones(3, 2))
    learner.evaluate([torch.ones(3, 2)])
    assert seen == [torch.bfloat16] * 2
    assert model.weight.dtype == torch.float32


def decoder(dropout: float = 0.2) -> nn.Module:
    torch.manual_seed(4)
    return DecoderLmConfig(
        vocab_size=32, max_sequence_length=8, d_model=16, n_layers=3, n_heads=2, d_ff=24, dropout=dropout
    ).init()


def trained_decoder(dropout: float = 0.2, **training: Any) -> Learner[Tensor]:
    tokens = torch.randint(32, (4, 9), generator=torch.Generator().manual_seed(5))
    model = decoder(dropout)
    learner = Learner(model, AdamWConfig().init(), 1e-2, loss=next_token_loss)
    torch.manual_seed(6)
    learner.fit([tokens], training=TrainingConfig(epochs=3, **training), renderer=quiet())
    return learner


def test_activation_checkpointing_computes_again_and_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    from burnlike.train.learner import computing as activation_checkpointing

    calls = []
    real = activation_checkpointing.checkpoint

    def counting(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        return real(*arguments, **options)

    monkeypatch.setattr(activation_checkpointing, "checkpoint", counting)
    plain, again = trained_decoder(), trained_decoder(activation_checkpointing=True)
    assert len(calls) == 3 * 3
    for a, b in zip(plain.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert all("forward" not in vars(module) for module in again.model.modules())


class Counted(TorchDispatchMode):
    """How often each op was computed."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[function.name()] += 1
        return function(*args, **(kwargs or {}))


ATTENTION, SWIGLU = "burnlike::attention", "burnlike::swiglu"


SOME = {"every": 2, "save": ["mm"]}
RECOMPUTED: Any = [  # of 7 linear layers in each block; without dropout nothing needs the result of the last
    (SOME, 0.2, {"aten::mm": 0, "aten::bmm": 0, SWIGLU: 2}),
    ("full", 0.2, {"aten::mm": 21, "aten::bmm": 6, SWIGLU: 3}),
    ({"every": 2}, 0.0, {"aten::mm": 12, ATTENTION: 2, SWIGLU: 2}),
    ({"save": ["mm"]}, 0.0, {"aten::mm": 0, ATTENTION: 3, SWIGLU: 3}),
    ({"save": ["sdpa"]}, 0.0, {"aten::mm": 18, ATTENTION: 0, SWIGLU: 3}),
    ({"every": 3, "save": ["burnlike.swiglu"]}, 0.0, {"aten::mm": 6, ATTENTION: 1, SWIGLU: 0}),
]


@pytest.mark.parametrize(
    ("chosen", "dropout", "again"),
    [it if it[0] is SOME else pytest.param(*it, marks=pytest.mark.slow) for it in RECOMPUTED],
)
def test_what_is_not_saved_is_computed_again_and_no_bit_changes(
    chosen: Any, dropout: float, again: Mapping[str, int]
) -> None:
    options = TrainingConfig.from_dict({"activation_checkpointing": chosen})
    found = []
    for checkpointing in (False, options.activation_checkpointing):
        with Counted() as mode:
            learner = trained_decoder(dropout, activation_checkpointing=checkpointing)
        found.append((mode.counts, [*learner.model.parameters()]))
    (plain, weights), (counts, others) = found
    assert {op: counts[op] - plain[op] for op in again} == {op: 3 * count for op, count in again.items()}  # 3 steps
    assert all(map(torch.equal, weights, others))


@pytest.mark.parametrize(
    ("save", "message"),
    [("sdp", r"save\.0: expected mm, sdpa, collectives, or an op .* got sdp; did you mean 'sdpa'\?"), ("aten.mmm", "")],
)
def test_an_op_that_there_is_not_is_refused(save: str, message: str) -> None:
    if message:
        with pytest.raises(ConfigError, match=message):
            CheckpointingConfig(save=(save,))
        return
    with pytest.raises(
        ConfigError, match=r"save\.0: torch has no op aten\.mmm; expected mm, sdpa, collectives, or one"
    ):
        trained_decoder(activation_checkpointing=CheckpointingConfig(save=(save,)))


def test_the_blocks_are_the_modules_side_by_side_that_have_the_most_parameters() -> None:
    model = decoder()
    assert blocks_of(model) == list(model.blocks)
    assert blocks_of(nn.ModuleList([model])) == list(model.blocks)
    del model.blocks[1:]
    assert blocks_of(model) == list(model.blocks)
    with pytest.raises(ConfigError, match="the model has no blocks"):
        learner_of_torch().fit([ROWS], training=TrainingConfig(activation_checkpointing=True), renderer=quiet())


@pytest.mark.slow
def test_compiled_trains_alike() -> None:
    plain, compiled = trained_decoder(), trained_decoder(compile=True)
    assert plain.last["train"] is not None
    assert compiled.last["train"] == pytest.approx(plain.last["train"], rel=0.2)  # dropout draws other numbers
    assert [name for name, _ in compiled.model.named_parameters()] == [
        name for name, _ in plain.model.named_parameters()
    ]


class Points(Callback):
    """Notes every point."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


def noting(name: str) -> Any:
    def method(self: Points, learner: Learner[Any], *values: Any) -> None:
        self.names.append(name)

    return method


for point in [name for name in vars(Callback) if name.startswith("on_")]:
    setattr(Points, point, noting(point.removeprefix("on_")))


def test_callbacks_are_called_at_every_point(tmp_path: Path) -> None:
    points = Points()
    config = TrainingConfig(accumulation_steps=2, background_checkpoints=False)
    learner = learner_of_torch()
    learner.fit([ROWS[:4], ROWS[4:]], [ROWS], config, directory=tmp_path, renderer=quiet(), callbacks=[points])
    assert points.names == [
        *("fit_start", "epoch_start", "batch_start", "batch_start", "backward_end", "step_end", "metrics"),
        *("valid_start", "metrics", "checkpoint", "epoch_end", "fit_end"),
    ]


def test_an_exception_of_a_callback_ends_the_training_and_others_hear_of_it() -> None:
    class Fails(Callback):
        def on_step_end(self, learner: Learner[Any]) -> None:
            raise RuntimeError("mine")

    points = Points()
    with pytest.raises(RuntimeError, match="mine"):
        learner_of_torch().fit([ROWS], renderer=quiet(), callbacks=[Fails(), points])
    assert points.names[-1] == "exception"


def test_a_callback_that_can_not_begin_leaves_no_view_and_an_end_in_the_log(tmp_path: Path) -> None:
    class Fails(Callback):
        def on_fit_start(self, learner: Learner[Any]) -> None:
            raise RuntimeError("mine")

    class View(PlainRenderer):
        is_shown = False

        def start(self, step: int, total_steps: int) -> None:
            self.is_shown = True

        def close(self) -> None:
            self.is_shown = False

    view = View(io.StringIO())
    with pytest.raises(RuntimeError, match="mine"):
        learner_of_torch().fit([ROWS], directory=tmp_path, renderer=view, callbacks=[Fails()])
    assert not view.is_shown
    assert "failed: RuntimeError: mine" in (tmp_path / "log.txt").read_text()


def test_metrics_are_of_the_whole_epoch() -> None:
    """Accuracy over batches of unequal size, which a mean over batches would have wrong."""
    predictions = torch.eye(2)[torch.tensor([0, 0, 0, 1])]
    targets = torch.tensor([0, 0, 1, 0])
    model = nn.Linear(1, 1)

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> StepOutput:
        return StepOutput(model.weight.sum() * 0 + 1, len(batch[1]), *batch)

    accuracy = torchmetrics.Accuracy("multiclass", num_classes=2, average="micro")
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=loss, metrics={"accuracy": accuracy})
    batches = [(predictions[:3], targets[:3]), (predictions[3:], targets[3:])]
    assert learner.evaluate(batches) == {"loss": 1.0, "accuracy": 0.5}
    assert learner.evaluate(batches[:1])["accuracy"] == pytest.approx(2 / 3)


def test_metrics_without_predictions_are_refused() -> None:
    learner = learner_of_torch(metrics={"accuracy": torchmetrics.MeanMetric()})
    with pytest.raises(ConfigError, match=r"metrics: accuracy compare predictions .* the loss gives none"):
        learner.evaluate([ROWS])


class Own(nn.Module):
    """A model with steps of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def train_step(self, batch: Tensor) -> StepOutput:
        return StepOutput((self.weight * batch).mean(), len(batch))

    def valid_step(self, batch: Tensor) -> StepOutput:
        return StepOutput((self.weight * batch).mean() + 100, len(batch))


def test_a_models_own_steps_are_called() -> None:
    model = Own()
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.5))
    learner.train_step(torch.ones(2))
    assert model.weight.item() == 0.5
    assert learner.evaluate([torch.ones(2)])["loss"] == 100.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m, o: Learner(m, o), "expected a loss: .* a Sequential that defines train_step"),
        (lambda m, o: Learner(m, o, loss=mse, task=Own()), "a loss or a task, not both"),
        (lambda m, o: Learner(m, o, task=3), r"task: expected an object with train_step\(model, batch\), got 3"),
        (
            lambda m, o: Learner(m, AdamWConfig().init(), loss=mse),
            "is told the learning rate at each step; .* got None",
        ),
        (lambda m, o: Learner(m, AdamWConfig(), 0.1, loss=mse), r"optimizer: expected one of burnlike"),
        (
            lambda m, o: Learner(m, AdamWConfig().init(), 0.1, loss=mse, grad_clipping=ClipByGlobalNorm(threshold=1.0)),
            "grad_clipping: an optimizer of burnlike has its own",
        ),
        (
            lambda m, o: Learner(
                m, o, ModuleLrSchedulerConfig(base=CosineAnnealingConfig(initial_lr=1.0)).init(9), loss=mse
            ),
            "rates of groups are for optimizers of burnlike",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(make: Any, message: str) -> None:
    model = network()
    with pytest.raises(ConfigError, match=message):
        make(model, torch.optim.SGD(model.parameters(), lr=0.1))


def test_wrong_loaders_are_one_message(tmp_path: Path) -> None:
    learner = learner_of_torch()
    with pytest.raises(DataError, match="has no length; say how many steps"):
        learner.fit(iter([ROWS]), renderer=quiet())
    with pytest.raises(DataError, match="at least one batch"):
        learner.fit([], renderer=quiet())
    with pytest.raises(DataError, match=r"ended after 1 batches, and its length or .* says that it has 3"):
        learner.fit([ROWS], training=TrainingConfig(steps_per_epoch=3), renderer=quiet())
    log = MetricsLog(tmp_path / "x")
    with pytest.raises(ArgumentError, match="a directory has its own"):
        learner.fit([ROWS], directory=tmp_path, metrics_log=log, renderer=quiet())


def test_an_epoch_of_some_steps_of_a_loader() -> None:
    learner = learner_of_torch()
    learner.fit([ROWS] * 5, training=TrainingConfig(epochs=2, steps_per_epoch=2), renderer=quiet())
    assert learner.step == 4
