"""Linear layers."""

from ..._moved import names_of_file

__getattr__ = names_of_file(__name__)
