"""LoRA fine-tuning of a transformers model: small matrices are trained beside its frozen weights.

    python lora_fine_tune.py --out runs/lora

This file needs burnlike, and the package transformers: save it anywhere, or run it in `examples/training` of a clone.

The model here is a small GPT-2 with random weights, so that nothing is downloaded; with a name of your own it is
`AutoModelForCausalLM.from_pretrained(name)`. What is saved at the end are the adapters alone.
"""

import argparse
from pathlib import Path

import torch
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel

from burnlike.module import LoraConfig, ParamGroup, apply_lora, params
from burnlike.optim import AdamWConfig
from burnlike.record import Record, save
from burnlike.train import LanguageModel, Learner, TrainingConfig

TEXT = "".join(f"line {i % 7} says {i * 31 % 97}; " for i in range(400))


def windows(length: int) -> list[torch.Tensor]:
    """The text as byte tokens, in pieces of `length` + 1."""
    tokens = torch.tensor(list(TEXT.encode()))
    return [tokens[start : start + length + 1] for start in range(0, len(tokens) - length - 1, length)]


def main() -> None:
    """Read the options and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/lora"))
    arguments = parser.parse_args()

    torch.manual_seed(0)
    shape = GPT2Config(vocab_size=256, n_positions=64, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(shape)
    matrices = ParamGroup.from_regex(r"\.c_(attn|proj|fc)\.weight$")
    apply_lora(model, LoraConfig(rank=8, alpha=16.0, param_group=matrices))
    trained = [param for param in params(model, "weight") if param.trainable]
    print(f"trained: {sum(it.tensor.numel() for it in trained):,} of {model.num_parameters():,} parameters")

    pieces = windows(64)
    learner = Learner(model, AdamWConfig().init(), 1e-2, task=LanguageModel())
    result = learner.fit(
        DataLoader(pieces[:-8], batch_size=8, shuffle=True),
        DataLoader(pieces[-8:], batch_size=8),
        TrainingConfig(epochs=arguments.epochs),
        directory=arguments.out,
    )
    print(f"validation loss {result.valid_loss:.4f}")
    adapters = Record.from_module(model, ParamGroup.from_regex(r"\.lora\."))
    print("adapters:", save(adapters, arguments.out / "adapters.safetensors"))


if __name__ == "__main__":
    main()
