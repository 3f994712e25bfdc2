"""The base of layers."""

from ..module import DisplaySettings, Module


class Layer(Module):
    """A Module that is displayed on one line, as Burn's layers are."""

    def custom_settings(self) -> DisplaySettings:
        return DisplaySettings(new_line_after_attribute=False)
