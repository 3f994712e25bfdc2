"""The public names of `burnlike.func`: each is imported from where it is defined, at its first use."""

from ..mlax.module import register_pytree as register_pytree
from ..mlax.tensor_leaves import restore_parameters as restore_parameters
from .gradients import by_id as by_id, fwd as fwd, grad as grad, value_and_grad as value_and_grad
from .vectorized import stack as stack, unstack as unstack, vmap as vmap
