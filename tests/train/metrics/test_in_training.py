"""Metrics in YAML, in a Learner, in jobs and as JSON lines; speed, processors and memory; what is refused."""

import copy
import io
import json
import math
import pickle
import re
import subprocess
import sys
import time
import warnings
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
import torch
from torch import Tensor, nn
from torchmetrics import MeanMetric
from torchmetrics.text import ROUGEScore

from burnlike.config import Config, MetricConfig
from burnlike.errors import ConfigError, DTypeError, RecordMismatchError, RunDirError, ShapeError
from burnlike.train import (
    Classification,
    ClassificationConfig,
    Interrupted,
    Interrupter,
    Job,
    Learner,
    MetricsLog,
    PlainRenderer,
    RunDir,
    Segmentation,
    TrainConfig,
    load_run,
    metrics as m,
    next_token_loss,
)
from burnlike.train.learner.steps import values_of
from burnlike.train.parallel.single_process import SingleProcess
from burnlike.train.view.callback import Callback
from tests.processes import HANGS_S
from tests.train.samples import load_config, metrics_of

from .samples import CASES, SYSTEM, fed


class Part(Config):
    metrics: list[MetricConfig]


YAML = """metrics:
- {type: Accuracy, pad_token: 0}
- {type: Precision, top_k: 2, class_reduction: Micro, name: precision of two}
- type: MsSsim
  betas: [0.5, 0.5]
"""


def test_a_list_of_metrics() -> None:
    built = [config.init() for config in Part.from_yaml(YAML).metrics]
    assert [type(it) for it in built] == [m.Accuracy, m.Precision, m.MsSsim]
    assert [it.name for it in built] == ["Accuracy", "precision of two", "MS-SSIM (pr=1, k=11, \u03c3=1.5)"]


@pytest.mark.parametrize("config", [*(case.config for case in CASES.values()), *(it() for it in SYSTEM)], ids=str)
def test_what_a_config_writes_it_reads(config: MetricConfig) -> None:
    assert type(config).from_yaml(config.to_yaml()) == config


def test_mistakes_are_named_with_their_place() -> None:
    with pytest.raises(ConfigError) as error:
        Part.from_yaml("metrics:\n- {type: Acuracy}\n- {type: Precision, top_k: 0}\n- {type: Bleu, n: 4}\n")
    first, second, third = str(error.value).splitlines()
    assert ":2:10: metrics.0.type: " in first
    assert "Accuracy" in first
    assert ":3:28: metrics.1.top_k: expected an int >= 1 or null, got 0" in second
    assert ":4:16: metrics.2.n: unknown key" in third


def test_check_and_schema_load_no_torch(tmp_path: Path) -> None:
    (tmp_path / "precision.yaml").write_text("type: Precision\nthreshold: 0.4\ntop_k: 2\n")
    code = """if True:
        import sys
        from burnlike.cli.main import main
        status = [main(["check", "precision.yaml"]), main(["schema", "MsSsimConfig"])]
        sys.exit(f"{status} {'torch' in sys.modules} {'torchmetrics' in sys.modules}")
    """
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANGS_S
    )
    assert "expected either threshold or top_k, got both" in done.stdout + done.stderr
    assert done.stderr.splitlines()[-1] == "[2, 0] False False"
    schema = json.loads(done.stdout[done.stdout.index("{") :])
    assert schema["definitions"]["MsSsimConfig"]["properties"]["betas"]["description"].startswith("the exponent")


def test_without_torchmetrics_a_config_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.startswith("burnlike.train.metrics."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    with pytest.raises(ConfigError, match=r"Auroc needs the package torchmetrics: pip install 'burnlike\[train\]'"):
        m.AurocConfig().init()


def floats(*shape: int) -> Tensor:
    return torch.zeros(shape)


def ints(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.int64)


SHAPES: list[tuple[MetricConfig, Any, Any, str]] = [
    (m.AccuracyConfig(), floats(4, 3), ints(5), "predictions [n, ..., classes] with at least 2 classes"),
    (m.AccuracyConfig(), floats(4), ints(4), "with at least 2 classes"),
    (m.AccuracyConfig(), floats(4, 1), ints(4), "with at least 2 classes"),
    (m.AccuracyConfig(), floats(4, 3), ints(4, 3), "targets [n, ...]"),
    (m.AccuracyConfig(), floats(2, 3, 7, 5), ints(2, 7, 5), "(class_dim is -1)"),
    (m.AccuracyConfig(class_dim=1), floats(2, 6, 5), ints(2, 6), "[n, classes, ...]"),
    (m.PerplexityConfig(), floats(2, 6, 5), ints(2, 5), "predictions [n, ..., classes]"),
    (m.PrecisionConfig(), floats(4, 3), ints(4, 2), "[n, ...] of classes or [n, ..., classes] of zeros and ones"),
    (m.AurocConfig(), floats(4), ints(4), "of classes or"),
    (m.HammingConfig(), floats(), ints(), "of classes or"),
    (m.BleuConfig(), ints(4), ints(4), "predictions [n, length] and targets [n, length]"),
    (m.WordErrorRateConfig(), ints(4, 3), ints(5, 3), "predictions [n, length] and targets [n, length]"),
    (m.DiceConfig(), floats(4, 3), ints(4), "masks [n, classes, ...] of one shape, or scores"),
    (m.DiceConfig(), floats(4, 3, 5, 5), ints(4, 5, 6), "predictions [n, classes, ...]"),
    (m.PsnrConfig(), floats(4, 5, 5), floats(4, 5, 5), "of one shape [n, channels, height, width]"),
    (m.SsimConfig(), floats(1, 1, 10, 30), floats(1, 1, 10, 30), "images of at least 11 x 11 (kernel_size)"),
    (m.MsSsimConfig(), floats(1, 1, 300, 300), floats(1, 1, 300, 300), "3 channels (channels)"),
]


@pytest.mark.parametrize(("config", "predictions", "targets", "expected"), SHAPES)
def test_shapes_that_cannot_be_meant(config: MetricConfig, predictions: Any, targets: Any, expected: str) -> None:
    metric = config.init()
    before = m.metric_state(metric)
    shapes = f"got predictions of {list(predictions.shape)} and targets of {list(targets.shape)}"
    with pytest.raises(ShapeError, match=f"^{type(metric).__name__}: expected .*{re.escape(expected)}.*") as error:
        metric.update(predictions, targets)
    assert shapes in str(error.value)
    assert str(m.metric_state(metric)) == str(before)


DTYPES: list[tuple[MetricConfig, Any, Any, str]] = [
    (m.AccuracyConfig(), ints(4, 3), ints(4), "predictions: expected floats, got torch.int64"),
    (m.AccuracyConfig(), floats(4, 3), floats(4), "targets: expected integers, got torch.float32"),
    (m.RecallConfig(), floats(4, 3), floats(4), "targets: expected integers, got torch.float32"),
    (m.RecallConfig(), ints(4, 3), ints(4), "predictions: expected floats, got torch.int64"),
    (m.BleuConfig(), floats(4, 3), ints(4, 3), "predictions: expected integers, got torch.float32"),
    (m.BleuConfig(), ints(4, 3), floats(4, 3), "targets: expected integers, got torch.float32"),
    (m.DiceConfig(), floats(4, 3, 2), floats(4, 3, 2), "predictions: expected masks of integers or bools"),
    (m.PsnrConfig(), ints(1, 1, 4, 4), ints(1, 1, 4, 4), "predictions: expected floats, got torch.int64"),
    (m.AccuracyConfig(), [[0.1, 0.9]], ints(1), "predictions: expected a tensor, got list"),
    (m.AurocConfig(), floats(1, 2), None, "targets: expected a tensor, got NoneType"),
]


@pytest.mark.parametrize(("config", "predictions", "targets", "expected"), DTYPES)
def test_dtypes_that_cannot_be_meant(config: MetricConfig, predictions: Any, targets: Any, expected: str) -> None:
    metric = config.init()
    with pytest.raises(DTypeError, match=f"^{type(metric).__name__}: {re.escape(expected)}"):
        metric.update(predictions, targets)


def test_more_scores_than_classes() -> None:
    with pytest.raises(ShapeError, match=r"TopKAccuracy: expected at least 4 classes \(k\), got 3"):
        m.TopKAccuracyConfig(k=4).init().update(floats(2, 3), ints(2))
    with pytest.raises(ShapeError, match=r"Precision: expected at least 4 classes \(top_k\), got 3"):
        m.PrecisionConfig(top_k=4).init().update(floats(2, 3), ints(2))


@pytest.mark.parametrize("config", [m.RecallConfig(), m.AurocConfig(), m.HammingConfig()])
@pytest.mark.parametrize("first", [1, 3])
def test_batches_have_the_same_classes(config: MetricConfig, first: int) -> None:
    metric = fed(config, [(floats(2, first), ints(2, first))])
    with pytest.raises(ShapeError, match=f"expected {first} classes, as in earlier batches, got 4"):
        metric.update(floats(2, 4), ints(2))
    metric.reset()
    metric.update(floats(2, 4), ints(2))


@pytest.mark.parametrize(
    "arguments",
    [(floats(4, 3), ints(4)), (floats(4, 3), None), (floats(4),  4), (floats(), None), (0.5, 3), (floats(3), ints(3))],
)  # fmt: skip
def test_what_is_no_loss(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ShapeError, match=r"Loss: expected the losses of items, \[n\], or their mean, \[\], and"):
        m.Loss().update(*arguments)


def test_what_is_no_learning_rate() -> None:
    with pytest.raises(ShapeError, match=r"LearningRate: expected the rate of a step, a number, got \[4, 3\]"):
        m.LearningRate().update(floats(4, 3), ints(4))


@pytest.mark.parametrize(
    ("computed", "message"),
    [
        (None, r"expected a number, a tensor of numbers, or several by name from compute\(\), got NoneType, None"),
        ("x", r"expected a number.*got str, 'x'"),
        ({"part": [None]}, r".*"),
        (ZeroDivisionError("no items"), r"compute\(\) failed: ZeroDivisionError: no items"),
    ],
)
def test_what_is_no_value(computed: Any, message: str) -> None:
    name = "mine.part" if isinstance(computed, dict) else "mine"
    metric = Mock(compute=Mock(side_effect=[computed]))
    with pytest.raises(ConfigError, match=f"^metrics: {name}: {message}"):
        values_of({"mine": metric}, SingleProcess())


def test_states_of_other_metrics() -> None:
    metric = fed(*CASES["Accuracy"][:1], CASES["Accuracy"].batches())
    before = m.metric_state(metric)
    total, weight = before["total"], before["weight"]
    for state, message in (
        ({"total": total}, "Accuracy: the state has no 'weight'"),
        (
            {"total": total, "weight": weight, "more": weight},
            "Accuracy: the state has 'more', and the metric has not",
        ),
        ({"total": total, "weight": [weight]}, "Accuracy: the state 'weight': expected a tensor, got list"),
    ):
        with pytest.raises(RecordMismatchError, match=message):
            m.restore_metric(metric, state)
    with pytest.raises(RecordMismatchError, match="Auroc: the state 'scores': expected a list of tensors, got Tensor"):
        m.restore_metric(m.Auroc(), {"scores": weight, "truth": [], "classes": weight})
    assert m.metric_state(metric) == before


def test_states_of_any_metric_of_torchmetrics() -> None:
    metric, rouge = MeanMetric(), ROUGEScore(rouge_keys="rouge1")
    metric.update(torch.tensor([1.0, 5.0]))
    rouge.update(["a b"], ["a c"])
    for filled, empty in ((metric, MeanMetric()), (rouge, ROUGEScore(rouge_keys="rouge1"))):
        m.restore_metric(empty, m.metric_state(filled))
        assert str(m.metric_state(empty)) == str(m.metric_state(filled))
    other, state = MeanMetric(), m.metric_state(metric)
    for again in (metric, other):  # it adds in place, and the state stays as it is
        m.restore_metric(again, state)
        again.update(torch.tensor(6.0))
        assert again.compute() == 4


@pytest.mark.parametrize(
    ("config", "fields", "message"),
    [
        (m.PrecisionConfig, {"threshold": 0.5, "top_k": 1}, "top_k: expected either threshold or top_k, got both"),
        (m.PrecisionConfig, {"top_k": 0}, "top_k: expected"),
        (m.TopKAccuracyConfig, {"k": 0}, "k: expected"),
        (m.FBetaScoreConfig, {"beta": 0.0}, "beta: expected"),
        (m.BleuConfig, {"max_n": 0}, "max_n: expected"),
        (m.RougeNConfig, {"n": 10}, "n: expected"),
        (m.SsimConfig, {"kernel_size": 8}, "kernel_size: expected an odd number, got 8"),
        (m.MsSsimConfig, {"betas": ()}, "betas: expected"),
        (m.MsSsimConfig, {"betas": (0.5, -0.5)}, "betas"),
        (m.AurocConfig, {"class_reduction": "Weighted"}, "class_reduction: expected"),
        (m.AccuracyConfig, {"class_dim": 2}, "class_dim: expected"),
        (m.AccuracyConfig, {"name": ""}, "name: expected"),
    ],
)
def test_configs_out_of_bounds(config: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**fields)


GENERATOR = torch.Generator().manual_seed(4)


def learner_of(model: nn.Module, metrics: dict[str, m.EpochMetric], **how: Any) -> Learner[Any]:
    return Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), metrics=metrics, **how)


def batches(*shape: int, targets: tuple[int, ...], high: int) -> list[tuple[Tensor, Tensor]]:
    sizes = (5, 2)
    return [
        (torch.randn(n, *shape, generator=GENERATOR), torch.randint(high, (n, *targets), generator=GENERATOR))
        for n in sizes
    ]


def test_of_classification() -> None:
    data = batches(6, targets=(), high=3)
    model = nn.Linear(6, 3)
    metrics = {"accuracy": m.Accuracy(), "f1": m.FBetaScoreConfig(top_k=1).init(), "stats": m.ConfusionStats()}
    learner = learner_of(model, metrics, task=Classification())
    found = learner.evaluate(data)
    inputs, targets = (torch.cat(it) for it in zip(*data, strict=True))
    right = (model(inputs).argmax(1) == targets).double().mean().item()
    assert math.isclose(found["accuracy"], 100 * right)
    assert 0 <= found["f1"] <= 100
    assert sum(found[f"stats.positive.{place}"] for place in range(3)) == len(targets)
    assert found == learner.evaluate(data)  # nothing of an evaluation is left in the next
    assert learner.evaluate(data[:1])["accuracy"] != found["accuracy"]


def test_of_classification_with_several_labels() -> None:
    data = batches(6, targets=(3,), high=2)
    model = nn.Linear(6, 3)
    metrics = {"hamming": m.HammingConfig(sigmoid=True).init(), "recall": m.RecallConfig(threshold=0.3).init()}
    found = learner_of(model, metrics, task=Classification(ClassificationConfig(multi_label=True))).evaluate(data)
    inputs, targets = (torch.cat(it) for it in zip(*data, strict=True))
    right = ((model(inputs) > 0) == targets.bool()).double().mean().item()
    assert math.isclose(found["hamming"], 100 * right)
    assert 0 <= found["recall"] <= 100


def test_of_segmentation() -> None:
    data = batches(2, 4, 5, targets=(4, 5), high=3)
    model = nn.Conv2d(2, 3, 1)
    metrics = {"dice": m.Dice(), "accuracy": m.AccuracyConfig(class_dim=1, pad_token=2).init()}
    found = learner_of(model, metrics, task=Segmentation()).evaluate(data)
    inputs, targets = (torch.cat(it) for it in zip(*data, strict=True))
    right = (model(inputs).argmax(1) == targets)[targets != 2].double().mean().item()
    assert math.isclose(found["accuracy"], 100 * right)
    assert 0 <= found["dice"] <= 1


def test_perplexity_is_exp_of_the_loss_of_a_language_model() -> None:
    model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11))
    data = [torch.randint(11, (n, 7), generator=GENERATOR) for n in (4, 1)]
    found = learner_of(model, {"perplexity": m.Perplexity()}, loss=next_token_loss).evaluate(data)
    assert math.isclose(found["perplexity"], math.exp(found["loss"]), rel_tol=1e-6)


def test_lines_are_json_and_grow(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.append({"step": 1, "loss": 0.1})
    log.append({"step": 2, "loss": math.nan})
    assert log.path.read_text() == '{"step": 1, "loss": 0.1}\n{"step": 2, "loss": null}\n'
    assert log.read() == [{"step": 1, "loss": 0.1}, {"step": 2, "loss": None}]


def test_cut_back_drops_later_steps_and_damaged_lines(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in (1, 2, 2, 3):
        log.append({"step": step})
    with open(log.path, "a") as file:
        file.write("not json\n" + json.dumps({"step": 1})[:-1])
    log.cut_back(2)
    assert [line["step"] for line in log.read()] == [1, 2, 2]
    log.append({"step": 3})
    assert [line["step"] for line in log.read()] == [1, 2, 2, 3]


def test_cut_back_of_a_log_that_fits_changes_nothing(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.cut_back(0)
    assert not log.path.exists()
    log.append({"step": 1})
    before = log.path.stat()
    log.cut_back(1)
    assert log.path.stat().st_ino == before.st_ino


def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(RunDirError, match=r"metrics.jsonl can't be written: Is a directory"):
        MetricsLog(tmp_path / "metrics.jsonl").append({"step": 1})


METRICS = "metrics=[{type: Perplexity}, {type: TopKAccuracy, k: 5}, {type: Accuracy, name: right}]"


def run(directory: Path, job: Job, stop: int | None = None) -> None:
    class Stop(Callback):
        def on_step_end(self, learner) -> None:
            if learner.step == stop:
                interrupter.stop()

    interrupter = Interrupter()
    opened = RunDir.open(directory) if directory.exists() else RunDir.create(directory)
    with closing(opened) as run_dir:
        try:
            job.run(run_dir, PlainRenderer(io.StringIO()), interrupter, [Stop()])
        except Interrupted:
            assert stop is not None


def test_lines_have_the_metrics_of_whole_epochs(tmp_path: Path) -> None:
    config = load_config(tmp_path, METRICS, "training.epochs=1", "loggers=[{type: TensorBoard}]")
    run(tmp_path / "run", Job(config))
    (valid,) = [line for line in metrics_of(tmp_path / "run") if line["split"] == "valid"]
    assert set(valid) == {"step", "epoch", "split", "loss", "perplexity", "top_k_accuracy", "right"}
    # exp of the mean loss, which the perplexity is by its definition
    assert valid["perplexity"] == pytest.approx(torch.tensor(valid["loss"]).exp().item(), rel=1e-5)
    assert 0 <= valid["right"] <= valid["top_k_accuracy"] <= 100
    assert list((tmp_path / "run" / "tensorboard").glob("events*"))


@pytest.mark.parametrize("stop", [5, 27])
def test_metrics_of_training_go_on_in_the_middle_of_an_epoch(tmp_path: Path, stop: int) -> None:
    config = load_config(tmp_path, METRICS, "training.train_metrics=true", "training.epochs=2")
    run(tmp_path / "whole", Job(config))
    run(tmp_path / "run", Job(config), stop=stop)
    run(tmp_path / "run", Job(config))
    lines = metrics_of(tmp_path / "run")
    assert lines == metrics_of(tmp_path / "whole")
    assert len([line for line in lines if line["split"] == "train" and "perplexity" in line]) == 2


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("metrics=[{type: Loss}]", "metrics.0: expected another metric: each line has the loss"),
        ("metrics=[{type: Accuracy}, {type: Accuracy}]", "metrics.1: expected another name than 'accuracy'"),
        ("training.keep_best={metric: acuracy}", "training.keep_best.metric: there is no metric 'acuracy'"),
        ("training.early_stopping={metric: x}", "training.early_stopping.metric: there is no metric 'x'"),
        (
            "training.keep_best={metric: loss.x}",
            "no metric 'loss.x' among `metrics`; the validation has loss",
        ),
    ],
)
def test_mistakes_are_told_by_the_config(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path, override)


NUMBERS = """\
data: {type: Csv, path: t.csv, target: [price, days], kind: numbers}
model: {type: Mlp, hidden: [4]}
task: {type: Regression}
metrics: [{type: Mae}, {type: R2}]
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 0.1}
training: {epochs: 6, batch_size: 8, keep_best: {metric: mae.days}}
"""


def test_a_value_of_one_target_decides_the_best_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # The days can not be learned from x.
    Path("t.csv").write_text("x,price,days\n" + "".join(f"{it % 7},{it % 7 * 3},{it * 5 % 3}\n" for it in range(80)))
    best: dict[str, int] = {}
    for metric, higher in (("mae.days", False), ("mae.price", False), ("r2.days", True)):
        config = TrainConfig.from_yaml(NUMBERS.replace("mae.days", metric))
        assert config.best_metric.direction == ("highest" if higher else "lowest")
        run(Path(metric), Job(config))
        values = {it["step"]: it[metric] for it in metrics_of(Path(metric)) if it["split"] == "valid"}
        best[metric] = (max if higher else min)(values, key=lambda step: values[step])
        assert load_run(metric).step == best[metric]
    assert best["mae.days"] != best["mae.price"]
    for metric, available in (
        ("mae.day", "mae, mae.price, mae.days; did you mean 'mae.days'"),
        ("r2.x", "r2, r2.price"),
    ):
        with pytest.raises(
            ConfigError, match=rf"training.keep_best.metric: '\w+' has no value '{metric}', it has {available}"
        ):
            Job(TrainConfig.from_yaml(NUMBERS.replace("mae.days", metric)))
    with pytest.raises(ConfigError, match=r"expected lowest, as low values of mae\.days are good"):
        TrainConfig.from_yaml(NUMBERS.replace("mae.days", "mae.days, direction: highest"))


class Clock:
    """What `time.perf_counter` gives, set by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_iteration_speed_is_that_of_the_whole_epoch(clock: Clock) -> None:
    metric = m.IterationSpeed()
    assert metric.compute().isnan()
    for seconds in (5, 1, 2, 5):
        clock.now += seconds
        metric.update(torch.rand(3), torch.rand(3))
    assert metric.compute() == 3 / 8
    assert (metric.name, metric.unit, metric.higher_is_better) == ("Iteration Speed", "iter/sec", True)
    metric.reset()
    clock.now += 50  # no time of an epoch
    for _ in range(3):
        clock.now += 0.25
        metric.update()
    assert metric.compute() == 4


def test_time_between_a_save_and_a_restore_does_not_count(clock: Clock) -> None:
    metric = m.IterationSpeed()
    for _ in range(3):
        metric.update()
        clock.now += 1
    state, pickled = m.metric_state(metric), pickle.dumps(metric)
    clock.now += 1000
    restored = m.IterationSpeed()
    m.restore_metric(restored, state)
    for again in (restored, pickle.loads(pickled), copy.deepcopy(metric)):
        for _ in range(2):
            again.update()
            clock.now += 0.5
        assert again.compute() == 3 / 2.5
        clock.now += 1000


def test_cpu_use_is_a_mean_over_time(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    uses = iter([99.0, 50.0, 20.0])
    monkeypatch.setattr(psutil, "cpu_percent", lambda: next(uses))
    metric = m.CpuUse()
    metric.update()  # begins
    clock.now += 0.1
    metric.update()  # too early for a look
    clock.now += 0.9
    metric.update()
    clock.now += 3
    metric.update()
    assert metric.compute().item() == pytest.approx((50 * 1 + 20 * 3) / 4)
    assert (metric.name, metric.unit, metric.higher_is_better) == ("CPU Usage", "%", False)


def test_cpu_use_of_this_machine() -> None:
    metric = m.CpuUse()
    metric.update()
    busy_until = time.perf_counter() + 0.5
    while time.perf_counter() < busy_until:
        pass
    metric.update()
    used_by_the_loop = 100 / psutil.cpu_count()  # which has a CPU at least for half of the time
    assert 0.5 * used_by_the_loop <= metric.compute() <= 100


def test_cpu_memory_is_the_most_that_was_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = m.CpuMemory()
    assert metric.compute().isnan()
    free = iter([30e9, 12.5e9, 40e9])
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=64e9, available=next(free)))
    for _ in range(3):
        metric.update(None, None)
    assert metric.compute() == 51.5
    other = m.CpuMemory()
    other.merge_state(metric)
    assert other.compute() == 51.5
    assert (metric.name, metric.unit) == ("CPU Memory", "Gb")


def test_cpu_memory_of_this_machine() -> None:
    metric = m.CpuMemory()
    metric.update()
    assert 0 < metric.compute() * 1e9 <= psutil.virtual_memory().total


@pytest.mark.parametrize("config", [m.CudaUseConfig(), m.CudaMemoryConfig()], ids=lambda it: type(it).__name__)
def test_without_a_device_the_value_is_nan_and_a_warning_says_so(
    config: m.CudaUseConfig | m.CudaMemoryConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.warns(UserWarning, match=r"Cuda\w+: there is no CUDA device; its value is NaN") as caught:
        metric = config.init()
    assert len(caught) == 1
    metric.update(torch.rand(2), torch.rand(2))
    assert metric.compute().isnan()


def test_without_its_package_cuda_use_is_nan_and_a_warning_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def utilization() -> int:
        raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "utilization", utilization)
    with pytest.warns(UserWarning, match=r"CudaUse: .*nvidia-ml-py"):
        metric = m.CudaUse()
    metric.update()
    assert metric.compute().isnan()


def test_cuda_use_and_memory_are_those_that_the_driver_gives(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    free = iter([30e9, 10e9, 20e9])
    uses = iter([0, 40, 100])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "utilization", lambda: next(uses))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (next(free), 80e9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        use, memory = m.CudaUse(), m.CudaMemory()
    for _ in range(3):
        use.update()
        memory.update()
        clock.now += 1
    assert use.compute() == 70
    assert memory.compute() == 70
