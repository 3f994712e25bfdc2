"""The models of docs/guide/yaml_models.md: checked, and trained for a few steps."""

import re
from contextlib import closing
from pathlib import Path

import pytest
import torch

from burnlike.cli.main import main
from burnlike.config import ModuleConfig
from burnlike.module import params
from burnlike.train import Job, RunDir, TrainConfig

GUIDE = (Path(__file__).parents[2] / "docs/guide/yaml_models.md").read_text()
MODELS = dict(re.findall(r"^## (.*?)\n.*?```yaml\n(.*?)```", GUIDE, re.DOTALL | re.MULTILINE))
SHORT = ["training.steps_per_epoch=3", "training.epochs=1", "training.validation_steps=1", "device=cpu", "threads=1"]


def test_there_are_four() -> None:
    assert [*MODELS] == ["Attention by hand", "A Highway network", "A variational autoencoder", "A Perceiver"]


@pytest.mark.parametrize("name", MODELS)
def test_it_is_checked_and_trained(name: str, tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(MODELS[name])
    assert main(["check", str(file)]) == 0
    assert main(["check", "--shapes", str(file)]) == 0
    job = Job(TrainConfig.load(file, SHORT))
    before = {it.path: it.tensor.detach().clone() for it in params(job.model, "weight")}
    with closing(RunDir.create(tmp_path / "run")) as run:
        job.run(run)
    for it in params(job.model, "weight"):
        assert it.tensor.isfinite().all()
        assert not torch.equal(it.tensor, before[it.path]), it.path


def test_attention_by_hand_is_torchs() -> None:
    config = TrainConfig.from_yaml(MODELS["Attention by hand"]).model
    values = {**config.to_dict(), "outputs": ["q", "k", "v", "joined"]}
    values["nodes"] = {name: node for name, node in values["nodes"].items() if name not in ("mean", "head")}
    model = ModuleConfig.from_dict(values).init("cpu").double()
    q, k, v, found = model(torch.rand(2, 1, 8, 8, dtype=torch.float64))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k.mT, v).transpose(1, 2).flatten(2)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_the_loss_of_the_autoencoder_is_that_of_the_paper() -> None:
    config = TrainConfig.from_yaml(MODELS["A variational autoencoder"]).model
    values = {**config.to_dict(), "outputs": ["loss", "restored", "mean", "log_variance"]}
    model = ModuleConfig.from_dict(values).init("cpu").double()
    image = torch.rand(3, 64, dtype=torch.float64)
    loss, restored, mean, log_variance = model(image)
    posterior = torch.distributions.Normal(mean, (log_variance / 2).exp())
    prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    divergence = torch.distributions.kl_divergence(posterior, prior).sum(1)
    expected = ((restored - image).square().sum(1) / 2 + divergence).mean()
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
