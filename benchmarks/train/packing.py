"""Packed conversations beside padded ones: a pass of training over conversations of skewed lengths.

    python -m benchmarks.train.packing

A Llama of transformers with 10 M random parameters, batches of 4 rows, AdamW. The lengths are log-normal, up to 256
tokens, and the second half of each conversation has a loss. Both sides train on the same tokens, so that the ratio of
the times is that of tokens with loss per second. Padded, conversations come in random order, as transformers' Trainer
takes them; and in batches of like lengths, as burnlike's loader makes them.
"""

from collections.abc import Callable
from typing import Any

import torch

from benchmarks._harness import Comparison, compare, main
from burnlike.data import DataLoader
from burnlike.data.chat.conversations import ConversationBatcher, Conversations, ConversationTokens, PackedConversations
from burnlike.data.chat.templates import Encoded
from burnlike.optim import AdamWConfig
from burnlike.train import Learner
from burnlike.train.tasks.language_model import LanguageModel

COUNT, LONGEST, VOCABULARY, BATCH = 64, 256, 6000, 4
MEDIAN, SPREAD = 4.0, 0.9
"""Of the logarithms of the lengths."""

MOST_REPEATS = 3
BAR = 1.5


def conversations() -> Conversations:
    generator = torch.Generator().manual_seed(0)
    lengths = (torch.randn(COUNT, generator=generator) * SPREAD + MEDIAN).exp().long().clamp(8, LONGEST)
    rows = ConversationTokens()
    for length in lengths.tolist():
        tokens = torch.randint(VOCABULARY, (length,), generator=generator).tolist()
        rows.append(Encoded(tokens, [place >= length // 2 for place in range(length)]))
    return Conversations(rows, range(COUNT))


class InAnyOrder:
    """Conversations that don't say how long they are."""

    draws = False

    def __init__(self, dataset: Conversations) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        return self._dataset[index]


def training(dataset: Any, length: int = 0) -> Callable[[], None]:
    """A pass of training over all items."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes: Any = {"hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 8, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **sizes))
    learner = Learner(model.train(), AdamWConfig().init(), 1e-4, task=LanguageModel())
    loader = DataLoader(dataset, ConversationBatcher(0, length), batch_size=BATCH, seed=1)

    def run_pass() -> None:
        loader.rewind()
        for batch in loader:
            learner.train_step(batch)

    return run_pass


def run(repeats: int) -> list[Comparison]:
    """Packed beside padded, in random order and by length."""
    data = conversations()
    packed = PackedConversations(data, LONGEST, 0)
    tokens, counted = data.rows.n_tokens()
    note = f"{tokens:,} tokens, {counted:,} with loss; {packed.fill:.1%} of the packed rows filled"
    sides = {"padded, in random order": (InAnyOrder(data), BAR), "padded, by length": (data, None)}
    return [
        compare(
            f"a pass over {COUNT} conversations, packed",
            training(packed, packed.length),
            training(dataset),
            theirs_name=name,
            bar=bar,
            repeats=min(repeats, MOST_REPEATS),
            note=note,
        )
        for name, (dataset, bar) in sides.items()
    ]


if __name__ == "__main__":
    main("Packed conversations beside padded ones", run)
