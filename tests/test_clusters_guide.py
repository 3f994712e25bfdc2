"""The commands and files of docs/clusters.md: the command line takes each, and the fields are those of Kubernetes."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from burnlike.cli.main import main, parsers
from burnlike.train import TrainingConfig

PAGE = (Path(__file__).parents[1] / "docs" / "clusters.md").read_text()
BLOCKS = {kind: re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for kind in ("bash", "yaml")}
COMMANDS = [
    shlex.split(line)
    for block in BLOCKS["bash"]
    for line in block.replace("\\\n", " ").splitlines()
    if "burnlike" in line
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda it: " ".join(it)[:60])
def test_each_command_is_taken(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command, *arguments = words[words.index("burnlike") + 1 :]
    parsers([command])[1][command].parse_args(arguments)
    if "--slurm" in arguments:
        assert main([command, *arguments, "--out", "job.sh"]) == 0
        assert (tmp_path / "job.sh").exists()


def test_the_file_for_kubernetes_has_the_fields_of_the_operator() -> None:
    """By its reference: kubeflow.org/v1, PyTorchJob."""
    own, job = (yaml.safe_load(it) for it in BLOCKS["yaml"])
    assert TrainingConfig.from_dict(own["training"]).divided(3).accumulation_steps == 16
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    assert set(job["spec"]) == {"nprocPerNode", "elasticPolicy", "pytorchReplicaSpecs"}
    policy, worker = job["spec"]["elasticPolicy"], job["spec"]["pytorchReplicaSpecs"]["Worker"]
    assert set(policy) <= {"rdzvBackend", "minReplicas", "maxReplicas", "maxRestarts", "rdzvHost", "rdzvPort", "rdzvId"}
    assert set(worker) == {"replicas", "restartPolicy", "template"}
    (container,) = worker["template"]["spec"]["containers"]
    assert container["name"] == "pytorch"  # the name that the operator looks for
    program, command, *config = container["command"]
    assert program == "burnlike"
    args = parsers([command])[1][command].parse_args([*config, *container["args"]])
    assert (args.nnodes.least, args.nnodes.most) == (policy["minReplicas"], policy["maxReplicas"])
    assert args.nproc.most == int(job["spec"]["nprocPerNode"])
    assert args.rdzv_endpoint.startswith(f"{job['metadata']['name']}-worker-0:")
    mounts = {it["name"] for it in container["volumeMounts"]}
    assert mounts == {it["name"] for it in worker["template"]["spec"]["volumes"]}
