"""Cases of the optimizers' steps."""

from ..step_cases import STEP_CASES as CASES

__all__ = ["CASES"]
