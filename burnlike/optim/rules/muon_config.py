"""Config of Muon."""

from typing import TYPE_CHECKING, Annotated, Literal

from ...config import Meta
from ...config.bounds import Finite, NotNegative, Positive
from .module_optimizer_config import ModuleOptimizerConfig
from .momentum_config import MomentumConfig

if TYPE_CHECKING:
    from .muon import Muon


class MuonConfig(ModuleOptimizerConfig, tag="Muon"):
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

    def build(self) -> "Muon":
        """The bare formula, without clipping."""
        from .muon import Muon

        return Muon(self)
