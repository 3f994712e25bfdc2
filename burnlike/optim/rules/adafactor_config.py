"""Config of Adafactor."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...config.bounds import Finite
from .module_optimizer_config import ModuleOptimizerConfig

if TYPE_CHECKING:
    from .adafactor import Adafactor


class AdafactorConfig(ModuleOptimizerConfig, tag="Adafactor"):
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
        """Burn's rules, in Burn's words."""
        for name in ("epsilon_1", "epsilon_2", "clip_threshold"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                yield name, f"Adafactor {name} must be positive and finite, got {value}"
        if not (self.decay_rate < 0 and math.isfinite(self.decay_rate)):
            yield "decay_rate", f"Adafactor decay_rate must be negative and finite, got {self.decay_rate}"
        if not (self.weight_decay >= 0 and math.isfinite(self.weight_decay)):
            yield "weight_decay", f"Adafactor weight_decay must be nonnegative and finite, got {self.weight_decay}"
        yield from ModuleOptimizerConfig.validate(self)

    def build(self) -> "Adafactor":
        """The bare formula, without clipping."""
        from .adafactor import Adafactor

        return Adafactor(self)
