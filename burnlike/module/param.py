"""Param, the handle through which visitors, records and optimizers see one tensor of a module tree."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import AutodiffError, DTypeError
from .lazy import Init, LazyCell, LazyParameter, initialize_param, is_lazy
from .param_id import ParamId
from .slots import Mapper, meta_of, set_meta, stored_ids

Kind = Literal["weight", "state"]


class Param:
    """One parameter or persistent buffer of a module tree, or one that no module has yet.

    The handle holds no tensor: it reads the module each time, so it stays right when the tensor is replaced. One that
    is made by `from_tensor`, `from_data`, `uninitialized` or `running` waits to become a module's: assign it to an
    attribute of a `burnlike.Module`, where `module.name` then is the torch parameter or buffer itself.

    Attributes:
        id: the identity, kept when the tensor is replaced.
        path: canonical dotted path, without the names that wrappers put in (`_orig_mod`, DDP's `module`).
        kind: `weight` for an `nn.Parameter`, `state` for a persistent buffer (running statistics, whole numbers).
        owners: each (module, attribute name) that holds this tensor, the first one first.
        aliases: the other canonical paths of a tied tensor.
    """

    __slots__ = ("aliases", "home", "id", "kind", "owners", "path")

    def __init__(
        self,
        param_id: ParamId,
        path: str,
        kind: Kind,
        owners: tuple[tuple[nn.Module, str], ...],
        aliases: tuple[str, ...] = (),
        home: tuple[nn.Module, str] | None = None,
    ) -> None:
        """For the traversals; `home` is where id and intent are kept, by default the first owner."""
        self.id = param_id
        self.path = path
        self.kind: Kind = kind
        self.owners = owners
        self.aliases = aliases
        self.home = owners[0] if home is None else home

    @classmethod
    def from_tensor(
        cls, tensor: Tensor, *, trainable: bool | None = None, name: str | None = None, id: ParamId | None = None
    ) -> "Param":
        """A parameter that holds `tensor`.

        Args:
            tensor: its values. An `nn.Parameter` is taken as it is; whole numbers and bools become a `state`.
            trainable: whether it is optimized; None is the flag of an `nn.Parameter`, and True for other floats.
            name: a label for predicates.
            id: its identity; None draws one.

        Raises:
            AutodiffError: the tensor was computed from others that require grad.
            DTypeError: whole numbers or bools are to be trainable.
        """
        if not tensor.is_leaf:
            raise AutodiffError("a parameter can't hold a tensor that was computed from others: give tensor.detach()")
        differentiable = tensor.is_floating_point() or tensor.is_complex()
        if trainable and not differentiable:
            raise DTypeError(f"a parameter of {tensor.dtype} can't be trainable: use trainable=False, or floats")
        holder = nn.Module()
        if not differentiable:
            holder.register_buffer("value", tensor)
        elif isinstance(tensor, nn.Parameter):
            holder.register_parameter("value", tensor)
            if trainable is not None:
                tensor.requires_grad_(trainable)
        else:
            flag = True if trainable is None else trainable
            holder.register_parameter("value", nn.Parameter(tensor.detach(), requires_grad=flag))
        return cls._held(holder, "weight" if differentiable else "state", name, id)

    @classmethod
    def from_data(cls, data: Any, device: torch.device | str | None = None, **options: Any) -> "Param":
        """As `from_tensor`, from numbers in lists, NumPy arrays or TensorData; copies them."""
        values = data.into_tensor() if hasattr(data, "into_tensor") else torch.tensor(data)
        return cls.from_tensor(values.to(device) if device is not None else values, **options)

    @classmethod
    def uninitialized(
        cls,
        init: Init,
        shape: Sequence[int],
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        requires_grad: bool = True,
        name: str | None = None,
        id: ParamId | None = None,
    ) -> "Param":
        """A lazy parameter: `init(device)` runs once, at its first use, or never if values are loaded before.

        Args:
            init: makes the values, of `shape`.
            shape: known at once: `param.tensor.shape` and optimizers read it without initializing.
            device: where the values will be.
            dtype: of the values; None is torch's default.
            requires_grad: whether it is optimized.
            name: a label for predicates.
            id: its identity; None draws one.
        """
        target = torch.get_default_device() if device is None else torch.device(device)
        holder = nn.Module()
        cell = LazyCell(init, shape)
        lazy = LazyParameter(cell, target, dtype or torch.get_default_dtype(), requires_grad)
        holder.register_parameter("value", lazy)
        return cls._held(holder, "weight", name, id)

    @classmethod
    def running(cls, tensor: Tensor, *, name: str | None = None, id: ParamId | None = None) -> "Param":
        """A running statistic: saved and loaded, never optimized (Burn's RunningState)."""
        holder = nn.Module()
        holder.register_buffer("value", tensor.detach())
        return cls._held(holder, "state", name, id)

    @classmethod
    def _held(cls, holder: nn.Module, kind: Kind, name: str | None, param_id: ParamId | None) -> "Param":
        set_meta(holder, "value", name=name, own_id=param_id is not None)
        stored_ids(holder)["value"] = param_id or ParamId.new("Param")
        return cls(stored_ids(holder)["value"], "", kind, ((holder, "value"),))

    @classmethod
    def of(cls, module: nn.Module, name: str, kind: Kind) -> "Param":
        """A parameter of its own that shares tensor, id and all else with the field `name` of `module`."""
        holder = nn.Module()
        tensors = (holder._parameters, module._parameters) if kind == "weight" else (holder._buffers, module._buffers)
        tensors[0]["value"] = tensors[1][name]
        stored_ids(holder)["value"] = stored_ids(module)[name]
        set_meta(holder, "value", meta_of(module, name))
        return cls(stored_ids(holder)["value"], name, kind, ((holder, "value"),))

    @property
    def tensor(self) -> Tensor:
        """The tensor as it is now; that of a lazy parameter initializes itself when torch computes with it."""
        module, name = self.owners[0]
        return (module._parameters if self.kind == "weight" else module._buffers)[name]  # pyright: ignore[reportReturnType]

    @property
    def name(self) -> str | None:
        """The label that the program gave."""
        return meta_of(*self.home).name

    @property
    def trainable(self) -> bool:
        """Whether an optimizer may change it: the intent, which stays while `valid()` has it not require grad."""
        if self.kind != "weight":
            return False
        intent = meta_of(*self.home).trainable
        if intent is not None:
            return intent
        tensor = self.tensor
        stood_for = None if isinstance(tensor, nn.Parameter) else meta_of(*self.owners[0]).stood_for
        return tensor.requires_grad if stood_for is None else stood_for

    @property
    def requires_grad(self) -> bool:
        """Whether autograd tracks it now."""
        return self.tensor.requires_grad

    def val(self) -> Tensor:
        """What the module computes with: initialized, and with a reparameterization such as LoRA applied."""
        initialize_param(self.tensor)
        module, name = self.home
        return self.tensor if self.home in self.owners else getattr(module, name)

    def base(self) -> Tensor:
        """The tensor itself, initialized, without a reparameterization."""
        initialize_param(self.tensor)
        return self.tensor

    def is_initialized(self) -> bool:
        """Whether it has values."""
        return not is_lazy(self.tensor)

    def load_mapper(self, mapper: Mapper | None) -> "Param":
        """Set what turns a record's form of the values into the module's; returns the handle."""
        return self._set(load_mapper=mapper)

    def save_mapper(self, mapper: Mapper | None) -> "Param":
        """Set what turns the module's form of the values into a record's; returns the handle."""
        return self._set(save_mapper=mapper)

    def with_name(self, name: str | None) -> "Param":
        """Set the label; returns the handle."""
        return self._set(name=name)

    def set_require_grad(self, require_grad: bool) -> "Param":
        """Set the intent and the present state; a `state` stays as it is. Returns the handle."""
        if self.kind == "weight":
            if require_grad and not (self.tensor.is_floating_point() or self.tensor.is_complex()):
                return self
            self.tensor.requires_grad_(require_grad)
            if meta_of(*self.home).trainable is not None:
                self._set(trainable=None)
        return self

    def assign(self, tensor: Tensor) -> None:
        """Put `tensor` in the place of the present one, at every path of a tied tensor; id and trainability stay."""
        if self.kind == "weight":
            replacement = nn.Parameter(tensor.detach(), requires_grad=self.requires_grad)
            for module, name in self.owners:
                module._parameters[name] = replacement
        else:
            for module, name in self.owners:
                module._buffers[name] = tensor.detach()

    def adopt(self, param_id: ParamId) -> None:
        """Give the parameter another id, that of the record it is loaded from."""
        module, name = self.home
        stored_ids(module)[name] = self.id = param_id

    def _set(self, **changes: object) -> "Param":
        set_meta(*self.home, None, **changes)
        return self

    def __repr__(self) -> str:
        tensor = self.tensor
        return (
            f"Param('{self.path}', {self.kind}, {list(tensor.shape)}, {tensor.dtype}, trainable={self.trainable},"
            f" id={self.id})"
        )
