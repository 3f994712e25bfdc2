"""scikit-learn's digits."""

from typing import Any

import torch

from ...errors import DataError
from ..dataset import TensorDataset
from .configs import DigitsConfig
from .splits import Splits, split


def digits(config: DigitsConfig) -> Splits:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise DataError("type: Digits needs scikit-learn: pip install scikit-learn") from error
    found: Any = load_digits()
    images = torch.tensor(found.images, dtype=torch.float32) / 16
    images = images.flatten(1) if config.flat else images.unsqueeze(1)
    name = f"digits {config.to_dict()}"
    data = TensorDataset(images, torch.tensor(found.target), fingerprint=name)
    splits = {}
    rest = data
    if config.test_fraction > 0:
        rest, splits["test"] = split(data, config.test_fraction, config.split_seed, "digits")
    train, valid = split(rest, config.validation_fraction, config.split_seed + 1, "digits")
    return Splits(train, valid, splits=splits, fingerprint=name, classes=[*"0123456789"])
