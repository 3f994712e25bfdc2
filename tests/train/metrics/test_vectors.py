"""Burn's own numbers of the metrics."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.config import MetricConfig
from burnlike.errors import ConfigError, ShapeError
from burnlike.train import metrics
from tests.vectors.compare import Tolerance
from tests.vectors.files import read

RECORDS = {record["id"]: record for record in read(Path(__file__).parents[2] / "vectors" / "metrics.json")}

OF_OTHER_TESTS = {
    *("NumericMetricState", "format_float", "NumericEntry", "NumericMetricsAggregate", "LearnerSummary", "format_eta"),
    *("RecentHistoryPlot", "FullHistoryPlot", "MetricEarlyStoppingStrategy", "KeepLastNCheckpoints"),
    *("MetricCheckpointingStrategy", "ComposedCheckpointingStrategy"),
}
"""No metrics: what shows, keeps and compares their values."""

NEED_WEIGHTS = {"Fid", "Lpips", "Dists", "Afine"}
"""They compare features of networks whose weights would have to be downloaded: a row of docs/deviations.md."""

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
