"""Configs of the task `Grpo`, and of the functions that give its answers rewards."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ...config import Config, Meta, TaskConfig
from ...config.base import built
from ...config.bounds import Count, Finite, NotNegative, Positive, at_most
from ...config.file_paths import FilePath
from ...config.registry import snake_tag, tag_of
from ...config.roles import Built

if TYPE_CHECKING:
    from typing import Generic as Builds

    from .grpo import Grpo
    from .rewards import ExactAnswer, Format, Length, RewardModel
else:
    Builds = Config  # as in `config/roles.py`

Text = Annotated[str, Meta(min_length=1)]


class RewardFunctionConfig(Config, Builds[Built]):
    """A config that builds a function which gives answers rewards; `reward_function` makes one of a function.

    Attributes:
        weight: what its rewards are multiplied by, before those of all functions are added.
    """

    weight: Finite = 1.0

    def init(self) -> Built:
        """Build the function; see `reward_function` for its arguments."""
        return built(self, "init()")


class FormatConfig(RewardFunctionConfig["Format"], tag="Format", builds=".rewards"):
    """1 for an answer that consists of these tags, each with something in it, in this order; else 0.

    Attributes:
        tags: such as `[think, answer]`, for `<think>...</think><answer>...</answer>`.
    """

    tags: Annotated[tuple[Text, ...], Meta(min_length=1)] = ("think", "answer")

    def validate(self) -> Iterable[tuple[str, str]]:
        for place, tag in enumerate(self.tags):
            if set(tag) & {*"<>/"}:
                yield f"tags.{place}", f"expected the name of a tag, such as answer, got {tag!r}"


class ExactAnswerConfig(RewardFunctionConfig["ExactAnswer"], tag="ExactAnswer", builds=".rewards"):
    """1 for an answer that is the text of a column, or an equal number; else 0.

    Attributes:
        column: the column of the data with the right answer.
        after: only the text after the last such mark counts, if there is one, such as `<answer>`.
        before: only the text up to the next such mark counts, such as `</answer>`.
    """

    column: Text = "answer"
    after: Text | None = None
    before: Text | None = None


class LengthConfig(RewardFunctionConfig["Length"], tag="Length", builds=".rewards"):
    """0 for answers of up to `most - soft` tokens, falling to -1 at `most` (Yu et al. 2025, eq. 13).

    Attributes:
        most: the number of tokens from which on the reward is -1.
        soft: over how many tokens it falls.
    """

    most: Count
    soft: Count

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.soft > self.most:
            yield "soft", f"expected at most {self.most}, the value of `most`, got {self.soft}"


class RewardModelConfig(RewardFunctionConfig["RewardModel"], tag="RewardModel", builds=".rewards"):
    """The number that a model gives a conversation which ends in the answer.

    Attributes:
        run: the directory of a run of the task `Reward`.
    """

    run: FilePath

    def file_problems(self) -> Iterable[tuple[str, str]]:
        if not (Path(self.run).expanduser() / "config.yaml").is_file():
            yield "run", f"expected the directory of a run of the task Reward, got {self.run!r}"


class GrpoConfig(TaskConfig["Grpo"], tag="Grpo", builds=".grpo"):
    """Group relative policy optimization (Shao et al. 2024): the model answers each prompt several times, and answers
    with more reward than the others of their group become likelier.

    Attributes:
        rewards: functions of answers, whose weighted sum is the reward: ready ones, or your own by `reward_function`.
        answers: how many are drawn for each prompt.
        max_tokens: of an answer.
        temperature, top_k, top_p, min_p: of the draws; see `burnlike.models.SamplingOptions`.
        loss: `dapo`, the mean over all tokens (Yu et al. 2025); `grpo`, the mean over answers of the means over their
            tokens; `dr_grpo`, the sum over tokens / (answers * max_tokens) (Liu et al. 2025); `rloo`, the mean over
            answers, whose ratio is that of whole answers (Ahmadian et al. 2024).
        scale_rewards: whether advantages are divided by the standard deviation of their group; None: by the loss, which
            is so for `dapo` and `grpo`.
        epsilon: ratios of probabilities are clipped below 1 - epsilon.
        epsilon_high: and above 1 + epsilon_high; None is `epsilon`.
        beta: weight of the divergence from the model with its adapters off; 0 for none. `rloo` has it in its rewards.
        updates: optimizer steps with the same answers.
        mask_cut: whether answers that were cut off at `max_tokens` have no loss.
    """

    head = "CausalLM"
    rewards: Annotated[tuple[RewardFunctionConfig, ...], Meta(min_length=1)]
    answers: Annotated[int, Meta(ge=2), at_most(10_000, "each answer is written by the model")] = 8
    max_tokens: Annotated[int, Meta(ge=1), at_most(1_000_000, "each token is a pass through the model")] = 256
    temperature: Positive = 1.0
    top_k: Count | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    min_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    loss: Literal["dapo", "grpo", "dr_grpo", "rloo"] = "dapo"
    scale_rewards: bool | None = None
    epsilon: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    epsilon_high: Positive | None = None
    beta: NotNegative = 0.0
    updates: Count = 1
    mask_cut: bool = False

    @property
    def is_scaled(self) -> bool:
        """True if advantages are divided by the standard deviation of their group."""
        return self.loss in ("dapo", "grpo") if self.scale_rewards is None else self.scale_rewards

    def validate(self) -> Iterable[tuple[str, str]]:
        names = self.reward_names
        for place, name in enumerate(names):
            if name in names[:place]:
                yield f"rewards.{place}", f"expected each type once, got another {tag_of(type(self.rewards[place]))}"

    @property
    def reward_names(self) -> list[str]:
        """The names of the functions in lines of metrics, by their types, as in `exact_answer`."""
        return [snake_tag(type(reward)) for reward in self.rewards]
