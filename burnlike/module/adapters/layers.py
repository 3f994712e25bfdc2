"""Low-rank adapters (Hu et al. 2021, arXiv:2106.09685), and weight normalization, as reparameterizations."""

from typing import TypeVar, get_args

import torch
from torch import Tensor, nn

from ..._dtypes import FloatName
from ..._torch_compat.modules import CALL_HOOKS
from ...errors import ArgumentError, ModuleTreeError
from ..torch_objects.wrappers import own_class, parametrizations_of
from ..tree.paths import listed
from .configs import LoraConfig
from .reparameterization import Reparameterization, attach, candidates

M = TypeVar("M", bound=nn.Module)

_COMPUTED_IN = [getattr(torch, name) for name in get_args(FloatName)]


class Lora(Reparameterization):
    """weight + alpha / rank * a @ b, in the element type of `a` and `b`.

    Attributes:
        a: `[weight.shape[0], rank]`, drawn from N(0, init_std).
        b: `[rank, weight.shape[1]]`, zeros, so that a new adapter changes nothing.
        scale: alpha / rank.
    """

    reparameterization_name = "lora"

    def __init__(self, config: LoraConfig, weight: Tensor) -> None:
        """For `weight`, `[d_0, d_1]` in whatever layout; of it, only shape, element type and device are looked at."""
        super().__init__()
        own = weight.dtype if weight.dtype in _COMPUTED_IN else torch.get_default_dtype()
        dtype = own if config.dtype is None else getattr(torch, config.dtype)
        std = 1 / config.rank if config.init_std is None else config.init_std
        first, second = weight.shape
        self.a = nn.Parameter(torch.empty(first, config.rank, dtype=dtype, device=weight.device).normal_(0, std))
        self.b = nn.Parameter(torch.zeros(config.rank, second, dtype=dtype, device=weight.device))
        self.scale = config.alpha / config.rank

    def forward(self, base: Tensor) -> Tensor:
        return torch.addmm(base.to(self.a.dtype), self.a, self.b, alpha=self.scale)

    def delta(self) -> Tensor:
        return self.scale * (self.a @ self.b)


def adapter_of(module: nn.Module, name: str) -> tuple[Lora, Tensor] | None:
    """The `Lora` of the parameter `name` and the base it is added to, for layers that need not make their sum.

    None if there is none, if another parametrization lies above it, or if hooks are to see the sum.
    """
    list_of = parametrizations_of(module).get(name)
    if list_of is None or len(list_of._modules) != 1:
        return None
    lora = list_of._modules["0"]
    if type(lora) is not Lora or any(getattr(part, hooks) for part in (list_of, lora) for hooks in CALL_HOOKS):
        return None
    return lora, list_of.original


def apply_lora(module: M, config: LoraConfig) -> M:
    """Freeze `module` and add trainable adapters to its matrices, in place; returns the module.

    Every parameter is frozen, but those of reparameterizations from an earlier call. Each floating-point parameter of
    rank 2 in `config.param_group` (weights of linear layers and embeddings, in any layout) gets a `Lora`, whose factors
    are the parameters `<path>.lora.a` and `<path>.lora.b`. Nothing in the code of the module changes: it reads the
    effective weight. A tied weight has one adapter, which applies at all its places. Call it before the module is
    sharded or wrapped by DDP.

    Raises:
        ModuleTreeError: no matrix is in the group, one has an adapter already, or the module can't be changed any more.
            The module is as it was.
        ParamPathError: the group names a path that the module does not have. The module is as it was.
    """
    found = [param for param in candidates(module) if param.tensor.dim() == 2 and param.tensor.is_floating_point()]
    chosen = {param.id for param in config.param_group.select(module)}
    matrices = [param for param in found if param.id in chosen]
    if not matrices:
        raise ModuleTreeError(
            f"no parameter of {own_class(module).__name__} gets an adapter: expected floating-point ones of rank 2 in"
            f" {config.param_group}; of rank 2 there are {listed([param.path for param in found])}. The module is as it"
            " was"
        )
    attach([(param, Lora(config, param.tensor)) for param in matrices])
    for param in candidates(module):
        param.set_require_grad(False)
    return module


class WeightNorm(Reparameterization):
    """weight * g / |weight| (Salimans & Kingma 2016, arXiv:1602.07868, eq. 2): the magnitude is `g`.

    Made of a weight, it starts with that weight's magnitudes, so that applying it changes nothing:
    `apply_reparameterization(model, lambda param: WeightNorm(param.base(), 1) if param.tensor.dim() > 1 else None)`.

    Attributes:
        g: `[weight.shape[dim]]`, the Euclidean norm of each slice along `dim`.
        dim: the dimension that counts the vectors of which each is normalized: that of the layer's outputs, 1 of
            `burnlike.nn.Linear` and 0 of `torch.nn.Linear`.
    """

    reparameterization_name = "weight_norm"

    def __init__(self, weight: Tensor, dim: int = 1) -> None:
        """For `weight`, of any rank above 1; ArgumentError if it has no dimension `dim`."""
        super().__init__()
        if not 0 <= dim < weight.dim():
            raise ArgumentError(f"expected dim to be one of the {weight.dim()} dimensions of the weight, got {dim}")
        self.dim = dim
        self.g = nn.Parameter(self._norm(weight.detach()).flatten())

    def forward(self, base: Tensor) -> Tensor:
        norm = self._norm(base)
        return base * (self.g.view(norm.shape) / norm)

    def _norm(self, weight: Tensor) -> Tensor:
        others = [dim for dim in range(weight.dim()) if dim != self.dim]
        return torch.linalg.vector_norm(weight, dim=others, keepdim=True)
