"""Modules as text, as Burn prints them."""

from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

from torch import Tensor, nn

from ...errors import ArgumentError, DuplicateParamIdError, ModuleTreeError
from ..attributes.plain_attributes import refresh_container
from ..identity.field_metadata import known_id, noting
from ..identity.param_id import ParamId
from ..torch_objects.wrappers import base_tensor, container_of, own_class, unwrap
from ..tree.param import Param
from ..tree.traversal import field_names, slots_of
from ..tree.walk import params
from .values import (
    count_params,
    debug_text,
    display_text,
    has_missing,
    missing_text,
    optional_fields,
    param_text,
    sequence_kind,
    shown_names,
    tensor_text,
    top_text,
    type_text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplaySettings:
    """The settings of `display`; None leaves one to the classes of the modules, then to the default.

    Attributes:
        show_param_id: the ParamId of each parameter; default False.
        show_all_attributes: every field, instead of the content that a class chose; default False.
        show_num_parameters: a line `params`, where there are any; default True.
        new_line_after_attribute: one attribute per line instead of all on one; default True.
        indentation_size: spaces per level; default 2.
    """

    show_param_id: bool | None = None
    show_all_attributes: bool | None = None
    show_num_parameters: bool | None = None
    new_line_after_attribute: bool | None = None
    indentation_size: int | None = None

    def __post_init__(self) -> None:
        if self.indentation_size is not None and self.indentation_size < 0:
            raise ArgumentError(f"DisplaySettings: expected indentation_size >= 0, got {self.indentation_size}")

    def inherit(self, outer: "DisplaySettings") -> "DisplaySettings":
        """These settings, but for what `outer` chooses."""
        chosen = {field.name: getattr(outer, field.name) for field in fields(outer)}
        return replace(self, **{name: value for name, value in chosen.items() if value is not None})


DEFAULTS = DisplaySettings(
    show_param_id=False,
    show_all_attributes=False,
    show_num_parameters=True,
    new_line_after_attribute=True,
    indentation_size=2,
)


def display(shown: nn.Module | Param, settings: DisplaySettings | None = None) -> str:
    """A module tree, or one Param, as text; wrappers (DDP, torch.compile) are looked through.

    Lazy parameters stay uninitialized, and no ids are drawn unless they are to be shown. A class chooses what is shown
    of it by `custom_settings`, over which `settings` win, and `custom_content`; otherwise it is every field but private
    constants.

    Example:
        >>> from burnlike.nn import LinearConfig
        >>> print(display(LinearConfig(d_input=3, d_output=2).init()))
        Linear {d_input: 3, d_output: 2, bias: true, params: 8}
    """
    passed = settings or DisplaySettings()
    if isinstance(shown, Param):
        return _Display(shown.owners[0][0]).handle_text(shown, passed, 1)
    return _Display(shown).module_text(shown, passed, 1)


class Content:
    """The content that is shown for one module; its `custom_content` fills and returns it.

    Attributes:
        settings: what holds for the module.
        attributes: names and texts, in order.
        single_item: a text that is shown alone, without the type.
        top_level_type: shown instead of the name of the class.
    """

    def __init__(self, shown: "_Display", module: nn.Module, settings: DisplaySettings, level: int) -> None:
        """For `display`; `level` is that of the attributes."""
        self.settings = settings
        self.attributes: list[tuple[str, str]] = []
        self.single_item: str | None = None
        self.top_level_type: str | None = None
        self._shown = shown
        self._module = module
        self._level = level

    def set_top_level_type(self, name: str) -> Self:
        self.top_level_type = name
        return self

    def add(self, name: str, value: Any) -> Self:
        """Show an attribute: a part of the tree as itself, a constant as a reader writes it (0.00001, 1, text)."""
        return self._add(name, self._text(value))

    def add_debug(self, name: str, value: Any) -> Self:
        """Show a constant so that types can be told apart: 1e-5, 1.0, "text".

        It is `Some(3)` where the class annotates a field of that name as `int | None`.
        """
        text = debug_text(value)
        optional = value is not None and name in optional_fields(own_class(self._module))
        return self._add(name, f"Some({text})" if optional else text)

    def add_single(self, value: Any) -> Self:
        """Show nothing but `value`; ArgumentError if there are attributes."""
        if self.attributes:
            raise ArgumentError("Content: a single item can't be added to attributes: choose one of them")
        self.single_item = self._text(value)
        return self

    def has(self, path: str) -> bool:
        return self._tensor_at(path) is not None

    def shape(self, path: str) -> list[int]:
        """The shape of the tensor at `path` below the module, or ModuleTreeError; computes and initializes nothing."""
        tensor = self._tensor_at(path)
        if tensor is None:
            raise ModuleTreeError(f"{type_text(self._module)} has no tensor '{path}'")
        return list(tensor.shape)

    def _tensor_at(self, path: str) -> Tensor | None:
        *children, name = path.split(".")
        module = self._module
        for child in children:
            module = unwrap(module._modules[child])  # pyright: ignore[reportArgumentType]
        return base_tensor(module, name)

    def _add(self, name: str, text: str) -> Self:
        if self.single_item is not None:
            raise ArgumentError(f"Content: attribute '{name}' can't be added to a single item: choose one of them")
        self.attributes.append((name, text))
        return self

    def _text(self, value: Any) -> str:
        if isinstance(value, nn.Module):
            return self._shown.module_text(value, self.settings, self._level)
        if isinstance(value, Param):
            return self._shown.handle_text(value, self.settings, self._level)
        if isinstance(value, Tensor):
            return self._shown.tensor_text(self._module, value, self.settings)
        return display_text(value)


class _Display:
    """One call of `display`: what all modules of the tree share."""

    def __init__(self, root: nn.Module) -> None:
        self.root = root
        self.above: list[nn.Module] = []

    @cached_property
    def ids(self) -> dict[int, ParamId]:
        """The id of each tensor of the tree, by address; draws what is missing as any traversal does."""
        ids: dict[int, ParamId] = {}
        # Whoever looks for the mistake wants to see the ids that there are.
        with suppress(ModuleTreeError):
            with suppress(DuplicateParamIdError):
                params(self.root)
            for slot in slots_of(self.root):
                param_id = known_id(slot.home_module, slot.home_name, noting(slot.kind, slot.tensor))
                if param_id is not None:
                    ids.setdefault(id(slot.tensor), param_id)
        return ids

    def module_text(self, module: nn.Module, passed: DisplaySettings, level: int) -> str:
        """The text of `module`, whose attributes are on `level`."""
        module = unwrap(module)
        if "_modules" not in module.__dict__:
            return f"{type(module).__name__} (its __init__ has not run)"
        if any(other is module for other in self.above):
            return f"&{type_text(module)} (it holds itself)"
        custom = module.custom_settings() if hasattr(type(module), "custom_settings") else None  # pyright: ignore[reportCallIssue]
        settings = custom.inherit(passed) if custom is not None else passed
        self.above.append(module)
        try:
            content = self._content(module, settings, level + 1)
        finally:
            self.above.pop()
        if content.single_item is not None:
            return content.single_item
        top = content.top_level_type or top_text(module)
        if not content.attributes:
            return top
        lines = [f"{name}: {text}" for name, text in content.attributes]
        chosen = DEFAULTS.inherit(settings)
        if chosen.show_num_parameters and not sequence_kind(module) and (count := count_params(module)):
            lines.append(f"params: {count}")
        if not chosen.new_line_after_attribute:
            return f"{top} {{{', '.join(lines)}}}"
        step = " " * (chosen.indentation_size or 0)
        return "\n".join([f"{top} {{", *(f"{step * level}{line}" for line in lines), f"{step * (level - 1)}}}"])

    def _content(self, module: nn.Module, settings: DisplaySettings, level: int) -> Content:
        """The content that the class chose, or every field."""
        error = None
        if hasattr(type(module), "custom_content") and not settings.show_all_attributes and not has_missing(module):
            try:
                content = module.custom_content(Content(self, module, settings, level))  # pyright: ignore[reportCallIssue]
                if isinstance(content, Content):
                    return content
                if content is not None:
                    raise TypeError(f"expected the Content or None from custom_content, got {type(content).__name__}")
            except RecursionError:
                raise
            except Exception as caught:
                # A module is displayed to find out what is wrong with it: the mistake is shown with all there is.
                error = caught
        content = self._fields(module, Content(self, module, settings, level))
        if error is not None:
            content.add("custom_content", f"{type(error).__name__}: {error}")
        return content

    def _fields(self, module: nn.Module, content: Content) -> Content:
        parts = module.__dict__
        refresh_container(module)
        modules = parts["_modules"]
        is_enum = container_of(module).startswith("Enum")
        tensors_and_modules = dict.fromkeys(field_names(module))
        for name in shown_names(module, tensors_and_modules):
            shown = "_0" if is_enum else name
            if modules.get(name) is not None:
                content.add(shown, modules[name])
            elif missing := missing_text(module, name):
                content.add(shown, missing)
            elif name not in tensors_and_modules:
                constant = parts[name]
                (content.add if isinstance(constant, Tensor) else content.add_debug)(shown, constant)
            else:
                content.add(shown, base_tensor(module, name))
        return content

    def handle_text(self, param: Param, settings: DisplaySettings, level: int) -> str:
        """The text of what the handle stands for: a tensor, or a part that holds several."""
        owner, name = param.owners[0]
        if (part := owner._modules.get(name)) is not None:
            return self.module_text(part, settings, level)
        param_id = param.id if settings.show_param_id else None
        return missing_text(owner, name) or param_text(param.tensor, param.kind == "weight", param_id)

    def tensor_text(self, module: nn.Module, tensor: Tensor, settings: DisplaySettings) -> str:
        """The text of a tensor that `module` shows: a parameter, a persistent buffer, or any other."""
        is_weight, passing = isinstance(tensor, nn.Parameter), module._non_persistent_buffers_set
        saved = [buffer for name, buffer in module._buffers.items() if name not in passing]
        if not is_weight and all(buffer is not tensor for buffer in saved):
            return tensor_text(tensor)
        return param_text(tensor, is_weight, self.ids.get(id(tensor)) if settings.show_param_id else None)
