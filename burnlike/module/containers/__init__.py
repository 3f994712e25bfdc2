"""Lists, tuples, dicts, enums and users' own containers of modules, as parts of a tree."""
