"""Records for the tests of formats with names: those that Burn wrote, and random ones."""

import gzip
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from burnlike.module import ParamId
from burnlike.record import Record

GOLDEN = Path(__file__).parents[2] / "golden" / "v0.21"

FLOATS = {"full": torch.float32, "half": torch.float16, "double": torch.float64}
INTS = {"full": torch.int32, "half": torch.int16, "double": torch.int64}


def goldens(*extensions: str) -> list[str]:
    """Names of the files that Burn wrote with one of the extensions."""
    return sorted(it.name for it in GOLDEN.iterdir() if "-" in it.name and it.name.endswith(extensions))


def unpacked(data: bytes) -> bytes:
    """The bytes in a gzip stream, or the bytes."""
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def values_of(name: str) -> dict[str, Any]:
    """What Burn says is in a golden file."""
    return json.loads((GOLDEN / f"{name.split('-')[0]}.values.json").read_text())


def params_of(name: str) -> list[tuple[str, str, Tensor]]:
    """Path, id and values of each parameter in a golden file of a module."""
    precision = name.split("-")[1].split(".")[0]
    types = {"float": FLOATS[precision], "int": INTS[precision], "bool": torch.bool}
    found = []
    for param in values_of(name)["params"]:
        exact = torch.tensor(param["values"], dtype=torch.float32 if param["kind"] == "float" else None)
        found.append((param["path"], param["id"], exact.to(types[param["kind"]]).reshape(param["shape"])))
    return found


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same to the last bit, NaNs included."""
    return one.dtype == other.dtype and one.shape == other.shape and bits(one) == bits(other)


def bits(tensor: Tensor) -> bytes:
    """The bytes of a tensor."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def assert_same(found: Record, expected: Record) -> None:
    """Check that everything that formats with names hold is the same."""
    assert dict(found.ids) == dict(expected.ids)
    assert dict(found.aliases) == dict(expected.aliases)
    assert set(found.states) == set(expected.states)
    assert exact(found.values) == exact(expected.values)
    assert set(found.tensors) == set(expected.tensors)
    for name in expected.tensors:
        assert same(found.tensors[name], expected.tensors[name]), name


def exact(value: Any) -> Any:
    """Plain values, comparable: floats by their bits, tuples as lists."""
    if isinstance(value, Mapping):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [exact(item) for item in value]
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value.hex()
    return (type(value).__name__, value)


DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8),
    torch.bool,
]
"""Those that Burn has."""


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Tensors of all of Burn's types, with any bits."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    count = math.prod(shape)
    if dtype == torch.bool:
        return torch.tensor(draw(st.lists(st.booleans(), min_size=count, max_size=count)), dtype=dtype).reshape(shape)
    data = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape) if data else torch.empty(shape, dtype=dtype)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PARTS = st.sampled_from(
    ["id", "param", "bytes", "shape", "dtype", "value", "0", "1", "V1", "Rank1", "item", "metadata", "_b", "burnlike"]
) | TEXTS.filter(lambda text: text and "." not in text and not text.startswith("$"))
"""Parts of names, those among them that mean something in a file."""

_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 1e16, 1e-5, 5e-324, -0.0])
    | TEXTS
)
VALUES = st.dictionaries(
    TEXTS | st.sampled_from(["states", "paths", "values", "format"]),
    st.recursive(_LEAVES, lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXTS, below, max_size=3)),
    max_size=4,
)
IDS = st.integers(0, 2**64 - 1).map(ParamId)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Records of modules, by names alone."""
    tree = draw(
        st.dictionaries(
            PARTS,
            st.recursive(tensors(), lambda below: st.dictionaries(PARTS, below, min_size=1, max_size=3)),
            max_size=4,
        )
    )
    found = dict(_paths(tree))
    names = sorted(found)
    with_id = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    ids = dict(
        zip(with_id, draw(st.lists(IDS, min_size=len(with_id), max_size=len(with_id), unique=True)), strict=True)
    )
    tied = draw(st.lists(st.sampled_from(names), max_size=2)) if names else []
    aliases = {f"tied {index}": name for index, name in enumerate(tied)}
    return Record(found, draw(VALUES), ids, aliases)


def _paths(tree: Mapping[str, Any], above: str = "") -> list[tuple[str, Tensor]]:
    found = []
    for name, below in tree.items():
        path = f"{above}{name}"
        found += [(path, below)] if isinstance(below, Tensor) else _paths(below, f"{path}.")
    return found


@st.composite
def optimizer_records(draw: st.DrawFn) -> Record:
    """Records of optimizers: states by ids, with numbers of the kinds that Burn's states have."""
    found: dict[str, Tensor] = {}
    states: dict[str, Any] = {}
    paths: dict[str, str] = {}
    for param_id in draw(st.lists(IDS, unique=True, max_size=3)):
        states[f"{param_id}.time"] = draw(st.integers(-(2**63), 2**64 - 1))
        if draw(st.booleans()):
            states[f"{param_id}.rate.last"] = draw(st.floats())
        for name in ("moment_1", "moment.second"):
            if draw(st.booleans()):
                found[f"{param_id}.{name}"] = draw(tensors())
        paths[str(param_id)] = draw(TEXTS)
    return Record(found, {"states": states, "paths": paths})
