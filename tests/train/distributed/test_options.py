"""Strategies, their options, and the directories of their runs: the same weights and files whoever trained."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from burnlike.config import StrategyConfig
from burnlike.errors import ConfigError
from burnlike.train import DistributedConfig, Fsdp2Config, Job, RunDir, SingleProcess, load_run, make_parallel
from tests.train.samples import load_config
from tests.train.test_learner import quiet

from ...processes import assert_succeed, launched
from .options import CASES
from .results_worker import KINDS, KINDS_OF, MESHES, run, write_sources

PARTS = 3
"""Groups of parameters that are gathered together: two blocks, and the rest."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("options")
    logs = [folder / f"log-{rank}" for rank in range(4)]
    out = folder / "found.json"
    assert_succeed(launched(["-m", "tests.train.distributed.options", str(out)], logs), logs)
    return json.loads(out.read_text())


@pytest.mark.weekly
@pytest.mark.parametrize("case", CASES)
def test_options_change_no_weights_but_by_rounding(case: str, found: dict[str, Any]) -> None:
    precision = CASES[case].get("precision")
    difference = found[case]["difference"]
    assert difference < (0.1 if precision else 1e-12)
    assert (difference > 1e-6) == (precision is not None)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_exchanged_after_the_last_batch_of_a_step_alone(case: str, found: dict[str, Any]) -> None:
    before, whole = found[case]["before the last batch"], found[case]["in all"]
    assert {"allreduce", "reduce_scatter_base"}.isdisjoint(before)
    is_divided = CASES[case].get("shard") != 1
    assert whole.get("reduce_scatter_base", 0) == (PARTS if is_divided else 0)
    assert whole.get("allreduce", 0) == (PARTS if "replicate" in CASES[case] else 0)


@pytest.mark.slow
def test_parameters_are_gathered_as_often_as_the_options_say(found: dict[str, Any]) -> None:
    """Of two batches: in both passes of each block and once of the rest; where they are kept, once."""
    gathered = {name: it["in all"].get("allgather_base", 0) for name, it in found.items()}
    assert gathered["fsdp2"] == gathered["hsdp"] == gathered["bfloat16"] == 2 * (2 * PARTS - 1)
    assert gathered["kept between batches"] == 2 * PARTS - 1 + PARTS - 1
    assert gathered["kept"] == gathered["kept copies"] == PARTS
    assert gathered["copies"] == 0


class Counting(SingleProcess):
    """Counts the batches, by its own field at a time."""

    def __init__(self, config: "CountingConfig", device: torch.device) -> None:
        self.config, self.device = config, device
        self.count = 0

    def train_step(self, step: Any, model: torch.nn.Module, batch: Any) -> Any:
        self.count += self.config.by
        return super().train_step(step, model, batch)


class CountingConfig(StrategyConfig[Counting], tag="CountingForThisTest", builds=Counting):
    is_single = True
    by: int


def test_a_strategy_of_a_users_own_trains_a_job(tmp_path: Path) -> None:
    config = load_config(tmp_path, "distributed.strategy={type: CountingForThisTest, by: 3}", "training.epochs=1")
    job = Job(config)
    assert isinstance(job.parallel, Counting)
    assert job.parallel.device == torch.device("cpu")
    with closing(RunDir.create(tmp_path / "run")) as run:
        job.run(run, quiet())
    assert job.parallel.count == 3 * 20
    assert type(config).load(tmp_path / "run" / "config.yaml") == config


def test_a_name_stands_for_a_mapping_with_this_type() -> None:
    named, mapping = (DistributedConfig.from_yaml(f"strategy: {it}") for it in ("fsdp2", "{type: fsdp2}"))
    assert named.chosen == mapping.chosen == Fsdp2Config()
    assert named.name == "fsdp2"
    assert not named.is_single
    assert type(make_parallel(DistributedConfig(strategy="none"), torch.device("cpu"))) is SingleProcess


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ("Ddp", "strategy: unknown type 'Ddp'; did you mean 'ddp'"),
        ("{type: pipelined}", "strategy.type: unknown type 'pipelined'; a StrategyConfig is due: one of "),
        ("CountingForThisTest", r"strategy: expected \{type: CountingForThisTest, by: \.\.\.\}"),
    ],
)
def test_a_strategy_that_there_is_not_is_no_other_one(strategy: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"<string>:1:\d+: {message}"):
        DistributedConfig.from_yaml(f"strategy: {strategy}")


OTHERS = [it for it in MESHES if it != "one"]
RUNS = [(mesh, kind) for mesh in OTHERS for kind in KINDS_OF[mesh]]
BY_CLOCK = ("metrics.jsonl", "ranks.jsonl", "run.lock", "environment.json", "log.txt", "config.yaml")
"""Files that time, the machine and the mesh decide."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    write_sources(folder)
    for kind in KINDS:
        run(folder, kind, "one")
    for mesh in OTHERS:
        logs = [folder / f"{mesh} {rank}.log" for rank in range(2)]
        worker = ["-m", "tests.train.distributed.results_worker", str(folder), mesh, *KINDS_OF[mesh]]
        assert_succeed(launched(worker, logs), logs)
    return folder


def files(run: Path) -> dict[str, Path]:
    found = {str(it.relative_to(run)): it for it in sorted(run.rglob("*")) if it.is_file()}
    return {name: it for name, it in found.items() if it.name not in BY_CLOCK and "checkpoints/" not in name}


@pytest.mark.meshes
@pytest.mark.parametrize(("mesh", "kind"), RUNS)
def test_the_result_of_a_mesh_is_that_of_one_process(mesh: str, kind: str, folder: Path) -> None:
    one, several = (files(folder / name / kind) for name in ("one", mesh))
    assert several.keys() == one.keys()
    for name, path in one.items():
        if path.suffix == ".safetensors":
            expected, found = load_file(path), load_file(several[name])
            assert [(key, it.dtype) for key, it in found.items()] == [(key, it.dtype) for key, it in expected.items()]
            for key, value in expected.items():
                torch.testing.assert_close(found[key], value, rtol=0, atol=2e-5)
        elif name == "results.json":
            results = [json.loads(it.read_text()) for it in (path, several[name])]
            values = [it.pop("values")["valid"]["loss"] for it in results]
            assert results[0] == results[1]
            assert values[1] == pytest.approx(values[0], abs=1e-6)
        else:
            assert several[name].read_bytes() == path.read_bytes(), name


@pytest.mark.meshes
@pytest.mark.parametrize(("mesh", "kind"), RUNS)
def test_a_run_of_a_mesh_is_read_as_one_of_one_process(mesh: str, kind: str, folder: Path) -> None:
    tokens = torch.arange(8)[None]
    found = []
    for name in ("one", mesh):
        loaded = load_run(folder / name / kind)
        with torch.no_grad():
            output = loaded.model(tokens)
        found.append((loaded.step, loaded.weights, getattr(output, "logits", output)))
    assert found[0][:2] == found[1][:2]
    torch.testing.assert_close(found[1][2], found[0][2], rtol=0, atol=1e-4, check_dtype=True)


@pytest.mark.meshes
@pytest.mark.parametrize(("mesh", "kind"), [it for it in RUNS if it[0] != "ddp"])
def test_no_process_builds_the_whole_model(mesh: str, kind: str, folder: Path) -> None:
    for rank in range(2):
        assert json.loads((folder / f"found {mesh} {rank}.json").read_text())[kind]["said"] == []
