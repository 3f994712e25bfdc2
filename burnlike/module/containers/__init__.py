"""Lists, tuples, dicts, enums and users' own containers of modules, as modules."""

from ..._moved import names_of_file

__getattr__ = names_of_file(__name__)
