"""Sampling from a language model, token by token."""

import torch
from torch import Tensor, nn

from ....models.generation import next_tokens


@torch.no_grad()
def sample(
    model: nn.Module,
    prompt: Tensor,
    *,
    length: int,
    context_length: int,
    temperature: float = 1.0,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Continue a prompt.

    Args:
        model: `[1, n] -> [1, n, vocab_size]` logits.
        prompt: `[n]` int64 tokens, n >= 1.
        length: tokens to add.
        context_length: how many of the last tokens the model is shown.
        temperature: divides the logits; 0 takes the likeliest token.
        seed: of the draws, which are made on the CPU.
        device: where the model is.

    Returns:
        `[length]` int64 tokens, on the CPU.
    """
    generator = torch.Generator().manual_seed(seed)
    tokens = prompt.to("cpu", torch.int64)
    was_training = model.training
    model.eval()
    for _ in range(length):
        logits = model(tokens[-context_length:].to(device).unsqueeze(0))[:, -1].float().cpu()
        drawn = next_tokens(logits, temperature=temperature, generator=generator)
        tokens = torch.cat([tokens, drawn])
    model.train(was_training)
    return tokens[len(prompt) :]
