"""Members: the parameters of a module in the groups of a TorchOptimizer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..errors import ConfigError
from ..module import Param, ParamGroup


@dataclass(frozen=True, slots=True)
class Members:
    """The parameters of the groups, as they were found in the module.

    Attributes:
        params: in the order of the groups.
        groups: the same by ids, for each of torch's groups that has any.
        by_tensor: `id()` of the tensor -> tensor and parameter. That the tensors are held keeps others from getting
            their addresses.
        found: all parameters of the module, the object that it gave.
    """

    params: Sequence[Param] = ()
    groups: tuple[ParamGroup, ...] = ()
    by_tensor: dict[int, tuple[Tensor, Param]] = field(default_factory=dict)
    found: Sequence[Param] | None = None

    def are_those_of(self, groups: Sequence[dict[str, Any]], found: Sequence[Param]) -> bool:
        """Whether neither the module nor the lists of the groups have changed."""
        return self.found is found and [*self.by_tensor] == [id(it) for group in groups for it in group["params"]]

    def found_again(self, groups: Sequence[dict[str, Any]], found: Sequence[Param]) -> "Members":
        """Put the parameters that the module has now into the groups: by object, else by id, else by path.

        Args:
            groups: of torch; their `params`, `param_names` and `param_ids` are changed. A parameter that the module
                no longer has is left out.
            found: the parameters of the module.

        Raises:
            ConfigError: a group has a tensor that never was the module's.
        """
        by_tensor = {id(param.tensor): param for param in found}
        by_id = {param.id: param for param in found}
        by_path = {param.path: param for param in found}
        params: list[Param] = []
        by_ids = []
        taken: set[int] = set()
        for group in groups:
            members = []
            for tensor in group["params"]:
                param = by_tensor.get(id(tensor))
                if param is None and self.found is not None:
                    before = self._before(tensor)
                    param = by_id.get(before.id) or by_path.get(before.path)
                if param is not None and id(param) not in taken:
                    taken.add(id(param))
                    members.append(param)
            group["params"] = [param.tensor for param in members]
            group["param_names"] = [param.path for param in members]
            group["param_ids"] = [str(param.id) for param in members]
            params += members
            if members:
                by_ids.append(ParamGroup.from_ids(group["param_ids"]))
        known = {id(param.tensor): (param.tensor, param) for param in params}
        return Members(params, tuple(by_ids), known, found)

    def _before(self, tensor: Tensor) -> Param:
        known = self.by_tensor.get(id(tensor))
        if known is None:
            raise ConfigError(
                f"TorchOptimizer: a tensor of shape {list(tensor.shape)} was put into a group, and it is no parameter"
                " of the module that the optimizer was made with"
            )
        return known[1]
