"""Which id each tensor of a tree has: the one it had, whatever happened to the tree; a new one where it had none."""

import hashlib

from torch import nn

from ..errors import DuplicateParamIdError
from .param import Param
from .param_id import ParamId
from .slots import meta_of, set_meta, shape_text, stored_ids
from .tree import slots_of
from .wrappers import own_class, unwrap


class Identities:
    """The decisions of one traversal. Until `keep`, the modules are as they were.

    Every place of a tied tensor keeps the tensor's id, so that it has one id from whichever part of the tree, and in
    whatever order, it is reached. The later places are marked: once one of them holds a tensor of its own, that gets
    an id of its own.

    Attributes:
        known: the Params met, by the number of their id.
    """

    def __init__(self, root: nn.Module) -> None:
        self.known: dict[int, Param] = {}
        self._root = root
        self._tree = ""
        self._drawn: set[ParamId] = set()
        self._decided: list[tuple[nn.Module, str, ParamId, bool]] = []

    def settle(self, param_id: ParamId | None, path: str, module: nn.Module, name: str) -> ParamId:
        """The id of a tensor that has none yet, or one that another tensor of the tree has.

        Raises:
            DuplicateParamIdError: neither of the two tensors was tied to the other.
        """
        if param_id is not None and not meta_of(module, name).tied:
            other = self.known[param_id.value]
            if not meta_of(*other.home).tied:
                raise DuplicateParamIdError(
                    f"'{other.path}' and '{path}' are different tensors with one ParamId ({param_id}), as a deep copy"
                    " of a layer has; call burnlike.module.fresh_ids(copy) on the copied part"
                )
            self._change(other, self._draw(other.path))
            return param_id
        drawn = self._draw(path)
        self._decided.append((module, name, drawn, False))
        return drawn

    def tie(self, param: Param, path: str, module: nn.Module, name: str) -> None:
        """Note that the tensor of `param` is at `path` too, where `module` keeps an id for `name`.

        Raises:
            DuplicateParamIdError: the program gave the two places different ids.
        """
        here = module.__dict__.get("_burnlike_ids", {}).get(name)
        if here == param.id:
            return
        if here is not None and here.value not in self.known:
            given_here, given_there = meta_of(module, name).own_id, meta_of(*param.home).own_id
            if given_here and given_there:
                raise DuplicateParamIdError(
                    f"'{param.path}' and '{path}' are one tensor that was given two ids, {param.id} and {here};"
                    " give it one, or hold two tensors"
                )
            if given_here or param.id in self._drawn:
                self._change(param, here)
                return
        self._decided.append((module, name, param.id, True))

    def keep(self) -> None:
        """Write the decisions to the modules."""
        for module, name, param_id, tied in self._decided:
            stored_ids(module)[name] = param_id
            if meta_of(module, name).tied != tied:
                set_meta(module, name, tied=tied)

    def _change(self, param: Param, param_id: ParamId) -> None:
        if self.known.get(param.id.value) is param:
            del self.known[param.id.value]
        param.id = param_id
        self.known[param_id.value] = param
        self._decided.append((*param.home, param_id, False))

    def _draw(self, path: str) -> ParamId:
        self._tree = self._tree or fingerprint_of_tree(self._root)
        drawn = ParamId.new(f"{self._tree}/{path}")
        self._drawn.add(drawn)
        return drawn


def fingerprint_of_tree(root: nn.Module) -> str:
    """What tells `root` from the other models of a program: its class, or what it holds if the class is torch's."""
    cls = own_class(unwrap(root))
    if not cls.__module__.startswith("torch.nn"):
        return cls.__qualname__
    held = "\n".join(f"{slot.path} {shape_text(slot.tensor)}" for slot in slots_of(root))
    # Short, as it becomes a part of the fingerprint of each tensor.
    return f"{cls.__qualname__} {hashlib.blake2b(held.encode(), digest_size=16).hexdigest()}"
