"""Classification: scikit-learn's digits, 8 x 8 pixels, by a small convolutional network.

    python classify_digits.py --out runs/digits

This file needs burnlike, and the packages scikit-learn and torchmetrics: save it anywhere, or
run it in `examples/training` of a clone.

Stop it by Ctrl-C, or kill it, and run the same command again: it goes on from its last checkpoint.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy

from burnlike.optim import AdamWConfig, CosineAnnealingConfig
from burnlike.train import BestMetricConfig, Classification, EarlyStoppingConfig, Interrupter, Learner, TrainingConfig


def network() -> nn.Module:
    """`[n, 1, 8, 8] -> [n, 10]` logits."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 4 * 4, 10)),
    )


def loaders(batch_size: int) -> tuple[DataLoader, DataLoader, DataLoader]:
    """Batches to train, validate and test on: (images [n, 1, 8, 8], classes [n])."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    splits = order.split([1300, 250, len(images) - 1550])
    data = [TensorDataset(images[it], torch.tensor(digits.target)[it]) for it in splits]
    train, valid, test = (DataLoader(it, batch_size, shuffle=it is data[0]) for it in data)
    return train, valid, test


def main() -> None:
    """Read the options and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--out", default="runs/digits")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    train, valid, test = loaders(batch_size=64)
    schedule = CosineAnnealingConfig(initial_lr=3e-3, warmup_steps=10).init(num_iters=arguments.epochs * len(train))
    learner = Learner(
        network(),
        AdamWConfig(weight_decay=0.05).init(),
        schedule,
        task=Classification(),
        metrics={"accuracy": MulticlassAccuracy(10, average="micro")},
    )
    best = BestMetricConfig(metric="accuracy")
    training = TrainingConfig(
        epochs=arguments.epochs,
        keep_best=best,
        early_stopping=EarlyStoppingConfig(metric="accuracy", n_epochs=5),
    )
    with Interrupter() as interrupter:
        learner.fit(train, valid, training, directory=arguments.out, interrupter=interrupter)
    for name, value in learner.evaluate(test).items():
        print(f"test {name} {value:.4f}")


if __name__ == "__main__":
    main()
