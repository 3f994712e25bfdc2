"""The configs of all rules. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from ...config import Meta
from ...config.bounds import CountOrZero, Finite, NotNegative, Positive, at_most
from .config_base import AdaptiveMomentumConfig, ModuleOptimizerConfig, MomentumConfig, StateDtype

if TYPE_CHECKING:
    from .adafactor import Adafactor
    from .adagrad import AdaGrad
    from .adam import Adam, AdamW
    from .adan import Adan
    from .lamb import Lamb
    from .lion import Lion
    from .muon import Muon
    from .rmsprop import RmsProp
    from .schedule_free_adamw import ScheduleFreeAdamW
    from .sgd import Sgd

Exponent = Annotated[float, Meta(ge=0), at_most(16, "powers of the step numbers of a long run overflow")]


class SgdConfig(ModuleOptimizerConfig["Sgd"], tag="Sgd", builds=".sgd"):
    """Stochastic gradient descent, with or without momentum.

    Attributes:
        weight_decay: times the parameter is added to the gradient.
        momentum: None for none.
        velocity: the precision that velocities are kept in.
    """

    weight_decay: NotNegative = 0.0
    momentum: MomentumConfig | None = None
    velocity: StateDtype = "auto"
    has_kernel: ClassVar[bool] = True


class AdamConfig(AdaptiveMomentumConfig["Adam"], tag="Adam", builds=".adam"):
    """Adaptive moments (Kingma & Ba 2015); defaults are Burn's, not torch's.

    Attributes:
        weight_decay: times the parameter is added to the gradient; for decoupled decay take AdamW.
    """

    weight_decay: NotNegative = 0.0


class AdamWConfig(AdaptiveMomentumConfig["AdamW"], tag="AdamW", builds=".adam"):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019); defaults are Burn's, not torch's.

    Attributes:
        weight_decay: decoupled decay (torch: 1e-2).
        cautious_weight_decay: decay only where parameter and first moment have the same sign.
    """

    weight_decay: NotNegative = 1e-4
    cautious_weight_decay: bool = False


class ScheduleFreeAdamWConfig(
    ModuleOptimizerConfig["ScheduleFreeAdamW"], tag="ScheduleFreeAdamW", builds=".schedule_free_adamw"
):
    """AdamW with an average of weights in place of a schedule (Defazio et al. 2024); use it with a constant rate.

    The module holds the weights to train with; evaluate and save within `optimizer.eval_weights(module)`.

    Attributes:
        beta_1: how far the weights to train with are towards the average.
        beta_2: decay of the second moment.
        epsilon: added to the root of the second moment.
        weight_decay: decay of the weights to train with.
        warmup_steps: steps over which the rate rises linearly.
        r: the weight of step t in the average has the factor t^r.
        weight_lr_power: and the factor lr^weight_lr_power, with the largest rate so far.
    """

    beta_1: Annotated[float, Meta(gt=0, lt=1)] = 0.9
    beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    epsilon: Positive = 1e-8
    weight_decay: NotNegative = 0.0
    warmup_steps: CountOrZero = 0
    r: Exponent = 0.0
    weight_lr_power: Exponent = 2.0


class AdaGradConfig(ModuleOptimizerConfig["AdaGrad"], tag="AdaGrad", builds=".adagrad"):
    """Adaptive gradients (Duchi et al. 2011); defaults are Burn's, not torch's.

    Attributes:
        lr_decay: the rate of step t, from 1, is lr / (1 + (t - 1) * lr_decay).
        epsilon: added to the root of the sum of squares (torch: 1e-10).
        weight_decay: added to the gradient as weight_decay * parameter.
    """

    lr_decay: NotNegative = 0.0
    epsilon: Positive = 1e-5
    weight_decay: NotNegative = 0.0


class RmsPropConfig(ModuleOptimizerConfig["RmsProp"], tag="RmsProp", builds=".rmsprop"):
    """Gradients divided by the root of their mean square (Hinton 2012); defaults are Burn's, not torch's.

    Attributes:
        alpha: decay of the mean square.
        momentum: of the divided gradients; 0 is without (torch: 0).
        epsilon: added to the root (torch: 1e-8).
        centered: divide by the standard deviation instead (Graves 2013, equations 38 to 45).
        weight_decay: added to the gradient as weight_decay * parameter.
    """

    alpha: Annotated[float, Meta(ge=0, lt=1)] = 0.99
    momentum: NotNegative = 0.9
    epsilon: Positive = 1e-5
    centered: bool = False
    weight_decay: NotNegative = 0.0


class AdanConfig(ModuleOptimizerConfig["Adan"], tag="Adan", builds=".adan"):
    """Adaptive Nesterov momentum (Xie et al. 2022); defaults are Burn's.

    The betas are what the old value is multiplied by, one minus those of the paper.

    Attributes:
        beta_1: decay of the mean gradient.
        beta_2: decay of the mean difference of gradients.
        beta_3: decay of the mean square.
        epsilon: added to the root of the mean square.
        weight_decay: decoupled decay.
        no_prox: decay by the factor 1 - lr * weight_decay before the step, in place of 1 / (1 + lr * weight_decay)
            after it.
    """

    beta_1: Annotated[float, Meta(ge=0, lt=1)] = 0.98
    beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.92
    beta_3: Annotated[float, Meta(ge=0, lt=1)] = 0.99
    epsilon: Positive = 1e-8
    weight_decay: NotNegative = 0.0
    no_prox: bool = False


class LionConfig(ModuleOptimizerConfig["Lion"], tag="Lion", builds=".lion"):
    """Steps by the sign of a moment (Chen et al. 2023); rates are 3 to 10 times smaller than those of AdamW.

    Attributes:
        beta_1: weight of the moment in the direction of a step.
        beta_2: decay of the moment.
        weight_decay: decoupled decay.
        moment: the precision that moments are kept in.
    """

    beta_1: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.99
    weight_decay: NotNegative = 0.0
    moment: StateDtype = "auto"
    has_kernel: ClassVar[bool] = True


class LambConfig(ModuleOptimizerConfig["Lamb"], tag="Lamb", builds=".lamb"):
    """Layer-wise adaptive moments for large batches (You et al. 2020); defaults are Burn's.

    Attributes:
        beta_1: decay of the first moment.
        beta_2: decay of the second moment.
        epsilon: added to the root of the second moment.
        weight_decay: decay, a part of what the trust ratio scales.
        use_trust_ratio: scale the update of each tensor to the norm of the tensor.
    """

    beta_1: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    epsilon: Positive = 1e-6
    weight_decay: NotNegative = 0.0
    use_trust_ratio: bool = True


class AdafactorConfig(ModuleOptimizerConfig["Adafactor"], tag="Adafactor", builds=".adafactor"):
    """Second moments kept as a mean for each row and each column (Shazeer & Stern 2018); defaults are Burn's.

    Attributes:
        epsilon_1: added to the squares of gradients.
        epsilon_2: the least root mean square of a parameter that its update is scaled by.
        clip_threshold: the largest root mean square of an update before the rate.
        decay_rate: in step t, from 1, the new squares have the weight t^decay_rate.
        relative_step: the rate is at most 1 / sqrt(t).
        scale_parameter: scale the update by the root mean square of the parameter.
        weight_decay: decoupled decay, by the rate that was given.
    """

    epsilon_1: Finite = 1e-30
    epsilon_2: Finite = 1e-3
    clip_threshold: Finite = 1.0
    decay_rate: Finite = -0.8
    relative_step: bool = True
    scale_parameter: bool = True
    weight_decay: Finite = 0.0

    def validate(self) -> Iterable[tuple[str, str]]:
        for name in ("epsilon_1", "epsilon_2", "clip_threshold"):
            if not (value := getattr(self, name)) > 0:
                yield name, f"Adafactor {name} must be positive and finite, got {value}"
        if not self.decay_rate < 0:
            yield "decay_rate", f"Adafactor decay_rate must be negative and finite, got {self.decay_rate}"
        if not self.weight_decay >= 0:
            yield "weight_decay", f"Adafactor weight_decay must be nonnegative and finite, got {self.weight_decay}"
        yield from ModuleOptimizerConfig.validate(self)


class MuonConfig(ModuleOptimizerConfig["Muon"], tag="Muon", builds=".muon"):
    """Momentum orthogonalized by Newton-Schulz iterations, for the matrices of hidden layers (Jordan et al. 2024).

    It takes parameters of two dimensions only. Leave the others, and as a rule embeddings and the last layer, to
    another one:

        AdamWConfig(groups=(OptimizerGroupConfig(params=ParamGroup.from_regex(r"^blocks.*weight$"),
                                                 optimizer=MuonConfig()),))

    Attributes:
        weight_decay: decoupled decay, by the rate that was given, not the adjusted one (torch: 0.1).
        momentum: of the gradients; the defaults are Muon's, not those of Sgd.
        ns_coefficients: a, b and c of X <- a X + (b A + c A A) X, where A = X X^T.
        epsilon: least norm that a matrix is divided by before the iterations.
        ns_steps: iterations.
        adjust_lr_fn: what the rate is multiplied by. `Original`: sqrt(max(1, rows / columns)) of the matrix as it is
            stored. That is torch.optim.Muon on torch's Linear, `[d_output, d_input]`, and Burn on burnlike's,
            `[d_input, d_output]`: the opposite. `OriginalTransposed`: sqrt(max(1, columns / rows)), which on burnlike's
            Linear is what torch.optim.Muon does on torch's. `MatchRmsAdamW`: 0.2 sqrt(max(rows, columns)), in either
            orientation, for rates and decay that suit AdamW (Liu et al. 2025, "Muon is Scalable for LLM Training").
        ns_dtype: precision of the iterations. None is that of the parameter, float32 for halves, as in Burn;
            `bfloat16`, as in torch.optim.Muon, is faster where the hardware multiplies in it, and good to 2 or 3
            digits.
    """

    weight_decay: NotNegative = 0.0
    momentum: MomentumConfig = MomentumConfig(momentum=0.95, dampening=0.0, nesterov=True)
    ns_coefficients: tuple[Finite, Finite, Finite] = (3.4445, -4.775, 2.0315)
    epsilon: Positive = 1e-7
    ns_steps: Annotated[int, Meta(ge=1, lt=100)] = 5
    adjust_lr_fn: Literal["Original", "OriginalTransposed", "MatchRmsAdamW"] = "Original"
    ns_dtype: Literal["bfloat16"] | None = None
