"""Accesses of memory by 16 bytes in PTX, and how many each kernel was written with.

A compiler may make 16 stores of 2 bytes of one of 16 bytes: no test fails, and the kernel has a third of its speed.
"""

import re
import subprocess
from typing import NamedTuple

VECTOR_BYTES = 16
ACCESS = re.compile(r"\b(ld|st)\.(?:\w+\.)*global(?:\.\w+(?:::\w+)*)*?\.v(\d)\.[a-z](\d+)")
PACKED = re.compile(r"packed_|shifted_|\w+<[248], ")
"""Names of kernels that read or write packs, which need a row below."""


class Accesses(NamedTuple):
    """Loads and stores of 16 bytes in the text of a kernel."""

    loads: int
    stores: int


WANTED: tuple[tuple[str, str, Accesses], ...] = (
    ("adamw_step", r"step_kernel<", Accesses(4, 8)),
    ("bias_gelu", r"forward_kernel<[48], ", Accesses(2, 1)),
    ("bias_gelu", r"forward_kernel<2, ", Accesses(1, 1)),  # beside float64 a pack of weights may have 8 bytes
    ("bias_gelu", r"backward_kernel<[48], ", Accesses(5, 2)),
    ("bias_gelu", r"backward_kernel<2, ", Accesses(4, 2)),
    ("convert", r"convert_kernel<double, ", Accesses(0, 2)),  # the wider type has 16 bytes
    ("convert", r"convert_kernel<\w+, double>", Accesses(2, 0)),
    ("convert", r"convert_kernel<float, (?!double)", Accesses(0, 2)),
    ("convert", r"convert_kernel<(?!double)\w+, float>", Accesses(2, 0)),
    ("convert", r"convert_kernel<\w*Float16, \w*Float16>", Accesses(2, 2)),
    ("cross_entropy", r"forward_kernel<", Accesses(2, 0)),
    ("cross_entropy", r"backward_kernel<", Accesses(2, 1)),
    ("dropout_add", r"forward_kernel<[248], ", Accesses(2, 1)),
    ("dropout_add", r"backward_kernel<[248], ", Accesses(1, 1)),
    ("geglu|swiglu", r"glu_forward_kernel<[248], ", Accesses(2, 1)),
    ("geglu|swiglu", r"glu_backward_kernel<[248], ", Accesses(3, 2)),
    ("gradient_squares", r"chunk_sums_kernel", Accesses(4, 0)),
    ("lion_step", r"step_kernel<", Accesses(3, 6)),
    ("masked_softmax", r"packed_forward_kernel<1, ", Accesses(1, 1)),
    ("masked_softmax", r"packed_forward_kernel<2, ", Accesses(2, 2)),
    ("masked_softmax", r"packed_forward_kernel<4, ", Accesses(4, 4)),
    ("masked_softmax", r"packed_backward_kernel<1, ", Accesses(2, 1)),
    ("masked_softmax", r"packed_backward_kernel<2, ", Accesses(4, 2)),
    (r"(layer|rms)_norm", r"packed_forward_kernel<\w+, 1, ", Accesses(3, 2)),
    (r"(layer|rms)_norm", r"packed_forward_kernel<\w+, 2, ", Accesses(6, 4)),
    (r"(layer|rms)_norm", r"packed_forward_kernel<\w+, 4, ", Accesses(12, 8)),
    (r"(layer|rms)_norm", r"packed_backward_kernel<\w+, 1, ", Accesses(6, 2)),
    (r"(layer|rms)_norm", r"packed_backward_kernel<\w+, 2, ", Accesses(12, 4)),
    (r"(layer|rms)_norm", r"shifted_forward_kernel<", Accesses(8, 2)),
    (r"(layer|rms)_norm", r"shifted_backward_kernel<", Accesses(10, 1)),
    ("rotary", r"rotary_kernel<[48], ", Accesses(5, 3)),
    ("rotary", r"rotary_kernel<2, ", Accesses(3, 3)),
    ("sgd_step", r"step_kernel<", Accesses(2, 4)),
)
"""Sources and kernels as patterns, and the least accesses of each; of the branches of a kernel all count."""


def accesses(ptx: str) -> dict[str, Accesses]:
    """The accesses of each kernel of a PTX text, by its mangled name."""
    counts = {}
    for name, text in re.findall(r"\.entry (\w+)\((.*?)(?=\.entry |\Z)", ptx, re.DOTALL):
        found = {"ld": 0, "st": 0}
        for kind, count, bits in ACCESS.findall(text):
            found[kind] += int(count) * int(bits) // 8 // VECTOR_BYTES
        counts[name] = Accesses(found["ld"], found["st"])
    return counts


def short_names(mangled: list[str]) -> list[str]:
    """Names to read, without namespaces and arguments."""
    text = subprocess.run(["c++filt"], input="\n".join(mangled), check=True, capture_output=True, text=True).stdout
    names = [re.sub(r"\(anonymous namespace\)::|burnlike::|cuda::|^void ", "", line) for line in text.splitlines()]
    return [re.sub(r"\(\w+\)(\d)", r"\1", name).partition("(")[0] for name in names]


def problems(source: str, arch: str, ptx: str) -> list[str]:
    """What is wrong with the accesses of a source's kernels."""
    counts = accesses(ptx)
    wrong = []
    for name, count in zip(short_names(list(counts)), counts.values(), strict=True):
        rows = [least for stem, kernel, least in WANTED if re.fullmatch(stem, source) and re.match(kernel, name)]
        if not rows and PACKED.match(name):
            wrong.append(f"{source}: {name} has no row in .ci/vector_accesses.py: how often does it access 16 bytes?")
        wrong += [
            f"{source}: {name} for {arch}: expected at least {least.loads} loads and {least.stores} stores of 16 bytes "
            f"in its PTX, got {count.loads} and {count.stores}; read_values and write_values of pack.h are not split"
            for least in rows
            if count.loads < least.loads or count.stores < least.stores
        ]
    return wrong
