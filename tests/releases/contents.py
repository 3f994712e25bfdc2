"""What the files of a release hold, by formulas: never changed once a release has files of them.

Values are sixteenths below 2, so that every format holds them exactly in every precision.
"""

from typing import Any

import torch
from torch import Tensor, nn

import burnlike as bl
from burnlike.config import ModuleConfig
from burnlike.data import DataLoader, TensorDataset
from burnlike.optim import AdamWConfig, CosineAnnealingConfig, GradientsParams, OptimizerAdaptor

MODEL = """\
type: Sequential
layers:
  - {type: Linear, d_input: 3, d_output: 4}
  - {type: BatchNorm, num_features: 4}
  - {type: Tanh}
  - {type: Linear, d_input: 4, d_output: 2, bias: false}
"""
JOB = """\
seed: 3
device: cpu
threads: 1
data: {type: Text, path: corpus.txt, context_length: 8}
model: {type: DecoderLm, vocab_size: 256, max_sequence_length: 8, d_model: 8, n_layers: 1, n_heads: 2, d_ff: 8,
  dropout: 0.1}
optimizer:
  type: AdamW
  weight_decay: 0.1
  groups:
    - params: {match: [{type: AnyPredicates, predicates: [norm, bias]}]}
      weight_decay: 0.0
lr_scheduler: {type: CosineAnnealing, initial_lr: 1e-2, warmup_steps: 5}
training:
  epochs: 6
  steps_per_epoch: 20
  batch_size: 4
  validation_steps: 2
  checkpoint_every_steps: 20
  log_every_steps: 20
  ema: {decay: 0.9}
  keep_best: {}
task: {type: LanguageModel, prompt: "def ", sample_length: 4}
"""
CORPUS = "".join(f"def function_{i % 7}(a, b={i}):\n    return a + {i * 31 % 97}\n" for i in range(60))
FORMATS = (".safetensors", ".mpk", ".mpk.gz", ".json", ".json.gz", ".bin", ".bin.gz", ".bpk")
STEPS, RATE = 2, 0.25


def values_of(shape: torch.Size, number: int) -> Tensor:
    """Those of the tensor of this number. Gives `shape`, float32."""
    return (((torch.arange(shape.numel()) * 7 + number * 5) % 31 + 1) / 16).reshape(shape)


def model(number: int = 0) -> Any:
    """The model of MODEL with the values of a release's files; another number gives others."""
    made = ModuleConfig.from_yaml(MODEL).init()
    with torch.no_grad():
        for index, tensor in enumerate(made.state_dict().values()):
            tensor.copy_(values_of(tensor.shape, index + number))
    return made


def stock() -> nn.Module:
    """A module of torch's classes with a tied weight and a frozen layer."""
    made = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3, bias=False), nn.LayerNorm(3))
    made[1].weight = made[0].weight
    with torch.no_grad():
        for index, tensor in enumerate(made.parameters()):
            tensor.copy_(values_of(tensor.shape, index))
    bl.module.freeze(made, bl.ParamGroup.from_regex(r"^2\."))
    return made


def ids_of(module: nn.Module) -> dict[str, str]:
    return {param.path: str(param.id) for param in bl.module.params(module)}


def optimizer() -> OptimizerAdaptor:
    return AdamWConfig(weight_decay=0.5).init()


def step(optimizer: OptimizerAdaptor, module: nn.Module, number: int) -> None:
    """Update by gradients that are the same on every machine."""
    for index, parameter in enumerate(module.parameters()):
        parameter.grad = values_of(parameter.shape, index + number)
    optimizer.step(RATE, module, GradientsParams.from_module(module))


def schedule() -> Any:
    return CosineAnnealingConfig(initial_lr=0.5, warmup_steps=3).init(num_iters=20)


def loader() -> DataLoader[Any, Any]:
    return DataLoader(TensorDataset(torch.arange(16)), batch_size=3, seed=4)


def flat(module: nn.Module) -> list[float]:
    """All values of a module, tensor after tensor."""
    return [value for tensor in module.state_dict().values() for value in tensor.flatten().tolist()]
