"""Configs of the tasks."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ...config import Meta, ModuleConfig, TaskConfig
from ...config.bounds import Count, NotNegative, Positive, Size, at_most
from ...module.adapters.configs import LoraConfig
from ...nn.containers.layer_facts import NAMED, name_problem

if TYPE_CHECKING:
    from .generative import Adversarial, Networks, VariationalAutoencoder
    from .language_model import LanguageModel
    from .preferences import Dpo, Kto, Orpo, Reward, SimPo
    from .supervised import Classification, ModelLoss, Regression, Segmentation
    from .task import LoraFineTuning
    from .tokens import MaskedLanguageModel, SequenceToSequence, TokenClassification

_SAMPLE = at_most(1_000_000, "each token is a pass through the model")
Samples = Annotated[int, Meta(ge=0), at_most(10_000, "more images are no picture that a person looks at")]
Token = Annotated[int, Meta(ge=0, lt=2**31)]
Smoothing = Annotated[float, Meta(ge=0, lt=1)]
ClassWeights = Annotated[tuple[NotNegative, ...], Meta(min_length=2)]


def _weighing_problems(config: Any) -> Iterable[tuple[str, str]]:
    if config.focal_gamma and config.label_smoothing:
        yield "focal_gamma", "expected none with `label_smoothing`: a focal loss is of one class"
    weights = config.class_weights  # `balanced`, a list, or a mapping by names
    if isinstance(weights, dict):
        weights = weights.values()
    if weights and not isinstance(weights, str) and not any(weights):
        yield "class_weights", "expected a weight above 0"


class LanguageModelConfig(TaskConfig["LanguageModel"], tag="LanguageModel", builds=".language_model"):
    """Predicts each token of a text from those before it.

    Attributes:
        prompt: how the sample that is drawn at the end begins.
        sample_length: tokens of the sample; 0 draws none.
        temperature: of the sampling; 0 always takes the likeliest token.
        label_smoothing: share of the target that is spread over all tokens in the training; what is measured has none.
        neftune: noise on the vectors of tokens in training, uniform within neftune / sqrt(length * d_model) (NEFTune,
            Jain et al. 2023); 5 to 15 are usual.
    """

    head = "CausalLM"
    prompt: Annotated[str, Meta(min_length=1)] = "\n"
    sample_length: Annotated[int, Meta(ge=0), _SAMPLE] = 400
    temperature: NotNegative = 0.8
    label_smoothing: Smoothing = 0.0
    neftune: NotNegative = 0.0


class ClassificationConfig(TaskConfig["Classification"], tag="Classification", builds=".supervised"):
    """Finds the class of each item.

    Attributes:
        multi_label: each item may have any number of classes; targets are 0 or 1 for each class.
        label_smoothing: share of the target that is spread over all classes.
        class_weights: how much each class counts in the training: a list, a mapping of names (others count 1), or
            `balanced`, n / (classes * items of the class); with several labels it is that of the label where it is
            there, `balanced` the items without by those with it. What is measured is not weighed.
        focal_gamma: multiplies the loss in the training by (1 - p)^gamma, where p is the probability of what is right,
            so that items that are right already count less (Lin et al. 2017); 2 is usual, 0 is off.
    """

    head = "SequenceClassification"
    multi_label: bool = False
    label_smoothing: Smoothing = 0.0
    class_weights: Literal["balanced"] | ClassWeights | dict[str, NotNegative] | None = None
    focal_gamma: NotNegative = 0.0

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from _weighing_problems(self)


class SegmentationConfig(TaskConfig["Segmentation"], tag="Segmentation", builds=".supervised"):
    """Finds the class of each pixel.

    Attributes:
        ignore_index: the class of pixels that don't count; None counts all.
        label_smoothing: share of the target that is spread over all classes.
        class_weights, focal_gamma: as of `Classification`, for pixels. `balanced` reads all masks once.
    """

    head = "SemanticSegmentation"
    ignore_index: Annotated[int, Meta(ge=-(2**31), lt=2**31)] | None = None
    label_smoothing: Smoothing = 0.0
    class_weights: Literal["balanced"] | ClassWeights | dict[str, NotNegative] | None = None
    focal_gamma: NotNegative = 0.0

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from _weighing_problems(self)


class RegressionConfig(TaskConfig["Regression"], tag="Regression", builds=".supervised"):
    """Finds numbers.

    Attributes:
        loss: `mse` (squared error), `mae` (absolute error) or `huber` (squared below 1, linear above).
    """

    head = "SequenceClassification"
    loss: Literal["mse", "mae", "huber"] = "mse"


class TokenClassificationConfig(TaskConfig["TokenClassification"], tag="TokenClassification", builds=".tokens"):
    """Finds the class of each token, or of each word by its first token: names in a text, parts of speech.

    Attributes:
        label_smoothing: share of the target that is spread over all classes.
    """

    head = "TokenClassification"
    label_smoothing: Smoothing = 0.0


class MaskedLanguageModelConfig(TaskConfig["MaskedLanguageModel"], tag="MaskedLanguageModel", builds=".tokens"):
    """Finds tokens of a text that are hidden, as BERT is trained.

    Attributes:
        mask_prob: share of the tokens that are to be found: of these, 80 % are hidden, 10 % replaced and 10 % shown.
        whole_words: hide all tokens of a word or none.
        mask_token: the number of what stands for a hidden token; None takes that of the data's tokenizer.
    """

    head = "MaskedLM"
    mask_prob: Annotated[float, Meta(gt=0, lt=1)] = 0.15
    whole_words: bool = False
    mask_token: Token | None = None


class SequenceToSequenceConfig(TaskConfig["SequenceToSequence"], tag="SequenceToSequence", builds=".tokens"):
    """Writes a second sequence of tokens for a first one: translation, summaries.

    Attributes:
        label_smoothing: share of the target that is spread over all tokens.
        validation_tokens: how many tokens a validation writes for each item, which metrics of sequences, such as
            `Bleu`, compare with the true ones; 0 writes none, and metrics get logits.
        max_tokens: how many tokens `predict` writes at most.
        start_token: what a second sequence begins with; None takes that of the model, or of the data, or 0.
        end_token: what ends it; None takes that of the model, or of the data.
    """

    head = "Seq2SeqLM"
    label_smoothing: Smoothing = 0.0
    validation_tokens: Annotated[int, Meta(ge=0), _SAMPLE] = 0
    max_tokens: Annotated[int, Meta(ge=1), _SAMPLE] = 128
    start_token: Token | None = None
    end_token: Token | None = None


class DpoConfig(TaskConfig["Dpo"], tag="Dpo", builds=".preferences"):
    """Direct preference optimization (Rafailov et al. 2023): of pairs of answers the model prefers the chosen one.

    The reference is the model with its adapters off, or with its first weights (`reference: kept`). Lines of metrics
    have `rewards_chosen`, `rewards_rejected`, `margins` and `accuracies` as TRL has them.

    Attributes:
        beta: how near the model stays to the reference.
        loss: `sigmoid`, `hinge` (Liu et al. 2023) or `ipo` (Azar et al. 2023, of means over the tokens).
        label_smoothing: the share of pairs whose order may be wrong, of `sigmoid` (Mitchell 2023).
        length_normalized: whether log-probabilities are means over the tokens of an answer, not sums.
        sft_weight: weight of the cross-entropy of the chosen answers, which is added (Pang et al. 2024).
        reference: `computed` for each batch, by the model with its adapters off; or `kept`: computed once before the
            training, and kept in the run, also of a model that is trained whole.
    """

    head = "CausalLM"
    beta: Positive = 0.1
    loss: Literal["sigmoid", "hinge", "ipo"] = "sigmoid"
    label_smoothing: Annotated[float, Meta(ge=0, lt=0.5)] = 0.0
    length_normalized: bool = False
    sft_weight: NotNegative = 0.0
    reference: Literal["computed", "kept"] = "computed"

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.label_smoothing and self.loss != "sigmoid":
            yield "label_smoothing", f"is of the loss sigmoid, and this is {self.loss}; leave it out"


class KtoConfig(TaskConfig["Kto"], tag="Kto", builds=".preferences"):
    """Kahneman-Tversky optimization (Ethayarajh et al. 2024): single answers, of which some are desirable.

    Pairs of answers count as a desirable and an undesirable one. Lines of metrics have `kl`, `rewards_chosen`,
    `rewards_rejected` and `margins` as TRL has them.

    Attributes:
        beta: how near the model stays to the reference.
        loss: `kto`, or `apo_zero_unpaired` (D'Oosterlinck et al. 2024), without the divergence from the reference.
        desirable_weight: weight of the losses of desirable answers.
        undesirable_weight: of the others.
        reference: as of `Dpo`; `kept` is for `apo_zero_unpaired`.
    """

    head = "CausalLM"
    beta: Positive = 0.1
    loss: Literal["kto", "apo_zero_unpaired"] = "kto"
    desirable_weight: NotNegative = 1.0
    undesirable_weight: NotNegative = 1.0
    reference: Literal["computed", "kept"] = "computed"

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.reference == "kept" and self.loss == "kto":
            yield "reference", "expected computed for the loss kto, whose prompts get other answers in each batch"
        if not (self.desirable_weight or self.undesirable_weight):
            yield "desirable_weight", "expected a weight above 0"


class OrpoConfig(TaskConfig["Orpo"], tag="Orpo", builds=".preferences"):
    """Odds ratio preference optimization (Hong et al. 2024): fine-tuning and preferences at once, without a reference.

    Attributes:
        weight: of the odds ratio beside the cross-entropy of the chosen answers, lambda in the paper.
    """

    head = "CausalLM"
    weight: NotNegative = 0.1


class SimPoConfig(TaskConfig["SimPo"], tag="SimPo", builds=".preferences"):
    """Simple preference optimization (Meng et al. 2024): means of log-probabilities, without a reference.

    Attributes:
        beta: their scale.
        gamma: by how much the chosen answer is to be ahead.
        sft_weight: weight of the cross-entropy of the chosen answers, which is added.
    """

    head = "CausalLM"
    beta: Positive = 2.0
    gamma: NotNegative = 0.5
    sft_weight: NotNegative = 0.0


class RewardConfig(TaskConfig["Reward"], tag="Reward", builds=".preferences"):
    """A reward model (Bradley and Terry 1952; Ouyang et al. 2022): one number for a conversation, larger for the chosen
    answer by the `margin` of the row at least (Touvron et al. 2023, eq. 2).

    Attributes:
        centered: weight of the square of the sum of a pair's rewards, which keeps them around 0 (Eisenstein et al.
            2023).
    """

    head = "SequenceClassification"
    centered: NotNegative = 0.0


PREFERENCES = (DpoConfig, KtoConfig, OrpoConfig, SimPoConfig, RewardConfig)
"""Tasks of preferences."""


class ModelLossConfig(TaskConfig["ModelLoss"], tag="ModelLoss", builds=".supervised"):
    """Minimizes the model's output: a graph that ends in its loss, such as an autoencoder.

    Attributes:
        with_targets: whether the model gets the targets of a batch after its inputs.
    """

    with_targets: bool = False


class NetworksConfig(ModuleConfig["Networks"], tag="Networks", builds=".generative"):
    """Several modules by name, which a task calls: for `Adversarial` a generator and a discriminator, for
    `VariationalAutoencoder` an encoder and a decoder.

    Attributes:
        networks: the modules.
    """

    networks: Annotated[dict[str, ModuleConfig], NAMED]

    def part(self, name: str) -> tuple[str, ModuleConfig] | None:
        network = self.networks.get(name)
        return None if network is None else (f"networks.{name}", network)

    def validate(self) -> Iterable[tuple[str, str]]:
        for name in self.networks:
            if message := name_problem(name):
                yield f"networks.{name}", message


class AdversarialConfig(TaskConfig["Adversarial"], tag="Adversarial", builds=".generative"):
    """A generator against a discriminator (Goodfellow et al. 2014), which take turns; the model is `Networks`.

    The optimizer has a group for each: `type: OptimizerGroups`.

    Attributes:
        latent: shape of the noise that the generator makes an item of.
        n_critic: steps of the discriminator for each step of the generator.
        loss: `logistic`, which does not saturate; `hinge` (Lim & Ye 2017); or `wasserstein` (Arjovsky et al. 2017).
        gradient_penalty: weight of (|gradient| - 1)^2 between true and made items (Gulrajani et al. 2017); 0 for none.
        generator: name of the network that makes items.
        discriminator: name of the network that gives a number for each item, a logit or a score.
        samples: how many items are drawn at the end, into `samples/` of the run.
    """

    latent: Annotated[tuple[Size, ...], Meta(min_length=1)] = (64,)
    n_critic: Count = 1
    loss: Literal["logistic", "hinge", "wasserstein"] = "logistic"
    gradient_penalty: NotNegative = 0.0
    generator: Annotated[str, Meta(min_length=1)] = "generator"
    discriminator: Annotated[str, Meta(min_length=1)] = "discriminator"
    samples: Samples = 64


class VariationalAutoencoderConfig(
    TaskConfig["VariationalAutoencoder"], tag="VariationalAutoencoder", builds=".generative"
):
    """An encoder to latent vectors, and a decoder back (Kingma & Welling 2014); the model is `Networks`.

    Attributes:
        latent: size of the latent vector; the encoder gives twice as many numbers, means and logarithms of variances.
        beta: weight of the divergence of the latent vectors from normal noise (Higgins et al. 2017).
        reconstruction: `bernoulli`: the decoder gives logits of numbers in 0..1; `gaussian`: the numbers themselves,
            with a variance of 1.
        encoder: name of the network that encodes.
        decoder: name of the network that decodes.
        samples: how many items are drawn at the end, into `samples/` of the run.
    """

    latent: Size
    beta: NotNegative = 1.0
    reconstruction: Literal["bernoulli", "gaussian"] = "bernoulli"
    encoder: Annotated[str, Meta(min_length=1)] = "encoder"
    decoder: Annotated[str, Meta(min_length=1)] = "decoder"
    samples: Samples = 64


class LoraFineTuningConfig(TaskConfig["LoraFineTuning"], tag="LoraFineTuning", builds=".task"):
    """Trains small matrices beside the weights of a model that stay as they are (Hu et al. 2021).

    Attributes:
        task: what the model is trained for.
        lora: the matrices, and which weights get some.
        merge: write the model at the end with the matrices added to its weights; else as they are, beside them.
    """

    task: TaskConfig
    lora: LoraConfig
    merge: bool = False

    @property
    def head(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.task.head


def task_within(task: TaskConfig) -> TaskConfig:
    """The task that a model is trained for, with or without adapters."""
    return task_within(task.task) if isinstance(task, LoraFineTuningConfig) else task
