"""Cases of linear layers."""

from burnlike import nn

from . import Case, floats

CASES = [
    Case("Linear", nn.LinearConfig(d_input=4, d_output=3), lambda: (floats(2, 5, 4),), bad_shapes=((2, 5),)),
    Case("Linear/no_bias", nn.LinearConfig(d_input=4, d_output=3, bias=False), lambda: (floats(2, 4),)),
    Case("Linear/col", nn.LinearConfig(d_input=4, d_output=3, layout="col"), lambda: (floats(4),)),
    Case("Identity", nn.IdentityConfig(), lambda: (floats(2, 4),)),
]
