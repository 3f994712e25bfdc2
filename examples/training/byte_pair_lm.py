"""A language model over byte-pair tokens, which are learned from the text first.

    python byte_pair_lm.py --out runs/byte_pair

This file needs burnlike, and the package tokenizers: save it anywhere, or run it in `examples/training` of a clone.

The text is the source of Python's standard library, or `--text`, a file or a folder of them.
"""

import argparse
import math
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from burnlike.data import DataLoader, TextCorpusConfig, TokenBatcher, TokenWindows
from burnlike.models import DecoderLmConfig
from burnlike.optim import AdamWConfig, ClipByGlobalNorm, CosineAnnealingConfig
from burnlike.train import Interrupter, LanguageModel, Learner, TrainingConfig


def train_tokenizer(text: str, vocab_size: int) -> Tokenizer:
    """Byte-pair encoding (Sennrich et al. 2016) over bytes: any text has tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
    return tokenizer


def main() -> None:
    """Read the options and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", help="default: the source of Python's standard library")
    parser.add_argument("--characters", type=int, default=2_000_000, help="of the text, at most")
    parser.add_argument("--vocab-size", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=300, help="of each of two epochs")
    parser.add_argument("--out", type=Path, default=Path("runs/byte_pair"))
    arguments = parser.parse_args()

    torch.manual_seed(0)
    corpus = TextCorpusConfig(path=arguments.text).init()
    texts = [bytes(it[: arguments.characters].tolist()) for it in (corpus.train_tokens, corpus.valid_tokens)]
    train_text, valid_text = (text.decode(errors="replace") for text in texts)
    arguments.out.mkdir(parents=True, exist_ok=True)
    saved = arguments.out.with_name(f"{arguments.out.name}-tokenizer.json")
    tokenizer = Tokenizer.from_file(str(saved)) if saved.exists() else train_tokenizer(train_text, arguments.vocab_size)
    tokenizer.save(str(saved))
    train, valid = (torch.tensor(tokenizer.encode(text).ids) for text in (train_text, valid_text))
    print(f"{len(train_text):,} characters are {len(train):,} tokens of {tokenizer.get_vocab_size()}")

    length, steps = 64, arguments.steps
    train_loader = DataLoader(TokenWindows(train, length), TokenBatcher(), batch_size=8, seed=1, steps_per_epoch=steps)
    valid_loader = DataLoader(TokenWindows(valid, length), TokenBatcher(), batch_size=8, steps_per_epoch=20)
    shape = DecoderLmConfig(
        vocab_size=tokenizer.get_vocab_size(),
        max_sequence_length=length,
        d_model=96,
        n_layers=3,
        n_heads=4,
        d_ff=256,
    )
    model = shape.init()
    optimizer = AdamWConfig(weight_decay=0.1, grad_clipping=ClipByGlobalNorm(threshold=1.0)).init()
    schedule = CosineAnnealingConfig(initial_lr=4e-3, warmup_steps=min(30, steps)).init(num_iters=2 * steps)
    learner = Learner(model, optimizer, schedule, task=LanguageModel())
    with Interrupter() as interrupter:
        result = learner.fit(
            train_loader, valid_loader, TrainingConfig(epochs=2), directory=arguments.out, interrupter=interrupter
        )
    assert result.valid_loss is not None
    per_token = len(valid_text.encode()) / len(valid)
    print(f"validation loss {result.valid_loss:.4f} nats a token, {result.valid_loss / per_token:.4f} a byte")
    print(f"perplexity      {math.exp(result.valid_loss):.1f} of {tokenizer.get_vocab_size()} tokens")
    prompt = torch.tensor([tokenizer.encode("def ").ids])
    drawn = model.eval().generate(prompt, 40, temperature=0.7, generator=torch.Generator().manual_seed(1))
    print("sample:", tokenizer.decode(drawn[0].tolist()))


if __name__ == "__main__":
    main()
