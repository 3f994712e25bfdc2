"""Rows of "Configs and training"; those about metrics and a Learner are shown by what runs burn-train."""

import json
from typing import Any

import pytest

from burnlike.errors import ConfigError
from burnlike.optim import AdamConfig

from .optimizer_cases import burn_rule
from .rows import ELSEWHERE, row
from .running import ask


@row("Config files")
def _() -> None:
    given: dict[str, Any] = burn_rule(AdamConfig()) | {"task": "config"}
    fields = given["config"]
    lacking = given | {"config": {name: value for name, value in fields.items() if name != "beta_1"}}
    unknown = given | {"config": fields | {"beta_3": 0.5}}
    whole, missing, ignored = ask("optimizers", [given, lacking, unknown])
    assert "missing field `beta_1`" in missing["refused"]
    assert json.loads(ignored["text"]) == json.loads(whole["text"])
    assert AdamConfig.from_yaml("{}") == AdamConfig()
    with pytest.raises(ConfigError, match="beta_3"):
        AdamConfig.from_yaml("beta_3: 0.5")


_TRAIN = "tests/burn/test_train.py::test_"
ELSEWHERE.update(
    {
        "A directory of checkpoints": (
            "tests/train/checkpoint/test_checkpoints.py::"
            "test_checkpoints_of_another_run_are_left_alone_and_the_error_says_how_to_go_on"
        ),
        "Configs from pipes (`<(...)`)": "tests/config/test_document.py::test_only_regular_files_are_read",
        "`train` under a launcher": "tests/cli/test_train.py::test_one_of_several_ranks_is_refused",
        "Several devices": (
            "tests/train/distributed/test_distributed.py::test_two_processes_are_one_with_the_joined_batches"
        ),
        "Accumulated gradients of a Learner": f"{_TRAIN}a_learner_of_burn_sums_the_gradients_that_it_accumulates",
        "Early stopping": "tests/train/learner/test_stopping.py::test_what_was_best_is_known_after_a_resume",
        "Order of batches with workers": "tests/data/test_loader.py::test_order_is_the_same_with_any_number_of_workers",
        "Metrics without a terminal": (
            "tests/cli/test_train.py::test_lines_of_progress_are_plain_where_there_is_no_terminal"
        ),
        "Metrics that need weights (FID, LPIPS, DISTS, A-FINE), and what they consist of"
        " (FID's matrix square root, QuickGELU)": (
            "tests/train/metrics/test_every_metric.py::test_every_vector_is_run_or_left_out"
        ),
        "Values of metrics over an epoch": f"{_TRAIN}values_over_an_epoch_are_means_of_those_of_batches_in_burn",
        "Metrics without an update, or without anything that counts": (
            f"{_TRAIN}metrics_of_nothing_that_counts_have_several_values_in_burn"
        ),
        "NaN among the predictions of a metric": f"{_TRAIN}nan_is_a_class_as_others_in_burn",
        "Pad tokens within a sequence in CER and WER": f"{_TRAIN}pad_tokens_within_a_sequence_end_it_in_burn",
        "Precision, recall, F-score, Hamming and confusion counts without a threshold or `top_k`": (
            f"{_TRAIN}without_a_rule_burn_has_a_threshold"
        ),
        "Equal scores in metrics with `top_k`": (
            "tests/train/metrics/test_values.py::test_of_tied_scores_the_lower_classes_are_the_best"
        ),
        "Checkpoints with equal values of the best metric": (
            f"{_TRAIN}of_checkpoints_with_equal_values_the_first_stays_in_burn"
        ),
        "Logits in AUROC, AUC-PR and beside a `threshold`": f"{_TRAIN}logits_are_compared_as_they_are_in_burn",
        "Targets of -100 in metrics": f"{_TRAIN}targets_of_minus_100_are_a_class_that_is_none_in_burn",
        "Shapes that metrics of classes take": (
            "tests/train/metrics/test_values.py::test_the_dimension_of_classes_may_be_the_second"
        ),
        "CPU and CUDA metrics": "tests/train/metrics/test_in_training.py::test_cpu_use_is_a_mean_over_time",
    }
)
