"""Lists, tuples, dicts, enums and users' own containers of modules, as modules."""
