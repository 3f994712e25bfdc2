"""The configs that come with the package, exported as Rust and run by Burn; those of two networks as short runs."""

import io
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from burnlike.cli.main import main
from burnlike.cli.options import read_model
from burnlike.config.root_keys import Input
from burnlike.config.shipped import shipped_configs
from burnlike.train import Job, PlainRenderer, RunDir, TrainConfig, load_run
from burnlike.train.export.exporting import subject_of
from burnlike.train.export.source import Source, source_of_config, source_of_run

from .rust_models import Case, run, table

pytestmark = pytest.mark.burn

IMAGES, TOKENS = Input((2, 3, 64, 64)), Input((2, 12), "int64", "tokens")
LARGE: dict[str, list[Input]] = {
    "bert_base": [TOKENS],
    "convnext_tiny": [IMAGES],
    "gpt2_small": [TOKENS],
    "lstm_lm": [],
    "resnet50": [IMAGES],
    "t5_small": [TOKENS, TOKENS._replace(name="decoder_tokens")],
    "unet": [IMAGES],
    "vit_small": [],
}
"""Of tens of millions of parameters, and what each is called with; of none, what its config says."""
NETWORKS = ["digits_gan", "digits_vae"]
"""Networks that are called one by one, which the data of a run says how."""
SHORT = dict.fromkeys(("char_gpt", "llama_tiny", "mixtral_tiny"), TOKENS) | {"resnet18_cifar": Input((2, 3, 16, 24))}
"""Of the others those whose own inputs take Rust long."""
SMALL = [name for name in shipped_configs() if name not in (*LARGE, *NETWORKS)]


def shipped(name: str, *inputs: Input) -> Case:
    found = read_model(str(shipped_configs()[name]), ())
    case = case_of(lambda: source_of_config(found.config, None, found.training), *(inputs or found.inputs))
    case.rate = 2e-4 if name.startswith("resnet") else case.rate  # rounding errors grow with the steps
    case.apart = 0.1 if name == "t5_small" else case.apart  # Burn's RmsNorm squares in float32, before ReLUs
    return case


def case_of(source: Callable[[], Source], *inputs: Input) -> Case:
    return Case(lambda: subject_of(source(), inputs)[0], lambda: subject_of(source(), inputs)[1].inputs)


def trained(name: str, place: Path) -> Path:
    config = TrainConfig.load(shipped_configs()[name], ["training.epochs=1"])
    with closing(RunDir.create(place / name)) as directory:
        Job(config).run(directory, PlainRenderer(io.StringIO()))
    return place / name


def all_right(cases: dict[str, Case], place: Path, suffix: str, **options: Any) -> None:
    results = run(cases, place, suffix, **options)
    said = table(results)
    assert {it.state for it in results.values()} == {"right"}, said
    assert not any(it.lints for it in results.values()), said


@pytest.mark.weekly
def test_shipped_configs_compute_and_learn_as_in_python(tmp_path: Path) -> None:
    cases = {name: shipped(name, *([SHORT[name]] if name in SHORT else [])) for name in SMALL}
    cases["resnet18_by_input"] = shipped("resnet18_layers", Input((2, 3, 16, 24)))
    cases["resnet18_layers"].learns = False  # which the one of smaller images does
    for name in NETWORKS:
        directory = trained(name, tmp_path / "runs")
        cases[name] = case_of(lambda directory=directory: source_of_run(load_run(directory)))
    all_right(cases, tmp_path / "crate", "shipped", processes=2)


@pytest.mark.weekly
def test_large_shipped_configs_compute_and_learn_as_in_python(tmp_path: Path) -> None:
    all_right({name: shipped(name, *inputs) for name, inputs in LARGE.items()}, tmp_path / "crate", "large")


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_that_a_task_calls_are_exported_as_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        assert main(["export", name, "--to", "burn"]) != 0
    assert "export a run, whose data say what each is called with" in said.getvalue()
    assert not [*tmp_path.iterdir()]
