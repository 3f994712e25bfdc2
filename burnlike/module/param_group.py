"""ParamGroup: which parameters of a module are meant."""

from typing import Any

from ..config import Config


class ParamGroup(Config):
    """Which parameters are meant; thin for now."""

    contains: list[str] = []

    def matches(self, param: Any) -> bool:
        """Whether `param` is one of them."""
        return all(text in param.path for text in self.contains)

    def select(self, module: Any) -> list[Any]:
        """The Params of `module` that are meant."""
        from .registry import params

        return [param for param in params(module) if self.matches(param)]
