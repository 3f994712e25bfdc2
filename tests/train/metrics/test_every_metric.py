"""Burn's own numbers of the metrics; values of whole epochs, of two processes, states, edge cases."""

import copy
import json
import math
import pickle
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torchmetrics import MeanSquaredError, Metric, MetricCollection, MinMaxMetric

from burnlike.config import MetricConfig, registry
from burnlike.errors import ConfigError, ShapeError, TargetError
from burnlike.train import LearnerSummary, TrainingConfig, metrics, read_run
from burnlike.train.metrics import EpochMetric, metric_state, restore_metric
from burnlike.train.metrics.directions import directions_in, low_is_good
from burnlike.train.view.report.chart import curves_of
from tests.burn.train_cases import METRICS, VECTORS, difference
from tests.vectors.compare import Tolerance
from tests.vectors.files import read

from ...processes import results_of
from ..runs.test_run_files import make_run
from .samples import CASES, SYSTEM, Case, classes, fed, labels, masks, tokens, values, whole
from .worker import SHARES, SIZES

RECORDS = {record["id"]: record for record in read(Path(__file__).parents[2] / "vectors" / "metrics.json")}
OF_OTHER_TESTS = {
    *("NumericMetricState", "format_float", "NumericEntry", "NumericMetricsAggregate", "LearnerSummary", "format_eta"),
    *("RecentHistoryPlot", "FullHistoryPlot", "MetricEarlyStoppingStrategy", "KeepLastNCheckpoints"),
    *("MetricCheckpointingStrategy", "ComposedCheckpointingStrategy"),
}
"""No metrics: what shows, keeps and compares their values."""
NEED_WEIGHTS = {"Fid", "Lpips", "Dists", "Afine"}
"""They compare features of networks whose weights would have to be downloaded: a row of docs/deviations."""
LEFT_OUT = {
    "QuickGelu/HEAD/matches_formula": "a layer of Afine",
    "Auroc/v0.21/auroc_all_one_class": "0 in Burn 0.21; 0.22 gives 50, as Auroc/HEAD/all_degenerate_is_chance says",
    "Auroc/v0.21/multiclass_error": "an error in Burn 0.21; 0.22 takes any number of classes",
    "Auroc/HEAD/should_panic_before_compute": "there is no value but that of compute()",
}
CHANGED_IN_0_22 = {"AucPr/HEAD/multilabel_micro": 55.013511814982394}
"""Equal scores are one threshold; what scikit-learn gives."""


def metric_records() -> list[Any]:
    return [
        it for it in RECORDS.values() if it["metric"] not in OF_OTHER_TESTS | NEED_WEIGHTS and it["id"] not in LEFT_OUT
    ]


def config_of(record: dict[str, Any], **fields: Any) -> MetricConfig:
    fields = {**record["config"], **fields}
    fields.pop("constructor", None)
    if isinstance(smoothing := fields.get("smoothing"), dict):
        fields |= {"smoothing": "epsilon", "epsilon": smoothing["AddEpsilon"]}
    return getattr(metrics, f"{record['metric']}Config")(**fields)


def tensor_of(value: Any, floats: bool) -> torch.Tensor:
    if isinstance(value, list):
        return torch.tensor(value, dtype=torch.float32 if floats else None)
    dtype = torch.float32 if floats else torch.int64
    if "full" in value:
        return torch.full(value["shape"], value["full"], dtype=dtype)
    if "random_uniform" in value:
        low, high = value["random_uniform"]
        return torch.empty(value["shape"], dtype=dtype).uniform_(low, high, generator=torch.manual_seed(0))
    (kind, shape), *_ = value.items()
    return {"ones": torch.ones, "zeros": torch.zeros}[kind](shape, dtype=dtype)


def batches_of(record: dict[str, Any]) -> list[tuple[Any, ...]]:
    images = record["metric"] in ("Psnr", "Ssim", "MsSsim")
    whole = record["metric"] in ("Bleu", "RougeL", "CharErrorRate", "WordErrorRate", "Dice")
    found = []
    for batch in record["inputs"]:
        if "tensor" in batch:
            found.append((torch.tensor(batch["tensor"]),))
            continue
        predictions = tensor_of(batch.get("outputs", batch.get("predictions")), floats=not whole)
        targets = batch["targets"]
        found.append((predictions, predictions if targets == "same as outputs" else tensor_of(targets, floats=images)))
    return found


def value_of(record: dict[str, Any], batches: list[tuple[Any, ...]]) -> Any:
    metric = config_of(record).init()
    for batch in batches:
        metric.update(*batch)
    if "clear" in record["call"]:
        metric.reset()
    value = metric.compute()
    return value[record["call"]] if isinstance(value, dict) else value


def check(got: torch.Tensor, expected: Any, record: dict[str, Any]) -> None:
    if isinstance(expected, dict):
        assert expected.keys() == {"bound"}
        sides = {"lt": got < expected["bound"].get("lt", 0), "gt": got > expected["bound"].get("gt", 0)}
        assert all(sides[side] for side in expected["bound"]), f"{got} is not within {expected['bound']}"
        if "reference_value" in record:
            torch.testing.assert_close(got.item(), record["reference_value"], rtol=2e-6, atol=1e-8)
        return
    wanted = torch.tensor(float("nan") if expected == "nan" else expected, dtype=torch.float64).squeeze()
    near = Tolerance(record["rtol"], record["atol"], loose=True).near(got.double().squeeze(), wanted)
    assert near.all(), f"expected {wanted}, got {got}"


def is_number(expected: Any) -> bool:
    return not isinstance(expected, dict) or "bound" in expected


NUMBERS = [it for it in metric_records() if is_number(it["expected"])]


@pytest.mark.parametrize("record", NUMBERS, ids=lambda it: it["id"])
def test_values_are_those_of_burn(record: dict[str, Any]) -> None:
    check(value_of(record, batches_of(record)), CHANGED_IN_0_22.get(record["id"], record["expected"]), record)


ERRORS = [it for it in metric_records() if isinstance(it["expected"], dict) and "error" in it["expected"]]


@pytest.mark.parametrize("record", ERRORS, ids=lambda it: it["id"])
def test_what_burn_refuses_is_an_error(record: dict[str, Any]) -> None:
    if record["call"] == "config":
        (field,) = [name for name in record["config"] if name in record["expected"]["message"]]
        with pytest.raises(ConfigError, match=rf"{record['metric']}Config: {field}: expected"):
            config_of(record)
        return
    ((predictions, targets),) = batches_of(record)
    shapes = re.escape(f"got predictions of {list(predictions.shape)} and targets of {list(targets.shape)}")
    with pytest.raises(ShapeError, match=rf"{record['metric']}: expected .*{shapes}"):
        config_of(record).init().update(predictions, targets)


NAMES: dict[str, MetricConfig] = {
    "Top-K Accuracy @ TopK(2)": metrics.TopKAccuracyConfig(k=2),
    "Top-K Accuracy @ TopK(1)": metrics.TopKAccuracyConfig(k=1),
    "Precision @ TopK(1) [Macro]": metrics.PrecisionConfig(top_k=1),
    "Precision @ TopK(2) [Macro]": metrics.PrecisionConfig(top_k=2),
    "Precision @ Threshold(0.5) [Macro]": metrics.PrecisionConfig(threshold=0.5),
    "Precision @ Threshold(0.75) [Macro]": metrics.PrecisionConfig(threshold=0.75),
    "Recall @ TopK(1) [Macro]": metrics.RecallConfig(top_k=1),
    "Recall @ TopK(2) [Macro]": metrics.RecallConfig(top_k=2),
    "Recall @ Threshold(0.5) [Macro]": metrics.RecallConfig(threshold=0.5),
    "Recall @ Threshold(0.75) [Macro]": metrics.RecallConfig(threshold=0.75),
    "FBetaScore (0.5) @ TopK(1) [Macro]": metrics.FBetaScoreConfig(beta=0.5, top_k=1),
    "FBetaScore (0.5) @ TopK(2) [Macro]": metrics.FBetaScoreConfig(beta=0.5, top_k=2),
    "FBetaScore (0.5) @ Threshold(0.5) [Macro]": metrics.FBetaScoreConfig(beta=0.5),
    "FBetaScore (0.75) @ Threshold(0.5) [Macro]": metrics.FBetaScoreConfig(beta=0.75),
    "BLEU-2": metrics.BleuConfig(max_n=2),
    "BLEU-4": metrics.BleuConfig(),
    "SSIM (dr=1, w=3, \u03c3=1)": metrics.SsimConfig(kernel_size=3, sigma=1),
    "SSIM (dr=255, w=11, \u03c3=1.5)": metrics.SsimConfig(pixel_range=255),
    "MS-SSIM (pr=255, k=11, \u03c3=1.5)": metrics.MsSsimConfig(pixel_range=255),
    "CustomSSIM": metrics.SsimConfig(name="CustomSSIM"),
    "CustomMS-SSIM": metrics.MsSsimConfig(name="CustomMS-SSIM"),
}


def test_names_are_those_of_burn() -> None:
    expected = [it["expected"]["names"].values() for it in metric_records() if "names" in str(it["expected"])]
    assert sorted({name for names in expected for name in names}) == sorted(NAMES)
    for name, config in NAMES.items():
        assert config.init().name == name


def test_loss_is_the_mean_of_all_items() -> None:
    record = RECORDS["Loss/derived_running"]
    running = [value_of(record, batches_of(record)[:count]).item() for count in (1, 2)]
    assert running == record["expected"]["outputs"]["running_value_after_each"]


def test_ssim_of_swapped_images_is_the_same() -> None:
    record = RECORDS["Ssim/symmetry"]
    ((predictions, targets),) = batches_of(record)
    expected = record["expected"]["derived_value"]
    for pair in ((predictions, targets), (targets, predictions)):
        assert value_of(record, [pair]).item() == pytest.approx(expected, abs=1e-7)


OF_SEVERAL = ["Psnr/running_average", "MsSsim/running_average", "Perplexity/HEAD/global_aggregation"]


@pytest.mark.parametrize("name", OF_SEVERAL)
def test_values_of_several_batches(name: str) -> None:
    record = RECORDS[name]
    batches, outputs = batches_of(record), record["expected"]["outputs"]
    check(value_of(record, batches), outputs.get("running_value_after_2", outputs.get("final_value")), record)
    if "value_after_1" in outputs:
        check(value_of(record, batches[:1]), outputs["value_after_1"], record)


def test_every_vector_is_run_or_left_out() -> None:
    by_name = [it for it in metric_records() if "names" in str(it["expected"])]
    run = [it["id"] for it in (*NUMBERS, *ERRORS, *by_name)] + OF_SEVERAL + ["Loss/derived_running", "Ssim/symmetry"]
    assert sorted(run) == sorted(it["id"] for it in metric_records())
    assert LEFT_OUT.keys() <= RECORDS.keys()


ENTRIES: list[dict[str, Any]] = json.loads(VECTORS.read_text())


def subject(entry: dict[str, Any]) -> str:
    return entry["case"].get("metric", entry["case"]["task"])


@pytest.mark.parametrize("name", [*METRICS, "stopping", "checkpoints"])
def test_answers_are_burns(name: str) -> None:
    entries = [it for it in ENTRIES if subject(it) == name]
    assert len(entries) >= 2
    assert [it for entry in entries if (it := difference(entry["case"], entry["burn"]))] == []


EACH = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
TEXTS = ("CharErrorRate", "WordErrorRate", "Bleu", "RougeL", "RougeN")
OF_NUMBERS = {name: case for name, case in CASES.items() if name not in (*TEXTS, "Loss", "LearningRate")}
OF_TENSORS = {name: case for name, case in CASES.items() if name not in ("Loss", "LearningRate")}
OF_BATCHES = {name: case for name, case in CASES.items() if name != "LearningRate"}
OF_FLOATS = {name: case for name, case in CASES.items() if name not in TEXTS}
OF_CLASSES = {name: case for name, case in CASES.items() if case.batch in (classes, labels, tokens, masks)}


def same(metric: EpochMetric, other: EpochMetric) -> bool:
    return torch.equal(values(metric), values(other))


def test_every_metric_has_a_case() -> None:
    registry.load_built_in()
    ours = {it for it in registry.imported(MetricConfig).values() if it.__module__.startswith("burnlike.")}
    assert ours == {type(case.config) for case in CASES.values()} | {*SYSTEM}


@EACH
def test_it_has_name_unit_and_direction(case: Case) -> None:
    metric = case.config.init()
    assert isinstance(metric.name, str)
    assert metric.name
    assert metric.unit in ("%", "dB", None)
    assert metric.higher_is_better is not None or "ConfusionStats" in type(metric).__name__
    named = type(case.config).from_yaml(f"type: {type(metric).__name__}\nname: mine").init()
    assert named.name == "mine"


@pytest.mark.parametrize("case", OF_NUMBERS.values(), ids=OF_NUMBERS)
def test_batches_of_any_sizes_have_the_value_of_their_items(case: Case) -> None:
    batches = case.batches()
    expected = values(fed(case.config, [whole(batches)]))
    assert not expected.isnan().any()
    torch.testing.assert_close(values(fed(case.config, batches)), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("case", OF_BATCHES.values(), ids=OF_BATCHES)
def test_it_is_not_the_mean_of_the_values_of_batches(case: Case) -> None:
    parts = torch.stack([values(fed(case.config, [batch])) for batch in case.batches()])
    assert not torch.allclose(values(fed(case.config, case.batches())), parts.mean(0), rtol=1e-4)


@EACH
def test_before_an_update_it_is_nan_without_a_warning(case: Case) -> None:
    metric = case.config.init()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = values(metric)
        reset = fed(case.config, case.batches())
        reset.reset()
    counts = type(metric).__name__ == "ConfusionStats"
    assert (found == 0).all() if counts else found.isnan().all()
    assert torch.equal(values(reset), found) or values(reset).isnan().all()


@EACH
def test_a_state_goes_on_exactly(case: Case) -> None:
    batches = case.batches()
    expected = values(fed(case.config, batches))
    for done in range(len(batches) + 1):
        before = fed(case.config, batches[:done])
        state = metric_state(before)
        before.update(*batches[0])  # the state is a copy
        restored = fed(case.config, batches[1:2])
        restore_metric(restored, state)
        assert metric_state(restored).keys() == state.keys()
        for batch in batches[done:]:
            restored.update(*batch)
        assert torch.equal(values(restored), expected)
        restore_metric(before, state)  # nor does a metric change the state that it goes on from
        for batch in batches[done:]:
            before.update(*batch)
        assert torch.equal(values(before), expected)


@pytest.mark.parametrize(
    "make", [MinMaxMetric, lambda it: MetricCollection({"a": it, "b": it.clone()}), lambda it: it + 1]
)
def test_the_states_of_metrics_in_a_metric_go_on(make: Callable[[Metric], Any]) -> None:
    metric, restored = make(MeanSquaredError()), make(MeanSquaredError())
    metric.update(torch.tensor([1.0, 2.0]), torch.tensor([1.5, 0.0]))
    restore_metric(restored, metric_state(metric))
    for each in (metric, restored):
        each.update(torch.tensor([3.0]), torch.tensor([0.0]))
    assert restored.compute() == metric.compute()


@EACH
def test_states_of_parts_are_merged(case: Case) -> None:
    batches = case.batches()
    for done in range(len(batches) + 1):
        first, last = fed(case.config, batches[:done]), fed(case.config, batches[done:])
        last.merge_state(first)
        torch.testing.assert_close(values(last), values(fed(case.config, batches)), rtol=1e-12, atol=0)


@EACH
def test_copies_and_pickles_go_on(case: Case) -> None:
    *batches, last = case.batches()
    metric = fed(case.config, batches)
    for again in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), metric.clone()):
        again.update(*last)
        assert torch.equal(values(again), values(fed(case.config, [*batches, last])))
    fresh = pickle.loads(pickle.dumps(case.config.init()))
    assert not values(fresh).nansum()  # without a warning, too


@EACH
def test_forward_gives_the_value_of_the_batch(case: Case) -> None:
    metric, batches = case.config.init(), case.batches()
    for batch in batches:
        found = metric(*batch)
        found = torch.stack([*found.values()]).flatten() if isinstance(found, dict) else found.reshape(1)
        assert torch.equal(found, values(fed(case.config, [batch])))
    torch.testing.assert_close(values(metric), values(fed(case.config, batches)), rtol=1e-12, atol=0)


@pytest.mark.parametrize("case", OF_BATCHES.values(), ids=OF_BATCHES)
def test_a_batch_without_items_changes_nothing(case: Case) -> None:
    batches = case.batches()
    empty = case.batches((0,))[0]
    for place in range(len(batches) + 1):
        fed_too = fed(case.config, [*batches[:place], empty, *batches[place:]])
        assert torch.equal(values(fed_too), values(fed(case.config, batches)))
    alone = values(fed(case.config, [empty]))
    assert alone.isnan().all() or (alone == 0).all()


@pytest.mark.parametrize("case", OF_CLASSES.values(), ids=OF_CLASSES)
def test_a_target_that_is_no_class_is_refused(case: Case) -> None:
    batches = case.batches()
    metric, (predictions, targets) = fed(case.config, batches), batches[0]
    for number in (-1, 5, 255):
        wrong = targets.long().clone()
        wrong.view(-1)[-1] = number
        message = (
            rf"{type(metric).__name__}: expected targets of 0\.\.\d, or -100 \(ignore_index\), got {number} in row"
        )
        with pytest.raises(TargetError, match=message):
            metric.update(predictions, wrong)
        assert same(metric, fed(case.config, batches))
    wrong.view(-1)[-1] = -100
    metric.update(predictions, wrong)


@pytest.mark.parametrize("case", OF_FLOATS.values(), ids=OF_FLOATS)
def test_nan_among_the_predictions_makes_it_nan(case: Case) -> None:
    (predictions, targets), *batches = case.batches()
    predictions = predictions.clone()
    predictions.view(-1)[-1] = math.nan
    found = values(fed(case.config, [(predictions, targets), *batches]))
    assert found.isnan().all()


@pytest.mark.parametrize("case", OF_FLOATS.values(), ids=OF_FLOATS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_other_floats_are_computed_in_enough_digits(case: Case, dtype: torch.dtype) -> None:
    def to(value, dtype):
        return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    batches = [tuple(to(to(value, torch.bfloat16), dtype) for value in batch) for batch in case.batches()]
    exact = [tuple(to(value, torch.float64) for value in batch) for batch in batches]
    torch.testing.assert_close(values(fed(case.config, batches)), values(fed(case.config, exact)), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("case", OF_TENSORS.values(), ids=OF_TENSORS)
def test_updates_wait_for_no_device(case: Case) -> None:
    """Tensors without values can't be waited for."""
    metric = case.config.init()
    for batch in case.batches():
        metric.update(*(it.to("meta") for it in batch))
    states = metric_state(metric).values()
    assert {it.device.type for state in states for it in (state if isinstance(state, list) else [state])} == {"meta"}


@EACH
def test_predictions_with_a_history_leave_none(case: Case) -> None:
    batches = [
        tuple(it.clone().requires_grad_() if torch.is_tensor(it) and it.is_floating_point() else it for it in batch)
        for batch in case.batches()
    ]
    metric = fed(case.config, batches)
    states = metric.metric_state.values()
    assert not any(it.requires_grad for state in states for it in (state if isinstance(state, list) else [state]))
    assert not values(metric).requires_grad


@EACH
def test_later_changes_of_a_batch_don_t_count(case: Case) -> None:
    metric = case.config.init()
    for batch in case.batches():
        reused = tuple(it.clone() if torch.is_tensor(it) else it for it in batch)
        metric.update(*reused)
        for it in reused:
            if torch.is_tensor(it):
                it.zero_()
    assert same(metric, fed(case.config, case.batches()))


@pytest.mark.cuda
@pytest.mark.parametrize("case", OF_TENSORS.values(), ids=OF_TENSORS)
def test_on_a_device_updates_do_not_wait_and_values_are_those_of_the_cpu(case: Case) -> None:
    metric = case.config.init()
    first, *others = [tuple(it.to("cuda") for it in batch) for batch in case.batches()]
    metric.update(*first)  # moves the states
    torch.cuda.set_sync_debug_mode("error")
    try:
        for batch in others:
            metric.update(*batch)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    found = values(metric)
    assert found.device.type == "cuda"
    torch.testing.assert_close(found.cpu(), values(fed(case.config, case.batches())), rtol=1e-5, atol=1e-6)
    restored = case.config.init()
    restore_metric(restored, metric_state(metric))  # on the CPU, as a new metric is
    torch.testing.assert_close(values(restored), found.cpu(), rtol=1e-12, atol=0)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[list[float]]]]:
    return results_of("tests.train.metrics.worker", tmp_path_factory.mktemp("metrics"))


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", CASES)
def test_two_processes_have_the_value_of_one(found: list[dict[str, list[list[float]]]], name: str, share: str) -> None:
    case = CASES[name]
    batches = case.batches(SIZES)
    parts = [batches[part] for part in SHARES[share]]
    together = [*parts[0], *parts[1]]
    for rank in range(2):
        first, later = (torch.tensor(it, dtype=torch.float64) for it in found[rank][f"{name}: {share}"])
        expected = values(fed(case.config, together))
        if name.startswith("ConfusionStats") and not together:
            expected = torch.zeros_like(first)
        torch.testing.assert_close(first, expected, rtol=1e-12, atol=0, equal_nan=True)
        torch.testing.assert_close(later, values(fed(case.config, [*together, *batches[:2]])), rtol=1e-12, atol=0)


def test_the_direction_shown_of_every_metric_is_that_of_its_config(tmp_path: Path) -> None:
    """Under its own name, a name that says otherwise, and of its single values."""
    types: dict[str, Any] = {
        tag: cls
        for tag, cls in registry.imported(MetricConfig).items()
        if cls.__module__.startswith("burnlike.") and tag not in ("Loss", "LearningRate", "ConfusionStats")
    }
    rows = [(tag, name) for tag in types for name in (None, f"{tag}_error", f"{tag}_power")]
    config = {"metrics": [{"type": tag, "name": name} for tag, name in rows]}
    names = {name or registry.snake_tag(types[tag]): types[tag].higher_is_better for tag, name in rows}
    assert {*names.values()} == {True, False}
    epochs = [{f"{name}{end}": value for name in names for end in ("", ".price")} for value in (1.0, 2.0)]
    lines = [
        {"step": epoch + 1, "epoch": epoch, "split": "valid", "loss": 1.0, **it} for epoch, it in enumerate(epochs)
    ]
    run = read_run(make_run(tmp_path / "run", lines, json.dumps(config)))
    for summary in (LearnerSummary.of_run(run.path), LearnerSummary.of(run.lines, run.directions)):
        shown = {it.name: it.best.value == 2.0 for it in summary.metrics if it.name != "loss"}
        assert shown == {f"{name}{end}": high for name, high in names.items() for end in ("", ".price")}
    assert {it.name: not it.may_be_log for it in curves_of([run]) if it.name != "loss"} == shown
    assert (
        TrainingConfig().directions({name: types[tag] for tag, name in rows if name}).items() <= run.directions.items()
    )


@pytest.mark.parametrize(
    "name", ["cancer_recall", "answer_accuracy", "power_f1", "reward.answer", "soccer", "closeness"]
)
def test_a_name_that_no_config_explains_is_of_high_values(name: str) -> None:
    assert not low_is_good(name, {})


@pytest.mark.parametrize("name", ["loss", "val_loss", "Word_Error_Rate", "mape.price", "cer", "log loss", "gan.loss"])
def test_words_of_a_name_tell_low_values(name: str) -> None:
    assert low_is_good(name, {})


def test_keep_best_says_the_direction_of_a_metric_that_says_none() -> None:
    config = {"training.keep_best.metric": "mine.error", "training.keep_best.direction": "highest"}
    directions = directions_in(config)
    assert not low_is_good("mine.error", directions)
    assert low_is_good("mine.other error", directions)
