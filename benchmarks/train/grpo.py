"""Group relative policy optimization with LoRA beside TRL's GRPOTrainer with peft: samples a second.

    python -m benchmarks.train.grpo

Both train the same adapters of all linear layers, of rank 8, with the same prompts, rewards, AdamW and clipped norm of
gradients; each draws its own answers, 8 to each of 4 prompts. TRL runs the model of transformers as it is (eager), the
Learner the same with `fuse: true`. A time is that of all steps but the first ones, divided by the number of samples.
Then TRL is given the answers that burnlike has drawn: the divergences from the reference after each step are printed,
and it is an error if they differ.
"""

import io
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from benchmarks._harness import Comparison, compare, main
from benchmarks.train.adapters import DECAY, MOST_REPEATS, NORM, RATE, SIZES, VOCABULARY, Seen
from benchmarks.train.preferences import options_of_trl, tokenizer_of_one
from burnlike.interop import load_adapter, save_adapter
from burnlike.models import LoRAConfig, PretrainedConfig
from burnlike.optim import AdamWConfig, ClipByGlobalNorm
from burnlike.train import GrpoConfig, Learner, PlainRenderer, TrainingConfig, reward_function

STEPS, PROMPTS, ANSWERS, PROMPT, ANSWER = 5, 4, 8, 64, 64
BETA = 0.04
BAR = 3.0

drawn: list[list[Sequence[int]]] = []
"""The answers of each step of burnlike's last training."""


@reward_function
def even_tokens(completion_ids: Sequence[Sequence[int]]) -> list[float]:
    """The share of even tokens."""
    return [sum(token % 2 == 0 for token in it) / len(it) for it in completion_ids]


def noted_even_tokens(completion_ids: Sequence[Sequence[int]]) -> list[float]:
    """The same, with the answers kept for TRL."""
    drawn.append([*completion_ids])
    return even_tokens(completion_ids)


def _prompts() -> Tensor:
    return torch.randint(1, VOCABULARY, (STEPS * PROMPTS, PROMPT), generator=torch.Generator().manual_seed(1))


class _Seen(Seen):
    """With the divergence from the reference at each step, in nats per token."""

    def __init__(self) -> None:
        super().__init__()
        self.divergences: list[float] = []

    def on_metrics(self, learner: Learner[Any], line: Any) -> None:
        super().on_metrics(learner, line)
        self.divergences.append(line["loss.kl"])


def _expect_near(ours: Sequence[float], theirs: Sequence[float]) -> None:
    """Print the divergences of both sides; raise AssertionError if they differ by more than 1 % of the largest."""
    print("divergences     " + ", ".join(f"{it:.3e}" for it in ours))
    print("theirs          " + ", ".join(f"{it:.3e}" for it in theirs))
    worst = max(abs(one - other) for one, other in zip(ours, theirs, strict=True))
    if not max(theirs) > 1e-7 or worst > 0.01 * max(theirs):
        raise AssertionError(f"the divergences differ by {worst:.2g}: the two sides don't train the same")


class _Codec:
    stop_tokens = frozenset((0,))
    template = SimpleNamespace(opened_thought=lambda _: "")

    def decode(self, tokens: Tensor) -> str:
        return ""


class _Sides:
    """Both sides, and what they begin with: a directory of a Llama with random weights, and adapters."""

    def __init__(self, folder: Path) -> None:
        import transformers

        self.base, self.adapter = folder / "llama", folder / "adapter"
        torch.manual_seed(0)
        config = transformers.LlamaConfig(**SIZES, eos_token_id=0, bos_token_id=1)
        transformers.LlamaForCausalLM(config).save_pretrained(self.base)
        save_adapter(self._model(), self.adapter)

    def _model(self) -> nn.Module:
        base = PretrainedConfig(path=str(self.base), fuse=True)
        return LoRAConfig(of=base, rank=8, alpha=16, targets="all-linear").init("cpu")

    def ours(self) -> _Seen:
        drawn.clear()
        model, seen = self._model(), _Seen()
        load_adapter(model, self.adapter)
        optimizer = AdamWConfig(epsilon=1e-8, weight_decay=DECAY, grad_clipping=ClipByGlobalNorm(threshold=NORM)).init()
        config = GrpoConfig.from_dict(
            {"rewards": [{"type": "noted_even_tokens"}], "answers": ANSWERS, "max_tokens": ANSWER, "beta": BETA}
        )
        task = config.init()
        task.take_data(SimpleNamespace(codec=_Codec()))
        learner = Learner(model, optimizer, RATE, task=task)
        loader = DataLoader(_prompts(), batch_size=PROMPTS, collate_fn=_batch)  # pyright: ignore[reportArgumentType]
        learner.fit(
            loader, training=TrainingConfig(log_every_steps=1), renderer=PlainRenderer(io.StringIO()), callbacks=[seen]
        )
        return seen

    def theirs(self, answers: Sequence[Sequence[Sequence[int]]] = ()) -> _Seen:
        """TRL's trainer; with the given answers of each step in the place of its own."""
        import datasets
        import transformers
        from peft import PeftModel
        from trl.trainer.grpo_config import GRPOConfig
        from trl.trainer.grpo_trainer import GRPOTrainer

        steps = iter(answers)

        class OfTokens(GRPOTrainer):
            def _tokenize_prompts(self, prompts: Sequence[str]) -> Any:
                return [_prompts()[int(it)].tolist() for it in prompts], None, {}

            def _generate_single_turn(self, *arguments: Any, **named: Any) -> Any:
                if answers:
                    return [[*it] for it in next(steps)], None
                return super()._generate_single_turn(*arguments, **named)

        seen = _Seen()

        class Ends(transformers.TrainerCallback):
            def on_step_end(self, *_: Any, **__: Any) -> None:
                seen.ends.append(time.perf_counter())

        def reward(completion_ids: Any, **_: Any) -> list[float | None]:
            return [*even_tokens(completion_ids)]

        model = transformers.LlamaForCausalLM.from_pretrained(self.base)
        adapted = PeftModel.from_pretrained(model, self.adapter, is_trainable=True)
        chosen = [it for it in adapted.parameters() if it.requires_grad]
        optimizer = torch.optim.AdamW(chosen, lr=RATE, weight_decay=DECAY, fused=True)
        with tempfile.TemporaryDirectory() as folder:
            trainer = OfTokens(
                adapted,
                reward_funcs=reward,
                args=GRPOConfig(
                    **options_of_trl(folder),
                    per_device_train_batch_size=PROMPTS * ANSWERS,
                    num_generations=ANSWERS,
                    max_completion_length=ANSWER,
                    beta=BETA,
                    shuffle_dataset=False,
                ),
                train_dataset=datasets.Dataset.from_dict({"prompt": [str(it) for it in range(STEPS * PROMPTS)]}),
                processing_class=tokenizer_of_one(),
                callbacks=[Ends()],
                optimizers=(optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)),
            )
            # "kl" is among the trainer's own metrics, which its `log` adds to those that it is given.
            trainer.log = lambda logs, *_, **__: _note(trainer, seen, logs)
            trainer.train()
        return seen


def _note(trainer: Any, seen: _Seen, logs: Any) -> None:
    """Keep the divergence of the step that a trainer tells of."""
    if "loss" in logs:
        seen.divergences.append(trainer._metrics["train"]["kl"][-1])


def _batch(prompts: Sequence[Tensor]) -> dict[str, Any]:
    return {"input_ids": [*prompts], "messages": [[] for _ in prompts], "rows": [{} for _ in prompts]}


def run(repeats: int) -> list[Comparison]:
    """The Learner beside GRPOTrainer."""
    reward_function(noted_even_tokens)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sides = _Sides(Path(folder))
        samples = PROMPTS * ANSWERS
        found = compare(
            "a sample of GRPO with LoRA",
            lambda: sides.ours().per_step() / samples,
            lambda: sides.theirs().per_step() / samples,
            theirs_name="TRL's GRPOTrainer with peft",
            bar=BAR,
            repeats=min(repeats, MOST_REPEATS),
            measure=lambda side: side(),
        )
        print(f"samples a second: {1e3 / found.ours_ms:,.1f}, theirs {1e3 / found.theirs_ms:,.1f}")
        ours = sides.ours()
        _expect_near(ours.divergences, sides.theirs(drawn).divergences)
    return [found]


if __name__ == "__main__":
    main("GRPO with LoRA beside TRL's GRPOTrainer", run)
