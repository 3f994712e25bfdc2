"""Adversarial networks and variational autoencoders: losses and turns beside loops by hand, samples, exact resume."""

import math
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from burnlike.config.shipped import config_file
from burnlike.errors import ArgumentError, ConfigError, ShapeError
from burnlike.train import (
    Adversarial,
    AdversarialConfig,
    Interrupted,
    Interrupter,
    Job,
    RunDir,
    TrainConfig,
    VariationalAutoencoder,
    VariationalAutoencoderConfig,
)
from burnlike.train.tasks.generative import image_grid

GAN = """\
data: {type: Digits, flat: true}
model:
  type: Networks
  networks:
    generator: {type: Sequential, layers: [{type: Mlp, sizes: [6, 16, 64]}, {type: Sigmoid}]}
    discriminator: {type: Mlp, sizes: [64, 16, 1]}
task: {type: Adversarial, latent: [6], n_critic: 2}
optimizer:
  type: OptimizerGroups
  groups:
    - params: {match: [{type: Regexes, regexes: ['^generator']}]}
      optimizer: {type: Adam, beta_1: 0.5}
    - params: {match: [{type: Regexes, regexes: ['^discriminator']}]}
      optimizer: {type: Sgd, grad_clipping: {type: ClipByGlobalNorm, threshold: 0.3}}
      lr_factor: 10
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {batch_size: 32, epochs: 1, steps_per_epoch: 6}
"""


def config_of(tmp_path: Path, *options: str) -> TrainConfig:
    file = tmp_path / "gan.yaml"
    file.write_text(GAN)
    return TrainConfig.load(file, ["output.precision=float32", *options])


def trained(job: Job, path: Path) -> Any:
    with closing(RunDir.create(path)) as run:
        return job.run(run)


def by_hand(job: Job, steps: int, accumulated: int) -> list[Tensor]:
    """The loop of Goodfellow et al.: two optimizers of torch over the two networks, two steps of the second to one."""
    model: Any = job.model
    own = [*model.generator.parameters()]
    theirs = [*model.discriminator.parameters()]
    adam, sgd = torch.optim.Adam(own, lr=1e-2, betas=(0.5, 0.999), eps=1e-5), torch.optim.SGD(theirs, lr=0.1)
    batches = iter(job.train_loader)
    for step in range(steps):
        optimizer = adam if step % 3 == 2 else sgd
        adam.zero_grad()
        sgd.zero_grad()
        for _ in range(accumulated):
            items, _ = next(batches)
            made = model.generator(torch.randn(len(items), 6))
            if optimizer is adam:
                loss = functional.binary_cross_entropy_with_logits(model.discriminator(made), torch.ones(len(items), 1))
            else:
                scores = model.discriminator(torch.cat([items, made.detach()]))
                wanted = torch.cat([torch.ones(len(items), 1), torch.zeros(len(items), 1)])
                loss = 2 * functional.binary_cross_entropy_with_logits(scores, wanted)
            (loss / accumulated).backward()
        if optimizer is sgd:
            nn.utils.clip_grad_norm_(theirs, 0.3)
        optimizer.step()
    return [it.detach().clone() for it in (*own, *theirs)]


@pytest.mark.parametrize("accumulated", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_two_optimizers_take_turns_as_in_a_loop_by_hand(accumulated: int, tmp_path: Path) -> None:
    options = [f"training.accumulation_steps={accumulated}"]
    job = Job(config_of(tmp_path, *options))
    trained(job, tmp_path / "run")
    again = Job(config_of(tmp_path, *options))
    expected = by_hand(again, 6, accumulated)
    for found, wanted in zip(job.model.parameters(), expected, strict=True):
        torch.testing.assert_close(found.detach(), wanted, rtol=1e-4, atol=1e-6)


class StopAt(Interrupter):
    """Stops after so many steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.left = steps

    @property
    def asked(self) -> int | None:
        self.left -= 1
        return 15 if self.left <= 0 else None

    @asked.setter
    def asked(self, value: Any) -> None:
        del value


@pytest.mark.parametrize("stop", [2, *(pytest.param(it, marks=pytest.mark.slow) for it in (1, 4))])
def test_a_run_that_was_stopped_between_turns_ends_in_the_same_bits(stop: int, tmp_path: Path) -> None:
    whole = Job(config_of(tmp_path))
    result = trained(whole, tmp_path / "whole")
    with pytest.raises(Interrupted), closing(RunDir.create(tmp_path / "run")) as run:
        Job(config_of(tmp_path)).run(run, interrupter=StopAt(stop))
    resumed = Job(config_of(tmp_path))
    with closing(RunDir.open(tmp_path / "run")) as run:
        found = resumed.run(run)
    assert found.learning.steps == 6
    assert found.values == result.values
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)
    lines = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("whole", "run")]
    assert all("loss.discriminator" in it for it in lines)


@pytest.mark.slow
def test_float16_scales_both_losses(tmp_path: Path) -> None:
    job = Job(config_of(tmp_path, "training.precision=float16", "device=cpu"))
    before = [it.detach().clone() for it in job.model.parameters()]
    result = trained(job, tmp_path / "run")
    assert result.learning.steps == 6
    assert all(not torch.equal(one, other) for one, other in zip(job.model.parameters(), before, strict=True))


class Two(nn.Module):
    def __init__(self, **networks: nn.Module) -> None:
        super().__init__()
        for name, network in networks.items():
            self.add_module(name, network.double())


def two() -> Any:
    torch.manual_seed(4)
    return Two(generator=nn.Linear(3, 5), discriminator=nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1)))


ITEMS = torch.randn(7, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "wasserstein"])
def test_losses_of_both_networks(loss: Any) -> None:
    model, task = two(), Adversarial(AdversarialConfig(latent=(3,), loss=loss, gradient_penalty=10.0))
    task.begin_step(0)
    torch.manual_seed(8)
    found = task.train_step(model, (ITEMS, None))
    torch.manual_seed(8)
    made = model.generator(torch.randn(7, 3, dtype=torch.float64)).detach()
    share = torch.rand(7, 1, dtype=torch.float64)
    between = (share * ITEMS + (1 - share) * made).requires_grad_()
    (gradient,) = torch.autograd.grad(model.discriminator(between).sum(), between)
    true, false = model.discriminator(ITEMS)[:, 0], model.discriminator(made)[:, 0]
    expected = {
        "logistic": -(functional.logsigmoid(true) + functional.logsigmoid(-false)).mean(),
        "hinge": ((1 - true).clamp(min=0) + (1 + false).clamp(min=0)).mean(),
        "wasserstein": (false - true).mean(),
    }[loss] + 10 * (gradient.norm(dim=1) - 1).square().mean()
    torch.testing.assert_close(found.loss, expected)
    found.loss.backward()
    assert model.generator.weight.grad is None
    assert all(it.grad is not None for it in model.discriminator.parameters())
    model.zero_grad()
    task.begin_step(1)
    torch.manual_seed(8)
    found = task.train_step(model, (ITEMS, None))
    expected = -functional.logsigmoid(false).mean() if loss == "logistic" else -false.mean()
    torch.testing.assert_close(found.loss, expected)
    found.loss.backward()
    assert model.generator.weight.grad is not None
    assert all(it.grad is None and it.requires_grad for it in model.discriminator.parameters())


def test_variational_autoencoder_is_the_bound_of_the_paper() -> None:
    torch.manual_seed(5)
    model: Any = Two(encoder=nn.Linear(5, 4), decoder=nn.Linear(2, 5))
    items = ITEMS.sigmoid()
    for reconstruction in ("bernoulli", "gaussian"):
        config = VariationalAutoencoderConfig(latent=2, beta=0.7, reconstruction=reconstruction)
        torch.manual_seed(9)
        found = VariationalAutoencoder(config).train_step(model, (items, None))
        torch.manual_seed(9)
        mean, log_variance = model.encoder(items).chunk(2, 1)
        posterior = torch.distributions.Normal(mean, (log_variance / 2).exp())
        decoded = model.decoder(mean + posterior.stddev * torch.randn(7, 2, dtype=torch.float64))
        kl = torch.distributions.kl_divergence(posterior, torch.distributions.Normal(0.0, 1.0)).sum(1).mean()
        if reconstruction == "bernoulli":
            likelihood = torch.distributions.Bernoulli(logits=decoded, validate_args=False).log_prob(items)
        else:
            likelihood = torch.distributions.Normal(decoded, 1.0).log_prob(items) + 0.5 * math.log(2 * math.pi)
        expected = -likelihood.sum(1).mean()
        torch.testing.assert_close(found.loss, expected + 0.7 * kl, check_dtype=False)
        torch.testing.assert_close(found.parts["kl"], kl.detach())
        torch.testing.assert_close(found.parts["reconstruction"], expected.detach(), check_dtype=False)
    task = VariationalAutoencoder(VariationalAutoencoderConfig(latent=2))
    assert torch.equal(task.valid_step(model, (items, None)).loss, task.valid_step(model, (items, None)).loss)


@pytest.mark.slow
def test_samples_are_pictures(tmp_path: Path) -> None:
    config = TrainConfig.load(config_file("digits_vae"), ["training.epochs=1", "task.samples=10"])
    result = trained(Job(config), tmp_path / "run")
    path = tmp_path / "run" / "samples" / "drawn.png"
    assert result.said == {"samples": str(path)}
    with Image.open(path) as picture:
        assert (picture.mode, picture.size) == ("L", (4 * 9, 3 * 9))
        pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).view(27, 36)
    assert len(pixels[:8, :8].unique()) > 10
    assert (pixels[8] == 128).all()
    colours = image_grid(torch.rand(3, 3, 5, 4, generator=torch.Generator().manual_seed(1)))
    assert colours.shape == (3, 12, 10)


def test_mistakes_are_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task.generator: the model has no network 'generator'; give it by `model:"):
        Adversarial().train_step(nn.Linear(2, 2), (ITEMS, None))
    task = Adversarial(AdversarialConfig(latent=(3,)))
    with pytest.raises(ShapeError, match=r"expected a generator that gives items of \[4\], as .* got \[5\]"):
        task.train_step(two(), (ITEMS[:, :4], None))
    model = Two(generator=nn.Linear(3, 5), discriminator=nn.Linear(5, 2))
    with pytest.raises(ShapeError, match=r"expected a discriminator that gives a number for each item, got \[7, 2\]"):
        task.train_step(model, (ITEMS, None))
    with pytest.raises(ConfigError, match="distributed: expected a single process for Adversarial"):
        config_of(tmp_path, "distributed.strategy=ddp")
    with pytest.raises(ArgumentError, match="Networks: call one of generator, discriminator"):
        Job(config_of(tmp_path)).model(ITEMS)
