"""Burn's own numbers of optimizers, clipping and schedulers; and their runner notices what is wrong."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.vectors.__main__ import main
from tests.vectors.files import FileError, read, read_either
from tests.vectors.optim import schedulers
from tests.vectors.optim.entries import Case
from tests.vectors.optim.sections import cases_of, run
from tests.vectors.optim.training import check_optimizer

FILE = Path(__file__).parents[1] / "vectors" / "optim.json"
CONTENT: dict[str, Any] = json.loads(FILE.read_text())
CASES = list(cases_of(CONTENT))
CPU = torch.device("cpu")
OPTIMIZERS = [*CONTENT["optimizers"], *CONTENT["optimizers_derived"]]
FURTHER = {
    "Adam/test_adam_optimizer_with_amsgrad_50_steps",  # many roundings
    "AdamW/test_adamw_optimizer_with_numbers",  # Burn's own tests allow 0.01 for its gradients in another layout
    "AdamW/test_adamw_optimizer_with_numbers_cautious",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_burns_numbers(case: Case) -> None:
    assert run(case, CPU).reason == ""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("entry", OPTIMIZERS, ids=lambda entry: entry["id"])
def test_optimizers_are_nearer_than_burns_tests_ask(entry: dict[str, Any], dtype: torch.dtype) -> None:
    """Within 1e-6, also in float64."""
    nearest = entry["tolerance"]["value"] if entry["id"] in FURTHER else 1e-6
    check_optimizer({**entry, "tolerance": {"kind": "absolute", "value": nearest}}, CPU, dtype)


@pytest.mark.cuda
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_burns_numbers_on_cuda(case: Case) -> None:
    assert run(case, torch.device("cuda")).reason == ""


def test_the_command_runs_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(FILE)]) == 0
    assert capsys.readouterr().out == f"{len(CASES)} passed, 0 failed, 0 skipped\n"
    assert len(CASES) == 58


def test_a_missing_device_skips(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["--backend", "cuda", str(FILE)]) == 0
    assert capsys.readouterr().out.endswith(f"0 passed, 0 failed, {len(CASES)} skipped\n")


EXPECTATIONS = {
    *("expected", "derived_expected", "derived_expected_at_step", "expected_param_after_each_step", "out"),
    *("expected_final_velocity", "initial_loss"),
}


def expectations(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every map, list or number that is expected."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        if key in EXPECTATIONS and below is not None:
            yield (*path, key)
        elif key not in EXPECTATIONS:
            yield from expectations(below, (*path, key))


def numbers(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path
        return
    for key, below in items:
        yield from numbers(below, (*path, key))


def at(content: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        content = content[key]
    return content


PLACES = [path for path in expectations(CONTENT) if path[0] not in ("about", "tolerance_presets")]


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_a_changed_number_fails(path: tuple[Any, ...]) -> None:
    only = {path[0]: copy.deepcopy(CONTENT[path[0]])}
    if isinstance(only[path[0]], list):  # the other entries of the section need not run again
        only[path[0]] = [only[path[0]][path[1]]]
        path = (path[0], 0, *path[2:])
    *above, last = list(numbers(at(only, path), path))[-1]
    place = at(only, tuple(above))
    place[last] += 0.011 + 0.011 * abs(place[last])  # a hundredth is the largest tolerance
    assert "failed" in {run(case, CPU).verdict for case in cases_of(only)}


def entry(section: str, index: int, **changes: Any) -> dict[str, Any]:
    """A file of one entry with something changed; None takes a key away."""
    changed = {**copy.deepcopy(CONTENT[section][index]), **changes}
    return {section: [{key: value for key, value in changed.items() if value is not None}]}


ADAM = CONTENT["optimizers"][0]["config"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"optimisers": []}, "the section 'optimisers'"),
        (entry("optimizers", 0, optimizer="Adamm"), "the type 'Adamm' is unknown"),
        (entry("optimizers", 0, surprise=1), "unknown key 'surprise'"),
        (entry("optimizers", 0, expected=None), "the key 'expected' is missing"),
        (entry("optimizers", 0, config={**ADAM, "beta_3": 0.9}), "Adam has no field 'beta_3'"),
        (entry("optimizers", 0, config={**ADAM, "gradient_clipping": None}), "Adam has no field 'gradient_clipping'"),
        (entry("optimizers", 0, config={**ADAM, "grad_clipping": {"Max": 1.0}}), "the gradient clipping"),
        (entry("optimizers", 0, config={**ADAM, "weight_decay": {"rate": 1.0}}), "expected {'penalty': ...}"),
        (entry("optimizers", 0, config={**ADAM, "maximize": True}), "Adam has no field 'maximize'"),
        (entry("optimizers", 0, config={**ADAM, "beta_1": 1.5}), "ConfigError"),
        (entry("optimizers", 0, model={"type": "conv"}), "the model {'type': 'conv'}"),
        (entry("optimizers", 0, inputs_rule="step i: ones"), "the inputs_rule 'step i: ones'"),
        (entry("optimizers", 0, num_steps=49), "num_steps 49 with 50 inputs"),
        (entry("optimizers", 0, tolerance={"kind": "loose"}), "the tolerance"),
        (entry("optimizers", 1, tight_layout={"use": "as it is"}), "the tight_layout"),
        (entry("optimizers", 1, tight_layout={"use": "TRANSPOSED", "tolerance_absolute": 1e-9}), "weight: "),
        (entry("optimizers_derived", 7, grads_per_step=[[0.1, -0.2, 0.3]]), "ValueError"),
        (entry("optimizers_derived", 8, learning_rate=0.11), "the parameter after step 0"),
        (entry("grad_clipping", 0, derived_expected=None, expected_property=None), "nothing is expected"),
        (entry("grad_clipping", 0, expected_property="every element <= 0.4"), "expected every element <= 0.4"),
        (entry("grad_clipping", 0, expected_property="small"), "the property 'small'"),
        (entry("grad_clipping", 2, expected=[[0.3, 0.4, 0.5, 0.2], [0.1, 0.6, 0.3, 0.40000004]]), "1 of 8 elements"),
        (entry("lr_schedulers", 0, scheduler="Linearly"), "the type 'Linearly' is unknown"),
        (entry("lr_schedulers", 0, config={"initial_lr": 0.9, "final_lr": 0.5, "steps": 4}), "has no field 'steps'"),
        (entry("lr_schedulers", 7, expected_property="rising"), "the property 'rising'"),
        (entry("lr_schedulers", 7, step_numbering="0-based"), "step_numbering"),
        (
            entry("lr_schedulers", 7, config={"factor": 10.0, "warmup_steps": 99, "model_size": 512}),
            "the rate of call 1",
        ),
        ({"lr_scheduler_config_errors": {"Step size must be even": ["Step"]}}, "the rule 'Step size must be even'"),
        ({"lr_scheduler_config_errors": {"Step size must be greater than 0": ["Ladder"]}}, "for 'Ladder'"),
        ({"lbfgs": {"trust_region": {}}}, "the part 'trust_region'"),
        ({"lbfgs": {"step_tests": [{**CONTENT["lbfgs"]["step_tests"][0], "model": "Conv"}]}}, "the model 'Conv'"),
        ({"lbfgs": {"strong_wolfe": {**CONTENT["lbfgs"]["strong_wolfe"], "c2": 0.5}}}, "c2 = 0.5"),
        ({"lbfgs": {"cubic_interpolate": {"args": [], "cases": []}}}, "the arguments []"),
    ],
)
def test_what_it_does_not_know_or_what_differs_fails(content: dict[str, Any], message: str) -> None:
    outcomes = [run(case, CPU) for case in cases_of(content)]
    assert [it.verdict for it in outcomes] == ["failed"]
    assert message in outcomes[0].reason


def test_a_rule_that_is_not_enforced_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "Number of iterations must be at least 1"
    monkeypatch.setitem(schedulers._BAD, message, [{}])
    (case,) = cases_of({"lr_scheduler_config_errors": {message: ["Linear"]}})
    assert "Linear with {} is accepted" in run(case, CPU).reason


def test_other_settings_of_the_same_optimizers_pass() -> None:
    derived = CONTENT["optimizers_derived"]
    changed = copy.deepcopy(next(it for it in derived if it["id"] == "derived/Sgd/plain"))
    changed["config"] = {"gradient_clipping": {"Value": 0.25}, "weight_decay": None}
    changed["expected_param_after_each_step"] = [[0.99, -1.98, 0.475], [0.965, -1.99, 0.5], [0.99, -2.01, 0.49]]
    assert [run(case, CPU).reason for case in cases_of({"optimizers_derived": [changed]})] == [""]


def test_files_of_another_format_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    path.write_text('{"format_version": 2}')
    with pytest.raises(FileError, match="expected format_version 1, got 2"):
        read_either(path)
    with pytest.raises(FileError, match="expected a list of records"):
        read(FILE)
