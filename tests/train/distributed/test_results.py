"""The directory of a run is the same whoever trained: one process, or several on any mesh."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from burnlike.train import load_run

from ...processes import assert_succeed, launched
from .results_worker import KINDS, KINDS_OF, MESHES, run, write_sources

pytestmark = pytest.mark.meshes
OTHERS = [it for it in MESHES if it != "one"]
CASES = [(mesh, kind) for mesh in OTHERS for kind in KINDS_OF[mesh]]
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


@pytest.mark.parametrize(("mesh", "kind"), CASES)
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


@pytest.mark.parametrize(("mesh", "kind"), CASES)
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


@pytest.mark.parametrize(("mesh", "kind"), [it for it in CASES if it[0] != "ddp"])
def test_no_process_builds_the_whole_model(mesh: str, kind: str, folder: Path) -> None:
    for rank in range(2):
        assert json.loads((folder / f"found {mesh} {rank}.json").read_text())[kind]["said"] == []
