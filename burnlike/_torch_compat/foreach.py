"""torch's operations over lists of tensors, under names without the underscore that torch gives them.

`torch.optim` is written with them; they take lists of tensors and numbers, and where it says so a list of numbers.
On a GPU one call is a few kernels for all tensors. Without them, update rules would loop over the tensors, which takes
several times as long for models of many small ones.
"""

from typing import Any

import torch

_torch: Any = torch

add, add_ = _torch._foreach_add, _torch._foreach_add_
addcdiv_ = _torch._foreach_addcdiv_
addcmul, addcmul_ = _torch._foreach_addcmul, _torch._foreach_addcmul_
clamp_max_ = _torch._foreach_clamp_max_
clamp_min, clamp_min_ = _torch._foreach_clamp_min, _torch._foreach_clamp_min_
copy_ = _torch._foreach_copy_
div, div_ = _torch._foreach_div, _torch._foreach_div_
lerp_ = _torch._foreach_lerp_
mul, mul_ = _torch._foreach_mul, _torch._foreach_mul_
neg_ = _torch._foreach_neg_
rsqrt = _torch._foreach_rsqrt
sqrt = _torch._foreach_sqrt
sub_ = _torch._foreach_sub_
zero_ = _torch._foreach_zero_
