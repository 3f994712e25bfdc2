"""A word-level LSTM by a script of the shape of PyTorch's word_language_model example; `--burnlike` changes five lines.

Words are predicted in long rows of text cut into windows, the hidden state goes on from window to window without its
history, weights are tied, and the rate is quartered where the validation loss did not fall. Without burnlike the update
is written out, as that example has it; with burnlike it is an optimizer over the module's parameters.
"""

import argparse
import inspect
import json
import os
import re
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

import burnlike as bl
from burnlike.train import TrainingState

ROWS, WINDOW, WIDTH, CLIP, LR = 8, 12, 32, 0.25, 5.0
Hidden = tuple[Tensor, Tensor]


class Rnn(nn.Module):
    """An embedding, two layers of LSTM and a decoder with the embedding's weights."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(words, WIDTH)
        self.rnn = nn.LSTM(WIDTH, WIDTH, num_layers=2, dropout=0.2)
        self.decoder = nn.Linear(WIDTH, words)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        """`[time, row]` and the state before -> log-probabilities `[time * row, words]` and the state after."""
        output, hidden = self.rnn(self.drop(self.encoder(tokens)), hidden)
        logits = self.decoder(self.drop(output)).flatten(0, 1)
        return functional.log_softmax(logits, dim=1), hidden

    def init_hidden(self) -> Hidden:
        """The state before the first word."""
        zeros = torch.zeros(2, ROWS, WIDTH)
        return zeros, zeros.clone()


def batchify(tokens: Tensor) -> Tensor:
    """`[time, row]`: the text in rows, side by side."""
    return tokens[: len(tokens) // ROWS * ROWS].view(ROWS, -1).t().contiguous()


def evaluate(model: Rnn, data: Tensor) -> float:
    """The mean loss of `[time, row]` words."""
    model.eval()
    hidden, total = model.init_hidden(), 0.0
    with torch.no_grad():
        for start in range(0, len(data) - 1, WINDOW):
            tokens, targets = data[start : start + WINDOW], data[start + 1 : start + 1 + WINDOW].flatten()
            output, hidden = model(tokens[: len(targets) // ROWS], hidden)
            total += functional.nll_loss(output, targets, reduction="sum").item()
    return total / ((len(data) - 1) * ROWS)


def main(argv: list[str] | None = None) -> None:
    """Train by epochs, a line of JSON for each window in `OUT/losses.jsonl`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--words", type=int, default=10_000, help="how much of the text is used")
    parser.add_argument("--out", type=Path, default=Path("word_lm"))
    parser.add_argument("--resume", action="store_true", help="go on behind the last whole epoch")
    parser.add_argument("--burnlike", action="store_true")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(1111)
    text = re.findall(r"\w+|[^\w\s]", inspect.getsource(argparse))[: args.words]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(text))}
    tokens = torch.tensor([vocabulary[word] for word in text])
    train_data, valid_data = batchify(tokens[: len(tokens) * 9 // 10]), batchify(tokens[len(tokens) * 9 // 10 :])
    model = Rnn(len(vocabulary))
    optimizer = bl.optim.SgdConfig().init()
    progress = {"epoch": 0, "lines": 0, "lr": LR, "best": float("inf")}
    state = TrainingState(model=model, optimizer=optimizer, progress=progress)
    checkpoint, log = (
        args.out / ("checkpoint.safetensors" if args.burnlike else "checkpoint.pt"),
        args.out / "losses.jsonl",
    )
    if args.resume and args.burnlike:
        state.load(checkpoint)
    elif args.resume:
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        torch.set_rng_state(saved["random"])
        progress = saved["progress"]
    lines = log.read_text().splitlines(keepends=True)[: int(progress["lines"])] if args.resume else []
    log.write_text("".join(lines))

    while progress["epoch"] < args.epochs:
        model.train()
        hidden = model.init_hidden()
        for start in range(0, len(train_data) - 1, WINDOW):
            targets = train_data[start + 1 : start + 1 + WINDOW].flatten()
            model.zero_grad()
            hidden = tuple(part.detach() for part in hidden)
            output, hidden = model(train_data[start : start + len(targets) // ROWS], hidden)
            loss = functional.nll_loss(output, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            if args.burnlike:
                optimizer.step(progress["lr"], model, bl.optim.GradientsParams.from_module(model))
            else:
                for parameter in model.parameters():
                    parameter.data.add_(parameter.grad, alpha=-progress["lr"])
            progress["lines"] += 1
            with log.open("a") as file:
                file.write(json.dumps({"loss": loss.item()}) + "\n")
        valid = evaluate(model, valid_data)
        progress["lr"] /= 1.0 if valid < progress["best"] else 4.0
        progress["best"] = min(valid, progress["best"])
        progress["epoch"] += 1
        print(f"epoch {progress['epoch']}: validation loss {valid:.3f}")
        if args.burnlike:
            state.save(checkpoint)
        else:
            states = {"model": model.state_dict(), "random": torch.get_rng_state(), "progress": progress}
            torch.save(states, checkpoint.with_suffix(".new"))
            os.replace(checkpoint.with_suffix(".new"), checkpoint)


if __name__ == "__main__":
    main()
