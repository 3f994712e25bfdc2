"""A convolutional network on digits, in the shape of PyTorch's MNIST example; `--burnlike` changes four lines.

The digits are drawn here, so that nothing is downloaded: seven segments, shifted, thick or thin, under noise.
"""

import argparse
import json
import os
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

import burnlike as bl
from burnlike.train import TrainingState

SEGMENTS = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg")
BOXES = {"a": (0, 1, 0, 8), "b": (0, 8, 7, 8), "c": (7, 15, 7, 8), "d": (14, 15, 0, 8), "e": (7, 15, 0, 1)}
BOXES |= {"f": (0, 8, 0, 1), "g": (7, 8, 0, 8)}


class Net(nn.Module):
    """Two convolutions and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3)
        self.norm = nn.BatchNorm2d(16)
        self.dropout1, self.dropout2 = nn.Dropout2d(0.1), nn.Dropout(0.2)
        self.fc1, self.fc2 = nn.Linear(16 * 8 * 8, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, 1, 20, 20] -> [batch, 10]`, logarithms of probabilities."""
        x = functional.relu(self.norm(self.conv2(functional.relu(self.conv1(x)))))
        x = self.dropout1(functional.max_pool2d(x, 2)).flatten(1)
        x = self.dropout2(functional.relu(self.fc1(x)))
        return functional.log_softmax(self.fc2(x), dim=1)


def digits(count: int, seed: int) -> TensorDataset:
    """Images `[count, 1, 20, 20]` and the digits on them `[count]`."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=generator)
    images = 0.3 * torch.randn(count, 1, 20, 20, generator=generator)
    shifts = torch.randint(5, (count, 2), generator=generator)
    for image, label, (down, right) in zip(images[:, 0], labels.tolist(), shifts.tolist(), strict=True):
        for segment in SEGMENTS[label]:
            top, bottom, left, end = BOXES[segment]
            image[top + down : bottom + down + 1, left + right : end + right + 1] += 1.0
    return TensorDataset(images, labels)


def train(model: nn.Module, loader: DataLoader, optimizer: torch.optim.Optimizer, log: Path) -> None:
    """One epoch, a line for each batch."""
    model.train()
    for data, target in loader:
        optimizer.zero_grad()
        loss = functional.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        with log.open("a") as file:
            file.write(json.dumps({"loss": loss.item()}) + "\n")


def test(model: nn.Module, loader: DataLoader) -> float:
    """The share of digits that are told right."""
    model.eval()
    right = 0
    with torch.no_grad():
        for data, target in loader:
            right += int((model(data).argmax(dim=1) == target).sum())
    return right / len(loader.dataset)


def main(argv: list[str] | None = None) -> None:
    """Train by epochs, a line of JSON for each batch in `OUT/losses.jsonl`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("digits"))
    parser.add_argument("--resume", action="store_true", help="go on behind the last whole epoch")
    parser.add_argument("--burnlike", action="store_true")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(1)
    model = Net()
    train_loader = DataLoader(digits(args.images, seed=1), batch_size=64, shuffle=True)
    test_loader = DataLoader(digits(500, seed=2), batch_size=250)
    if args.burnlike:
        config = bl.optim.AdamWConfig(epsilon=1e-8, weight_decay=1e-2)
        optimizer: torch.optim.Optimizer = bl.interop.TorchOptimizer(model, config, lr=2e-3)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)

    progress = {"epoch": 0, "lines": 0}
    state = TrainingState(model=model, optimizer=optimizer, scheduler=scheduler, progress=progress)
    checkpoint, log = (
        args.out / ("checkpoint.safetensors" if args.burnlike else "checkpoint.pt"),
        args.out / "losses.jsonl",
    )
    if args.resume and args.burnlike:
        state.load(checkpoint)
    elif args.resume:
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        torch.set_rng_state(saved["random"])
        progress = saved["progress"]
    lines = log.read_text().splitlines(keepends=True)[: progress["lines"]] if args.resume else []
    log.write_text("".join(lines))

    while progress["epoch"] < args.epochs:
        train(model, train_loader, optimizer, log)
        scheduler.step()
        progress["epoch"] += 1
        progress["lines"] += len(train_loader)
        print(f"epoch {progress['epoch']}: {test(model, test_loader):.1%} of new digits told right")
        if args.burnlike:
            state.save(checkpoint)
        else:
            states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            states |= {"scheduler": scheduler.state_dict(), "random": torch.get_rng_state(), "progress": progress}
            torch.save(states, checkpoint.with_suffix(".new"))
            os.replace(checkpoint.with_suffix(".new"), checkpoint)


if __name__ == "__main__":
    main()
