"""Every case of Burn's core tests has its test here, or belongs to a part of the project named below."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent.parent
KNOWN = {entry["id"] for entry in json.loads((TESTS / "vectors" / "module_core.json").read_text())}

DATA_LOADERS = "data loaders"
DISTRIBUTED = "distributed training"
CONFIGS = "configs"
QUANTIZATION = "quantization"
TRAINING = "training"

BELONGS_TO = {
    "config/enum_clone": CONFIGS,
    "config/enum_display": CONFIGS,
    "config/enum_multiple": CONFIGS,
    "config/enum_none": CONFIGS,
    "config/enum_single": CONFIGS,
    "config/struct_display": CONFIGS,
    "config/struct_serde": CONFIGS,
    "dataloader/batch": DATA_LOADERS,
    "dataloader/empty": DATA_LOADERS,
    "dataloader/exact": DATA_LOADERS,
    "dataloader/multithread": DATA_LOADERS,
    "dataloader/multithread_early_drop": DATA_LOADERS,
    "dataloader/multithread_epochs": DATA_LOADERS,
    "dataloader/multithread_shuffle": DATA_LOADERS,
    "dataloader/multithread_worker_error": DATA_LOADERS,
    "dataloader/no_workers": DATA_LOADERS,
    "dataloader/one_worker": DATA_LOADERS,
    "dataloader/slice": DATA_LOADERS,
    "dataloader/split": DATA_LOADERS,
    "distributed/sharded_module_should_sync_gradients_mean": DISTRIBUTED,
    "distributed/sharded_module_should_sync_gradients_mean_activation": DISTRIBUTED,
    "distributed/sharded_module_should_sync_gradients_mean_diamond_graph": DISTRIBUTED,
    "distributed/sharded_module_should_sync_gradients_mean_residual": DISTRIBUTED,
    "distributed/sharded_module_should_sync_gradients_sum": DISTRIBUTED,
    "distributed/sharded_module_should_sync_gradients_sum_residual": DISTRIBUTED,
    "lora/qlora": QUANTIZATION,
    "quantize/weights": QUANTIZATION,
    "train/async_flush": TRAINING,
    "train/checkpoint_files": TRAINING,
    "train/checkpoint_restores_weights": TRAINING,
    "train/checkpoint_resume": TRAINING,
    "train/module_lr_scheduler": TRAINING,
}
"""Case -> the part of the project whose tests are to show it."""


def claimed() -> Iterator[tuple[str, str]]:
    """The cases marked by `@case` in any test file, and where."""
    for path in sorted(TESTS.rglob("test_*.py")):
        if "import case" not in path.read_text():
            continue
        module = importlib.import_module(".".join(("tests", *path.relative_to(TESTS).with_suffix("").parts)))
        for name, function in vars(module).items():
            if getattr(function, "__module__", None) == module.__name__:
                yield from ((case_id, f"{path.name}: {name}") for case_id in getattr(function, "case_ids", ()))


def test_every_case_has_a_test_or_a_part_that_it_belongs_to() -> None:
    shown = dict(claimed())
    assert {case_id: place for case_id, place in shown.items() if case_id not in KNOWN} == {}, "there are no such cases"
    assert sorted(set(BELONGS_TO) - KNOWN) == [], "there are no such cases"
    assert sorted(shown.keys() & BELONGS_TO) == [], "cases that have a test are not listed"
    assert sorted(KNOWN - shown.keys() - BELONGS_TO.keys()) == [], "neither a test shows them nor are they listed"
