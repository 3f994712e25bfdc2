"""Models that are written out in YAML equal the ready ones to the bit, with the same names and the same seed."""

import torch

from burnlike.config import ModuleConfig
from burnlike.config.shipped import config_file
from burnlike.models import DecoderLmConfig, ResNetConfig
from burnlike.module import params
from burnlike.train import TrainConfig


def weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {param.path: param.tensor.detach() for param in params(model)}


def test_resnet18() -> None:
    torch.manual_seed(0)
    ours = ModuleConfig.load(config_file("resnet18_layers")).init()
    torch.manual_seed(0)
    ready = ResNetConfig.resnet18(stem="Small", num_classes=10).init()
    assert weights(ours).keys() == weights(ready).keys()
    for path, tensor in weights(ready).items():
        assert torch.equal(weights(ours)[path], tensor), path
    images = torch.randn(2, 3, 32, 32)
    for training in (True, False):
        assert torch.equal(ours.train(training)(images), ready.train(training)(images))


def test_transformer() -> None:
    torch.manual_seed(0)
    ours = TrainConfig.load(config_file("transformer_layers")).model.init()
    torch.manual_seed(0)
    ready = DecoderLmConfig(vocab_size=256, max_sequence_length=32, d_model=32, n_layers=2, n_heads=2, d_ff=64).init()
    expected = weights(ready)
    assert weights(ours).keys() == expected.keys()
    for path, tensor in expected.items():
        assert torch.equal(weights(ours)[path], tensor), path
    tokens = torch.randint(256, (2, 32))
    assert torch.equal(ours(tokens), ready(tokens))
