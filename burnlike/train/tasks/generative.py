"""Tasks of models that draw new items: adversarial networks and variational autoencoders."""

import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..._atomic import replace_file
from ...errors import ArgumentError, ConfigError, ShapeError
from ...module import Module
from ..learner.steps import StepOutput
from .configs import AdversarialConfig, NetworksConfig, VariationalAutoencoderConfig
from .task import MeasuredTask, inputs_of

if TYPE_CHECKING:
    from ..job.job import Job

_FIXED_SEED = 0
"""Of the noise that a validation draws."""
_PNG_GREY, _PNG_RGB = 0, 2


class Networks(Module):
    """Several modules by name, which a task calls: a generator and a discriminator, an encoder and a decoder."""

    def __init__(self, config: NetworksConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        for name, network in config.networks.items():
            self.add_module(name, network.init(device))

    def forward(self, *_: Any) -> NoReturn:
        """There is no way through all of them: an ArgumentError."""
        names = ", ".join(self._modules)
        raise ArgumentError(f"Networks: call one of {names}; a task such as Adversarial does that for a training")


class _Generative(MeasuredTask):
    """Base of tasks that draw items: noise, and samples of the trained model."""

    def noise(self, model: nn.Module, shape: Sequence[int], *, is_fixed: bool) -> Tensor:
        """Normal noise where the model is: drawn anew in training, the same at each validation."""
        like = next(model.parameters())
        if not is_fixed or like.is_meta:
            return torch.randn(*shape, dtype=like.dtype, device=like.device)
        # Drawn on the CPU, so that it is the same on any device.
        generator = torch.Generator().manual_seed(_FIXED_SEED)
        return torch.randn(*shape, generator=generator).to(like.device, like.dtype)

    def network(self, model: nn.Module, role: str) -> nn.Module:
        """The network that has the role, by its name in the model."""
        network = getattr(model, getattr(self.config, role), None)
        if not isinstance(network, nn.Module):
            raise ConfigError(
                f"task.{role}: the model has no network '{getattr(self.config, role)}'; give it by `model: {{type:"
                " Networks, networks: ...}}, or say its name"
            )
        return network

    def drawn(self, model: nn.Module, count: int) -> Tensor:
        """Items that the model draws, of fixed noise: `[count, ...]`."""
        raise NotImplementedError(f"{type(self).__name__} does not define drawn(model, count)")

    @torch.no_grad()
    def finish(self, job: "Job", model: nn.Module) -> Mapping[str, Any]:
        """Draw samples; images `[n, channels, height, width]` in 0..1 go to `samples/` of the run."""
        count, run = self.config.samples, job.learner.run
        if not count or run is None:
            return {}
        images = self.drawn(model.eval(), count).float().cpu()
        if images.dim() != 4 or images.shape[1] not in (1, 3):
            return {}
        path = Path(run.path) / "samples" / "drawn.png"
        write_png(path, image_grid(images))
        return {"samples": str(path)}


def image_grid(images: Tensor) -> Tensor:
    """Images `[n, channels, height, width]` in 0..1 side by side, `[channels, rows, columns]` uint8, with lines."""
    n, channels, height, width = images.shape
    columns = math.ceil(math.sqrt(n))
    blank = images.new_zeros(-n % columns, channels, height, width)
    framed = functional.pad(torch.cat([images.clamp(0, 1), blank]), (0, 1, 0, 1), value=0.5)
    rows = framed.unflatten(0, (-1, columns)).permute(2, 0, 3, 1, 4)
    return (rows.reshape(channels, -1, columns * (width + 1)) * 255).round().to(torch.uint8)


def write_png(path: Path, image: Tensor) -> None:
    """Write an image `[channels, height, width]` uint8 of 1 or 3 channels as PNG (RFC 2083), with its folder."""
    channels, height, width = image.shape
    rows = image.permute(1, 2, 0).reshape(height, -1).contiguous().numpy()
    pixels = b"".join(b"\0" + row.tobytes() for row in rows)  # each row without a filter
    header = struct.pack(">IIBBBBB", width, height, 8, _PNG_GREY if channels == 1 else _PNG_RGB, 0, 0, 0)
    parts = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(pixels)), _chunk(b"IEND", b""))
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


class Adversarial(_Generative):
    """A generator learns to make items that a discriminator can't tell from the true ones (Goodfellow et al. 2014).

    Optimizer steps take turns: `n_critic` of the discriminator, then one of the generator, each with the gradients of
    its own parameters alone. So two groups of the optimizer are two optimizers, and clipping, accumulation, scaled
    losses and a resumed run are as for any other task. The loss of a line is the mean of both networks' losses;
    `loss.discriminator` and `loss.generator` are those of each.

    Batches are items, or pairs that begin with them; true items and those of the generator have one shape.
    """

    def __init__(self, config: AdversarialConfig | None = None) -> None:
        self.config = config or AdversarialConfig()
        self._step = 0

    def begin_step(self, step: int) -> None:
        self._step = step

    def step(self, model: nn.Module, batch: Any, *, is_training: bool) -> StepOutput:
        items = _items(batch)
        losses = {"discriminator": self._discriminator_loss, "generator": self._generator_loss}
        if is_training:  # of the network whose turn it is
            is_generators = self._step % (self.config.n_critic + 1) >= self.config.n_critic
            role = "generator" if is_generators else "discriminator"
            loss = losses[role](model, items, is_fixed=False)
            return StepOutput(loss, len(items), parts={role: loss.detach()})
        parts = {role: loss_of(model, items, is_fixed=True) for role, loss_of in losses.items()}
        return StepOutput((parts["discriminator"] + parts["generator"]) / 2, len(items), parts=parts)

    def drawn(self, model: nn.Module, count: int) -> Tensor:
        noise = self.noise(model, (count, *self.config.latent), is_fixed=True)
        return self.network(model, "generator")(noise)

    def _generated(self, model: nn.Module, items: Tensor, *, is_fixed: bool) -> Tensor:
        noise = self.noise(model, (len(items), *self.config.latent), is_fixed=is_fixed)
        generated = self.network(model, "generator")(noise)
        if generated.shape != items.shape:
            raise ShapeError(
                f"Adversarial: expected a generator that gives items of {list(items.shape[1:])}, as the data has them,"
                f" got {list(generated.shape[1:])}"
            )
        return generated

    def _discriminator_loss(self, model: nn.Module, items: Tensor, *, is_fixed: bool) -> Tensor:
        # Its step trains the discriminator alone: the graph of the generator would take memory for nothing.
        with torch.no_grad():
            generated = self._generated(model, items, is_fixed=is_fixed)
        discriminator = self.network(model, "discriminator")
        true, false = _scores(discriminator, items), _scores(discriminator, generated)
        match self.config.loss:
            case "logistic":
                loss = functional.softplus(-true).mean() + functional.softplus(false).mean()
            case "hinge":
                loss = functional.relu(1 - true).mean() + functional.relu(1 + false).mean()
            case _:
                loss = false.mean() - true.mean()
        if self.config.gradient_penalty and torch.is_grad_enabled():
            # (|gradient| - 1)^2 at points between true and generated items (Gulrajani et al. 2017, algorithm 1)
            share = torch.rand(len(items), *(1,) * (items.dim() - 1), dtype=items.dtype, device=items.device)
            between = (share * items + (1 - share) * generated).requires_grad_()
            (gradient,) = torch.autograd.grad(_scores(discriminator, between).sum(), between, create_graph=True)
            penalty = (gradient.flatten(1).norm(dim=1) - 1).square().mean()
            loss = loss + self.config.gradient_penalty * penalty
        return loss

    def _generator_loss(self, model: nn.Module, items: Tensor, *, is_fixed: bool) -> Tensor:
        generated = self._generated(model, items, is_fixed=is_fixed)
        with _without_gradients(self.network(model, "discriminator")) as discriminator:
            scores = _scores(discriminator, generated)
        return functional.softplus(-scores).mean() if self.config.loss == "logistic" else -scores.mean()


def _items(batch: Any) -> Tensor:
    items = inputs_of(batch)
    if not isinstance(items, Tensor):
        raise ShapeError(f"expected batches of items, a tensor, got {type(items).__name__}")
    return items


def _scores(discriminator: nn.Module, items: Tensor) -> Tensor:
    """A number for each item, `[n]`."""
    scores = discriminator(items)
    if scores.numel() != len(items):
        raise ShapeError(
            f"Adversarial: expected a discriminator that gives a number for each item, got {list(scores.shape)}"
        )
    return scores.flatten()


@contextmanager
def _without_gradients(module: nn.Module) -> Iterator[nn.Module]:
    """Compute within the `with` block without gradients for the parameters; inputs still get theirs."""
    trained = [it for it in module.parameters() if it.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield module
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


class VariationalAutoencoder(_Generative):
    """An encoder to the mean and the logarithm of the variance of a latent vector, and a decoder back (Kingma & Welling
    2014): the loss is reconstruction + beta * KL, summed over the numbers of an item, the mean over the items.

    Batches are items, or pairs that begin with them. Metrics compare what is decoded with the items.
    `loss.reconstruction` and `loss.kl` are the parts of the loss.
    """

    def __init__(self, config: VariationalAutoencoderConfig) -> None:
        self.config = config

    def step(self, model: nn.Module, batch: Any, *, is_training: bool) -> StepOutput:
        items = _items(batch)
        encoded = self.network(model, "encoder")(items)
        if encoded.dim() != 2 or encoded.shape[1] % 2:
            raise ShapeError(
                "VariationalAutoencoder: expected an encoder that gives [n, 2 * latent], means and logarithms of"
                f" variances, got {list(encoded.shape)}"
            )
        mean, log_variance = encoded.chunk(2, dim=1)
        noise = self.noise(model, mean.shape, is_fixed=not is_training)
        decoded = self.network(model, "decoder")(mean + (log_variance / 2).exp() * noise)
        if decoded.shape != items.shape:
            raise ShapeError(
                f"VariationalAutoencoder: expected a decoder that gives items of {list(items.shape[1:])}, as the data"
                f" has them, got {list(decoded.shape[1:])}"
            )
        if self.config.reconstruction == "bernoulli":
            each = functional.binary_cross_entropy_with_logits(decoded, items.to(decoded.dtype), reduction="none")
        else:
            each = (decoded - items).square() / 2
        reconstruction = each.flatten(1).sum(1).mean()
        kl = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean() / 2
        parts = {"reconstruction": reconstruction.detach(), "kl": kl.detach()}
        loss = reconstruction + self.config.beta * kl
        return StepOutput(loss, len(items), self._shown(decoded.detach()), items, parts=parts)

    def _shown(self, decoded: Tensor) -> Tensor:
        return decoded.sigmoid() if self.config.reconstruction == "bernoulli" else decoded

    def drawn(self, model: nn.Module, count: int) -> Tensor:
        noise = self.noise(model, (count, self.config.latent), is_fixed=True)
        return self._shown(self.network(model, "decoder")(noise))
