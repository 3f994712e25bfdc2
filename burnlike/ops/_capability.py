"""Which GPUs the CUDA kernels run on, by the compute capabilities that they were built for."""

import re


def runs_on(capability: tuple[int, int], built: str) -> bool:
    """Whether a GPU runs one of the forms that kernels were built in, each a word: `80`, `90a`, `100f`, `120+PTX`.

    Machine code runs where the major number is the same and the minor one no smaller, with `a` on that capability
    alone; portable code (`+PTX`) where the capability is no smaller, with `f` in its family only (CUDA C++ Programming
    Guide, section "Compute capabilities").
    """
    return any(_runs(capability, word) for word in built.split())


def _runs(capability: tuple[int, int], word: str) -> bool:
    found = re.fullmatch(r"(\d+)(\d)([af]?)(\+PTX)?", word)
    if found is None:
        return False
    of = int(found[1]), int(found[2])
    if found[3] == "a":
        return capability == of
    return capability >= of and (capability[0] == of[0] or (found[4] is not None and not found[3]))
