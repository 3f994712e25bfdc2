"""StateDtype: the precision in which a moment of an optimizer is kept."""

from typing import Literal

StateDtype = Literal["auto", "float32", "bfloat16", "blockwise8"]
"""How a moment is kept between the steps; all is computed in float32 or more whatever it is.

- auto: in the dtype of the parameter, and at least in float32.
- float32: 4 bytes a value, for float64 parameters too.
- bfloat16: 2 bytes a value. With decay factors above about 0.99 changes are smaller than what bfloat16 can tell apart:
  turn on `stochastic_rounding`, or a moment stays where it is.
- blockwise8: a byte a value and a float32 scale for each 256 (see `burnlike.ops.blockwise`); parameters of less than
  4096 values, which would save nothing worth it, are kept as by auto. Not under `fully_shard`.

A state that was loaded stays in the precision that it was saved in.
"""
