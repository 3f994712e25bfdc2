"""The state that a module saves beside plain tensors: by code of its own, and in tensors that are made of others.

State beside parameters and buffers is among the values of a record, as entries of `state_dict()`: `{"$entry": tree}`,
where the tree names its tensors by their paths below the entry; the record has them under its name and that path.

A tensor that is made of others, as torchao's quantized ones are, is in a record as these, each by its name. Beside
them, among the values, stands under the parameter's path which class they make: `{"$parts": {"qdata": "Int8Tensor",
...}}`. It is only compared. Parts are stored and loaded in their own types.

The results of `state_dict()` become tensors and plain values and back exactly, without code. What is no plain value is
a map with one key that begins with `$`: tensors, NumPy arrays, bytes, tuples, sets, counters, maps whose keys are no
texts, and torch's dtypes, devices and quantized tensors.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from ..._torch_compat.dispatch import is_traceable_wrapper_subclass
from ..._torch_compat.modules import STATE_HOOKS, STATE_METADATA, TOOLS, function_of
from ..._torch_compat.tensors import quantized_tensor
from ...errors import RecordError, RecordFormatError
from ...module import Param
from ...module.identity.field_metadata import fields_with
from ...module.module import Module
from ...module.torch_objects.wrappers import bare_name, is_distributed, unwrap
from ...module.tree.walk import walk_of
from ..layout import join
from ..metadata import ENTRY, MAX_DEPTH, PARTS, VERSIONS, dump_versions, from_json
from ..precision import plain

if TYPE_CHECKING:
    from ..record import Record


_TENSOR, _ARRAY, _TUPLE, _ITEMS, _COUNTER = "$tensor", "$array", "$tuple", "$items", "$counter"
_SET, _BYTES, _DTYPE, _DEVICE, _QUANTIZED = "$set", "$bytes", "$dtype", "$device", "$quantized"

TENSOR_TAGS = (_TENSOR, _ARRAY, _BYTES)  # their content is the name of a tensor


def encode_tree(tree: Any, name: str, tensors: dict[str, Tensor], depth: int = 0) -> Any:
    """The tree, which will be at `name`, as plain values that name its tensors, which go to `tensors`, not copied."""
    if depth > MAX_DEPTH // 2:
        raise RecordError(f"'{name[:80]}' is nested too deeply, or holds itself; flatten it")
    if tree is None or type(tree) in (bool, int, float, str):
        return tree
    if isinstance(tree, Tensor):
        if tree.is_quantized:
            return {_QUANTIZED: encode_tree(_quantized_parts(tree.detach(), name), name, tensors, depth + 1)}
        return {_TENSOR: _put(tree.detach(), name, tensors)}
    if isinstance(tree, list):
        return [encode_tree(item, join(name, index), tensors, depth + 1) for index, item in enumerate(tree)]
    if isinstance(tree, tuple):
        return {_TUPLE: encode_tree(list(tree), name, tensors, depth + 1)}
    if isinstance(tree, Mapping):
        if all(type(key) is str and not key.startswith("$") for key in tree) and not isinstance(tree, Counter):
            return {key: encode_tree(item, join(name, key), tensors, depth + 1) for key, item in tree.items()}
        keys = [encode_tree(key, f"{name}.keys", tensors, depth + 1) for key in tree]
        items = [encode_tree(item, join(name, key), tensors, depth + 1) for key, item in tree.items()]
        pairs = [*map(list, zip(keys, items, strict=True))]
        return {_COUNTER if isinstance(tree, Counter) else _ITEMS: pairs}
    return _encode_other(tree, name, tensors)


def _encode_other(tree: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    if is_array(tree):
        return {_ARRAY: _put(tensor_of(tree.copy(), f"'{name}'"), name, tensors)}
    if isinstance(tree, bytes | bytearray):
        return {_BYTES: _put(torch.tensor(list(tree), dtype=torch.uint8), name, tensors)}
    if isinstance(tree, torch.dtype):
        return {_DTYPE: plain(tree)}
    if isinstance(tree, torch.device):
        return {_DEVICE: str(tree)}
    if isinstance(tree, set):
        return {_SET: encode_tree([*tree], name, tensors, 1)}
    if (plain_value := plain_of(tree)) is not None:
        return plain_value
    raise RecordError(
        f"'{name}': expected tensors, arrays, numbers, texts, bools, None, lists, tuples and maps, got"
        f" {type(tree).__name__}, which can't be stored without code; leave it out and make it anew"
    )


def _put(tensor: Tensor, name: str, tensors: dict[str, Tensor]) -> str:
    """The name that the tensor gets: with a number where it is another tensor's."""
    if name in tensors:
        name = next(
            candidate for number in range(1, len(tensors) + 2) if (candidate := f"{name}~{number}") not in tensors
        )
    tensors[name] = tensor
    return name


def _quantized_parts(tensor: Tensor, name: str) -> dict[str, Any]:
    if tensor.dtype not in (torch.qint8, torch.quint8, torch.qint32):
        raise RecordError(f"'{name}': a quantized tensor of {plain(tensor.dtype)} can't be stored; dequantize() it")
    parts: dict[str, Any] = {"values": tensor.int_repr()}
    if tensor.qscheme() == torch.per_tensor_affine:
        return {**parts, "scale": tensor.q_scale(), "zero_point": tensor.q_zero_point()}
    channels = {"scale": tensor.q_per_channel_scales(), "zero_point": tensor.q_per_channel_zero_points()}
    return {**parts, **channels, "axis": tensor.q_per_channel_axis()}


def decode_tree(values: Any, tensors: Mapping[str, Tensor], source: str) -> Any:
    """The tree that `encode_tree` made the values of; each tensor is read once."""
    if isinstance(values, list):
        return [decode_tree(item, tensors, source) for item in values]
    if not isinstance(values, Mapping):
        return values
    tag, content = next(iter(values.items()), ("", None))
    if len(values) != 1 or not tag.startswith("$"):
        return {key: decode_tree(item, tensors, source) for key, item in values.items()}
    if tag in TENSOR_TAGS and isinstance(content, str) and content in tensors:
        tensor = tensors[content]
        return tensor if tag == _TENSOR else tensor.numpy() if tag == _ARRAY else bytes(tensor.tolist())
    if tag in _DECODERS and (isinstance(content, list) or tag not in (_TUPLE, _ITEMS, _COUNTER)):
        try:
            return _DECODERS[tag](decode_tree(content, tensors, source))
        except (TypeError, ValueError, KeyError, AttributeError, RuntimeError) as error:
            raise RecordFormatError(f"{source}: a part of the state is damaged: {tag} ({error})") from error
    raise RecordFormatError(f"{source}: a part of the state is damaged: {tag} {content!r:.60}")


def _dtype(name: str) -> torch.dtype:
    torch_object = getattr(torch, name)
    if not isinstance(torch_object, torch.dtype):
        raise ValueError(f"{name} is no dtype")
    return torch_object


_DECODERS: dict[str, Callable[[Any], Any]] = {
    _TUPLE: tuple,
    _ITEMS: dict,
    _COUNTER: lambda it: Counter(dict(it)),
    _SET: set,
    _DTYPE: _dtype,
    _DEVICE: torch.device,
    _QUANTIZED: lambda it: quantized_tensor(it["values"], it["scale"], it["zero_point"], it.get("axis")),
}


def plain_of(value: Any) -> bool | int | float | str | None:
    """The plain value that a value of a subclass, or a number of NumPy, is; None for anything else."""
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and isinstance(value, numpy.number | numpy.bool) else None


def is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def tensor_of(array: Any, place: str) -> Tensor:
    """The array as a tensor that shares its memory, where torch can: not if it is read-only or runs backwards."""
    shared = array.flags.writeable and all(step >= 0 for step in array.strides)
    try:
        return torch.from_numpy(array if shared else array.copy())
    except (TypeError, ValueError) as error:
        raise RecordError(f"{place} can't become a tensor: {error}") from error


_STATE_METHODS = ("get_extra_state", "set_extra_state", "state_dict", "_save_to_state_dict", "_load_from_state_dict")
# Those of torch and of burnlike, by name: nearly every class has these, and then nothing has to be found out.
_USUAL_METHODS = {name: (getattr(nn.Module, name), getattr(Module, name)) for name in _STATE_METHODS}
_HOOKS = itemgetter(*STATE_HOOKS)


class OwnCode(IntEnum):
    """The effect that methods and hooks of a module have when it is saved or loaded."""

    NONE = 0
    OLD_NAMES = 1  # reads state dicts of older versions, as torch's own layers do
    ALWAYS = 2  # anything; it is the program's


def own_code(modules: Iterable[nn.Module]) -> list[tuple[nn.Module, OwnCode]]:
    """The modules that have code of their own, each with its kind."""
    classes: dict[type, OwnCode] = {}
    coded = []
    for module in modules:
        cls = type(module)
        if cls not in classes:
            classes[cls] = OwnCode.NONE
            for name, usual in _USUAL_METHODS.items():
                if (method := getattr(cls, name)) not in usual:
                    classes[cls] = max(classes[cls], origin(method))
        code = classes[cls]
        if fields_with(module, "holds", "item"):
            code = OwnCode.ALWAYS
        if any(hooks := _HOOKS(module.__dict__)):
            code = max(code, *(origin(hook) for group in hooks for hook in group.values()))
        if code:
            coded.append((module, code))
    return coded


def origin(function: Callable[..., Any]) -> OwnCode:
    """The place where a method or hook was defined."""
    inner: Any = function_of(function)
    while isinstance(inner, partial):
        inner = inner.func
    where = f"{getattr(inner, '__module__', None) or type(inner).__module__}."
    if where.startswith((*TOOLS, "burnlike.")):
        return OwnCode.NONE  # where tensors lie, not which there are
    return OwnCode.OLD_NAMES if where.startswith("torch.nn.") else OwnCode.ALWAYS


def overrides(cls: type, name: Literal["into_record", "load_record"]) -> bool:
    """True if a class of modules itself defines the method."""
    return getattr(cls, name, None) not in (None, getattr(Module, name))


def has_record(cls: type) -> bool:
    """True if modules of a class say themselves what their record is, or load it themselves."""
    return overrides(cls, "into_record") or overrides(cls, "load_record")


def parts_with_records(root: nn.Module) -> dict[str, nn.Module]:
    """Path -> part of a module, which is no wrapper, with a record of its own; none is in another."""
    if not any(map(has_record, {*map(type, walk_of(root).modules)})):
        return {}
    parts: dict[str, nn.Module] = {}
    for key, part in root.named_modules(remove_duplicate=False):
        path = path_of(key)
        if key and has_record(type(unwrap(part))) and not path.startswith(below(parts)):
            parts[path] = unwrap(part)
    return parts


def path_of(key: str) -> str:
    """The path of a module that torch gives the name `key`."""
    return bare_name(f"{key}.")[:-1] if key else ""


def below(paths: Mapping[str, object]) -> tuple[str, ...]:
    """The prefixes of names that lie below one of the paths."""
    return tuple(join(path, "") for path in paths)


def is_entry(value: Any) -> bool:
    return isinstance(value, Mapping) and len(value) == 1 and ENTRY in value


def entries_of(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each entry's name and tree, wherever it is among a record's values."""
    for key, value in values.items():
        if is_entry(value):
            yield join(prefix, key), value[ENTRY]
        elif isinstance(value, Mapping):
            yield from entries_of(value, join(prefix, key))


def tensors_in(tree: Any, name: str) -> Iterator[str]:
    """The names of the record's tensors that the entry `name` has."""
    if isinstance(tree, list):
        for item in tree:
            yield from tensors_in(item, name)
    elif isinstance(tree, Mapping):
        tag, path = next(iter(tree.items()), ("", None))
        if len(tree) == 1 and tag in TENSOR_TAGS and isinstance(path, str):
            yield join(name, path) if path else name
        else:
            for item in tree.values():
                yield from tensors_in(item, name)


def entry_tensors(values: Mapping[str, Any]) -> set[str]:
    return {at for name, tree in entries_of(values) for at in tensors_in(tree, name)}


def decoded(tree: Any, name: str, record: "Record") -> Any:
    """The entry `name` of a record as the module gave it; its tensors are read."""
    first = {at: record.aliases.get(at, at) for at in tensors_in(tree, name)}
    there = {at.removeprefix(name).removeprefix("."): value for at, value in first.items() if value in record.tensors}
    tensors = {path: record.tensors[value].detach() for path, value in there.items()}
    return decode_tree(tree, tensors, record.source)


def versions_in(record: "Record") -> dict[str, dict[str, Any]] | None:
    """Path -> what torch noted about that module; None if the record doesn't say."""
    if (text := record.metadata.get(VERSIONS)) is None:
        return None
    place = f"{record.source}: {VERSIONS}"
    try:
        decoded = from_json(json.loads(text), place)
    except (ValueError, TypeError, RecursionError) as error:
        raise RecordFormatError(f"{place} is damaged ({error}); save or fetch it again") from error
    if not isinstance(decoded, dict) or not all(isinstance(value, dict) for value in decoded.values()):
        raise RecordFormatError(f"{place} is damaged; save or fetch it again")
    return decoded


def renamed_versions(record: "Record", new_name: Callable[[str], str | None]) -> dict[str, str]:
    """The versions in a record's metadata, if any, under their key, for modules of other names; None leaves one out."""
    versions = versions_in(record)
    named = {new: version for path, version in (versions or {}).items() if (new := new_name(path)) is not None}
    return {} if versions is None else {VERSIONS: dump_versions(named)}


def versions_together(parts: Mapping[str, "Record"]) -> dict[str, str]:
    """The same as `renamed_versions`, of several records: path -> the record that goes there."""
    noted = {path: versions_in(record) for path, record in parts.items()}
    noted_versions = {path: value for path, value in noted.items() if value is not None}
    pairs = {
        join(path, name) if name else path: version
        for path, versions in noted_versions.items()
        for name, version in versions.items()
    }
    return {VERSIONS: dump_versions(pairs)} if noted_versions else {}


@dataclass(frozen=True, slots=True)
class OwnState:
    """The tensors and entries that a module's own code adds to its record."""

    tensors: dict[str, Tensor] = field(default_factory=dict)  # path -> what it saves in place of a parameter or buffer
    left_out: frozenset[str] = frozenset()  # paths of parameters and buffers that it does not save
    entries: dict[str, Tensor] = field(default_factory=dict)  # name -> tensor of an entry
    values: dict[str, Any] = field(default_factory=dict)  # name -> entry
    metadata: dict[str, str] = field(default_factory=dict)


def own_state(root: nn.Module, params: Sequence[Param]) -> OwnState:
    """The content of the state dict of a module, which is no wrapper, beside the tensors of `params`."""
    if OwnCode.ALWAYS not in map(itemgetter(1), own_code((root, *walk_of(root).modules))):
        return OwnState()
    state_dict = state_dict_of(root)
    tensors: dict[str, Tensor] = {}
    entries: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    there: set[str] = set()
    for name, value, param in assigned(state_dict, "", params):
        if param is None:
            inside: dict[str, Tensor] = {}
            try:
                values[name] = {ENTRY: encode_tree(value, "", inside)}
            except RecordError as error:
                text = str(error).removeprefix("'': ")
                raise RecordError(f"'{name}' of state_dict() can't be saved: {text}") from error
            entries |= {join(name, path) if path else name: tensor for path, tensor in inside.items()}
            continue
        there.add(param.path)
        if value is not param.tensor:
            tensors[param.path] = value.detach()
    paths = {path for param in params for path in (param.path, *param.aliases)}
    if both := paths & (values.keys() | entries.keys()):
        raise RecordError(f"{type(root).__name__} saves '{min(both)}' beside a tensor of that name; rename one")
    left_out = frozenset(param.path for param in params if param.path not in there)
    versions = dump_versions({path_of(path): dict(it) for path, it in getattr(state_dict, STATE_METADATA, {}).items()})
    return OwnState(tensors, left_out, entries, values, {VERSIONS: versions})


def state_dict_of(module: nn.Module) -> Mapping[str, Any]:
    """The state dict, with the parameters themselves where the class lets it be asked for them."""
    try:
        return module.state_dict(keep_vars=True)
    except TypeError:  # an override without this argument
        return module.state_dict()


def assigned(saved: Mapping[str, Any], path: str, params: Sequence[Param]) -> Iterator[tuple[str, Any, Param | None]]:
    """Each name and value of the state dict of the module at `path`, and the parameter it is of; None for entries."""
    param_of_tensor = {id(param.tensor): param for param in params}
    param_of_path = {alias: param for param in params for alias in (param.path, *param.aliases)}
    for key, value in saved.items():
        name = join(path, bare_name(key))
        param = param_of_tensor.get(id(value))
        if param is None and isinstance(value, Tensor):
            param = param_of_path.get(name)
        yield name, value, param


def expected_form(param: Param) -> tuple[torch.dtype, torch.Size] | None:
    """The type and shape that a record must have of a parameter with a load mapper; None if only mapping can tell."""
    present = param.tensor
    if param.mappers.save is None:
        return None
    try:
        saved = map_tensor(param, "save", torch.empty(present.shape, dtype=present.dtype, device="meta"))
    except RecordError:  # it looks at values
        return None
    return saved.dtype, saved.shape


@torch.no_grad()
def map_tensor(param: Param, which: str, tensor: Tensor) -> Tensor:
    """The result of the `save` or `load` mapper of a parameter."""
    try:
        mapped = getattr(param.mappers, which)(tensor)
    except Exception as error:
        raise RecordError(f"the {which} mapper of '{param.path}' failed: {error}; nothing was changed") from error
    if not isinstance(mapped, Tensor):
        raise RecordError(
            f"the {which} mapper of '{param.path}' gave {type(mapped).__name__}, expected a torch.Tensor;"
            " nothing was changed"
        )
    return mapped.detach()


class TensorPart(nn.Module):
    """Holds a part, as a module does its buffer, with the path and the class of the parameter."""

    def __init__(self, param: Param, name: str, tensor: Tensor) -> None:
        super().__init__()
        self.path, self.name, self.of = param.path, name, type(param.tensor).__name__
        self.register_buffer("tensor", tensor.detach())


def tensor_part(param: Param) -> TensorPart | None:
    """The part that it is, if it is no parameter of a module."""
    holder = param.home[0]
    return holder if isinstance(holder, TensorPart) else None


def in_parts(params: Sequence[Param]) -> Sequence[Param]:
    """The parameters, with the parts, such as `layer.weight.scale`, in the place of each that is made of some.

    The same object where none is, so that nobody has to look for parts.
    """
    for param in params:
        if type(param.tensor) not in (Tensor, nn.Parameter):
            break
    else:
        return params
    parts: list[Param] = []
    for param in params:
        whole = param.tensor
        is_plain = type(whole) in (Tensor, nn.Parameter) or whole.is_nested or is_distributed(whole)
        if is_plain or not is_traceable_wrapper_subclass(whole) or param.mappers != (None, None):
            parts.append(param)
            continue
        for name, tensor in _tensors_in(whole):
            if tensor.is_meta:
                kind = type(whole).__name__
                raise RecordError(
                    f"'{param.path}' is a {kind} on the meta device, whose parts have no memory to load into"
                )
            owners = ((TensorPart(param, name, tensor), "tensor"),)
            aliases = tuple(join(alias, name) for alias in param.aliases)
            parts.append(Param(param.id, join(param.path, name), "state", owners, aliases))
    return parts if len(parts) > len(params) or any(map(tensor_part, parts)) else params


def _tensors_in(tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    names: Iterable[str] = tensor.__tensor_flatten__()[0]  # pyright: ignore[reportAttributeAccessIssue]
    for name in names:
        part: Tensor = getattr(tensor, name)
        if is_traceable_wrapper_subclass(part):
            yield from ((join(name, below), it) for below, it in _tensors_in(part))
        else:
            yield name, part


def classes_of(params: Iterable[Param]) -> dict[str, Any]:
    """For the values of a record: path of a parameter -> the class that its parts make."""
    classes: dict[str, Any] = {}
    for part in filter(None, map(tensor_part, params)):
        classes.setdefault(part.path, {PARTS: {}})[PARTS][part.name] = part.of
    return classes


def part_names(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The name of each part among a record's tensors, and the class that it belongs to."""
    for key, value in values.items():
        if not isinstance(value, Mapping):
            continue
        if len(value) == 1 and isinstance(parts := value.get(PARTS), Mapping):
            yield from ((join(prefix, join(key, name)), str(part)) for name, part in parts.items())
        else:
            yield from part_names(value, join(prefix, key))


def kept_tensors(values: Mapping[str, Any]) -> set[str]:
    """The names of tensors that are stored in their own types: parts, and those of entries, whose use is not known."""
    return entry_tensors(values) | {name for name, _ in part_names(values)}
