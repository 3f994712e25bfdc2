"""The settings of a display."""

from dataclasses import dataclass, fields, replace

from ...errors import ArgumentError


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
