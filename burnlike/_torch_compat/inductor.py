"""The command line that torch's inductor writes for the C++ compiler.

It quotes the folders of headers alone, and splits the line at spaces. Where torch or the folder of its cache lies below
a folder with a space in its name, the compiler is given halves of paths, and no model compiles for the CPU.
"""

import shlex
from functools import cache
from typing import Any


# Once: a second time would quote what is quoted.
@cache
def quote_paths() -> None:
    """Have inductor quote its sources, its result, its precompiled header and its library folders, in this process.

    Without the names, `torch.compile` fails in such folders as it does without this function.
    """
    from torch._inductor.cpp_builder import CppBuilder  # here: it loads the compiler, which takes seconds

    builder: Any = CppBuilder
    write_parts = builder.__init__

    def write_quoted_parts(
        self: Any, name: str, sources: str | list[str], BuildOption: Any, output_dir: str = ""
    ) -> None:
        paths = [sources] if isinstance(sources, str) else sources
        write_parts(self, name, [shlex.quote(path) for path in paths], BuildOption, output_dir)
        result, header = self._target_file, BuildOption.precompiled_header
        self._output = self._output.removesuffix(result) + shlex.quote(result)
        self._libraries_dirs_args = "".join(f"-L{shlex.quote(path)} " for path in BuildOption.get_libraries_dirs())
        if header:
            plain = f"-include {header} "
            self._include_dirs_args = self._include_dirs_args.replace(plain, f"-include {shlex.quote(header)} ")

    builder.__init__ = write_quoted_parts
