"""States of optimizers as their module lies, by the maps that `from_torch` and `to_torch` convert weights by.

A record says under `layouts` of which of Burn's tensors each parameter of torch's layers is made, and how. What it does
not name lies as in Burn. A record without `layouts`, as Burn's own files are, tells it by names and shapes, or is
refused.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .. import nn as layers
from ..errors import NoCounterpartError, RecordMismatchError
from ..module import ParamId, params
from ..module.identity.field_metadata import fields_of
from ..module.torch_objects.wrappers import is_distributed
from ..nn.tensor_source import TensorRecipe, TensorSource, inverse, whole
from ..nn.torch_counterpart import Counterpart
from ..optim.states.matching import GROUPS, StateEntry, StateOwner, entries_of, match_entries
from ..record import LoadReport, Record
from ..record.files.stored_tensors import shape_in
from ..record.layout import LAYOUTS
from .layer_conversion import owner_of, tensors_of
from .torch_counterparts import of_torch
from .torch_names import TorchLayout

_OF_TRANSPOSE = {"second_moment": "column_second_moment", "column_second_moment": "second_moment"}
"""Fields that change places where a parameter is transposed: Adafactor's means of rows and of columns."""
_UNKNOWN = "parametrized"


class Part(NamedTuple):
    """One of Burn's tensors, and whether it lies transposed in torch's; the id is None where it is not known."""

    path: str
    id: ParamId | None
    transposed: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a parameter: equal parts, Burn's tensors, joined along `dim`; no parts where nothing is known."""

    parts: tuple[Part, ...]
    dim: int = 0

    def lies_as(self, other: "Layout") -> bool:
        """True if values of both lie alike."""
        flags = [[part.transposed for part in one.parts] for one in (self, other)]
        return flags[0] == flags[1] and (len(self.parts) < 2 or self.dim == other.dim)

    def source(self, place: int) -> TensorSource:
        """The slice of this parameter that is Burn's tensor number `place`."""
        return TensorSource("", (place, len(self.parts)), self.parts[place].transposed, self.dim)

    def recipe(self) -> TensorRecipe:
        """The recipe that makes the parameter of Burn's tensors, named by their numbers."""
        sources = (TensorSource(str(place), transposed=part.transposed) for place, part in enumerate(self.parts))
        return TensorRecipe(tuple(sources), self.dim)


_AS_IN_BURN = Layout((Part("", None),))


def noted_layouts(modules: Iterable[nn.Module]) -> dict[str, Any]:
    """The value `layouts` of records of optimizers of these modules: by id, of what lies otherwise in Burn."""
    ours = _layouts_of(modules)
    noted = ((param, ours.get(_home(param))) for module in modules for param in params(module, "weight"))
    return {str(param.id): _note(layout) for param, layout in noted if layout is not None}


def lay_out(
    record: Record,
    targets: Sequence[StateOwner],
    modules: Sequence[nn.Module],
    report: LoadReport | None = None,
    *,
    of_torch: bool = False,
) -> Record:
    """The record of an optimizer with its states as `targets`, parameters of the modules, lie.

    The record itself, if all of them do. `of_torch` says that it was made of a state dict of torch's, which does not
    say how it lies: then the layout of torch's own layers is what is meant where shapes don't tell.

    It is a RecordMismatchError if states can't be converted, or nothing tells how they lie.
    """
    ours = _layouts_of(modules)
    wanted = {it.id: ours.get(_home(it.param)) or Layout((Part(it.param.path, it.id),)) for it in targets}
    notes = _notes_in(record)
    if notes is not None and not notes and not ours:
        return record
    conversion = _Conversion(record, targets, wanted, report)
    if notes is None:
        notes = conversion.guessed(modules, has_torch_layers=bool(ours), of_torch=of_torch)
    return conversion.result(notes)


def in_torch_names(module: nn.Module) -> dict[str, Layout]:
    """The layouts of the same model made of torch's layers, by torch's names; empty if it can't be made of them."""
    try:
        form = TorchLayout(module)
    except NoCounterpartError:
        return {}
    ids = {path: parameter.id for parameter in params(module) for path in (parameter.path, *parameter.aliases)}
    return {
        name: Layout(tuple(Part(it.name, ids.get(it.name), it.transposed) for it in recipe.sources), recipe.dim)
        for name, recipe in inverse(whole(form.places)).items()
    }


def torch_parameters(module: nn.Module) -> dict[str, tuple[Sequence[int], Any]]:
    """The shape in torch and the layout, for records, of each tensor of the same model made of torch's layers."""
    layouts = in_torch_names(module)
    shapes = TorchLayout(module).tensors if layouts else {}
    return {name: (shapes[name].shape, _note(layout)) for name, layout in layouts.items()}


def id_of_name(name: str) -> ParamId:
    """An id for a parameter of which nothing but the name is known."""
    return ParamId(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little"))


class _Piece(NamedTuple):
    """The state of one of Burn's tensors, or of a parameter that lies as there."""

    entry: StateEntry
    part: Part
    tensors: Mapping[str, Tensor]


class _Conversion:
    def __init__(
        self,
        record: Record,
        targets: Sequence[StateOwner],
        wanted: Mapping[ParamId, Layout],
        report: LoadReport | None,
    ) -> None:
        self._record, self._targets, self._wanted, self._report = record, targets, wanted, report
        self._entries = entries_of(record)
        self._owners = {
            str(entry.id): owner for entry, owner in match_entries(self._entries, targets, report)[0] if owner
        }
        self._changed = False  # whether a value of the last result lies otherwise than in the record

    def result(self, notes: Mapping[str, Layout]) -> Record:
        """The record as the targets lie, of states that lie as `notes` says."""
        self._changed = False
        self._refuse_joint_states(notes)
        layout_of = {str(it.id): notes.get(str(it.id)) or Layout((Part(it.path or "", it.id),)) for it in self._entries}
        kept = {
            text
            for text, owner in self._owners.items()
            if text in layout_of and layout_of[text].lies_as(self._wanted[owner.id])
        }
        left = [it for it in self._entries if str(it.id) not in kept]
        taken = {self._owners[text].id for text in kept}
        open_targets = [it for it in self._targets if it.id not in taken]
        named = [(layout_of[str(it.id)], it.path or "") for it in left]
        named += [(self._wanted[it.id], it.param.path) for it in open_targets]
        if not left or all(it.lies_as(_AS_IN_BURN) and it.parts[0].path == path for it, path in named):
            return self._record  # the rest finds no owner however it lies
        pieces = [piece for entry in left for piece in self._pieces(entry, layout_of[str(entry.id)])]
        converted: list[tuple[StateEntry, dict[str, Tensor], StateOwner | None, list[str]]] = []
        used: set[int] = set()
        for target in open_targets:
            chosen = self._pieces_for(target, pieces, used)
            if chosen:
                used |= {id(it) for it in chosen}
                texts = [str(it.entry.id) for it in chosen]
                converted.append((*self._joined(target, chosen), target, texts))
        for piece in pieces:
            if id(piece) not in used:
                entry, part = piece.entry, piece.part
                alone = len(layout_of[str(entry.id)].parts) == 1
                new = entry if alone else replace(entry, id=part.id or id_of_name(part.path), path=part.path)
                converted.append((new, dict(piece.tensors), None, [str(entry.id)]))
        return self._record_of([it for it in self._entries if str(it.id) in kept], converted, notes)

    def _refuse_joint_states(self, notes: Mapping[str, Layout]) -> None:
        """Refuse the one state of all parameters, as of L-BFGS, where any of them lies otherwise."""
        noted_shapes = self._record.values.get("shapes")
        lie_alike = len(self._owners) == len(self._targets) and all(
            notes.get(text, _AS_IN_BURN).lies_as(self._wanted[owner.id]) for text, owner in self._owners.items()
        )
        if lie_alike or not isinstance(noted_shapes, Mapping):
            return
        for entry in self._entries:
            wanted = torch.Size(noted_shapes.get(str(entry.id), ()))
            shapes = [shape_in(self._record.tensors, name) for name in entry.tensors.values()]
            if any(shape and not _fits(shape, wanted) for shape in shapes):
                raise self._refusal(entry, "is one for all parameters, of which some lie otherwise; begin it anew")

    def guessed(self, modules: Sequence[nn.Module], *, has_torch_layers: bool, of_torch: bool) -> dict[str, Layout]:
        """The layouts of a record that does not say them, by its names and shapes."""
        as_it_lies = {text: self._wanted[owner.id] for text, owner in self._owners.items()}
        named: dict[str, Layout] = {}
        if not has_torch_layers:
            by_name = {name: it for module in modules for name, it in in_torch_names(module).items()}
            named = {str(entry.id): by_name[entry.path] for entry in self._entries if entry.path in by_name}
        # Without values, as a trial asks for shapes alone.
        shapes = replace(
            self._record,
            tensors={
                name: torch.empty(shape_in(self._record.tensors, name), device="meta") for name in self._record.tensors
            },
        )
        trial = _Conversion(shapes, self._targets, self._wanted, self._report)
        fits = trial.fitting(as_it_lies)
        fits_otherwise = trial.fitting(named)
        if fits_otherwise is None or not trial._changed or (fits is not None and fits > fits_otherwise):
            return as_it_lies
        if fits is None or fits < fits_otherwise:
            return named
        if of_torch == has_torch_layers:
            return as_it_lies  # torch's into torch's layers, Burn's into Burn's
        path = next(
            (entry.path or str(entry.id))
            for entry in self._entries
            if not (named.get(str(entry.id)) or _AS_IN_BURN).lies_as(as_it_lies.get(str(entry.id), _AS_IN_BURN))
        )
        if of_torch:
            remedy = (
                "make a record of it by interop.import_torch_optimizer(state_dict, module) of the module that it was"
                " made with, and load that"
            )
        else:
            remedy = (
                "load it into an optimizer of the module that it was saved for, of burnlike's layers if Burn saved it,"
                " and take the into_record() of that"
            )
        raise RecordMismatchError(
            f"{self._record.source} does not say whether it lies as in Burn or as in torch, and the state of '{path}'"
            f" has a shape that fits both; {remedy}. The optimizer is as it was"
        )

    def fitting(self, notes: Mapping[str, Layout]) -> int | None:
        """The number of targets with a state of their shape, if states lie as `notes` says; None if one has another."""
        try:
            record = self.result(notes)
        except RecordMismatchError:
            return None
        matches, _ = match_entries(entries_of(record), self._targets, self._report)
        pairs = [(self._shape_of(entry, record), owner.param.tensor.shape) for entry, owner in matches if owner]
        return None if any(shape not in (None, wanted) for shape, wanted in pairs) else len(pairs)

    def _pieces(self, entry: StateEntry, layout: Layout) -> list[_Piece]:
        """The states of Burn's tensors that a state is made of."""
        if not layout.parts:
            raise self._refusal(entry, "belongs to a parametrized layer, whose other layouts are not known")
        if "$tensor" in repr(entry.values):  # which names tensors of the record
            raise self._refusal(entry, "has lists of tensors, which can't be laid out otherwise; begin it anew")
        tensors = {name: self._record.tensors[full] for name, full in entry.tensors.items()}
        if layout.lies_as(_AS_IN_BURN):
            return [_Piece(entry, layout.parts[0], tensors)]
        shape = self._shape_of(entry, self._record)
        for name, tensor in tensors.items():
            self._check_field(entry, name, tensor, shape, joins=len(layout.parts) > 1)
        return [_Piece(entry, part, self._part(tensors, layout, place)) for place, part in enumerate(layout.parts)]

    def _joined(self, target: StateOwner, pieces: Sequence[_Piece]) -> tuple[StateEntry, dict[str, Tensor]]:
        """The state of a target, of those of Burn's tensors that it is made of."""
        layout, first = self._wanted[target.id], pieces[0]
        new = replace(first.entry, id=target.id, path=target.param.path, rank=None)
        if layout.lies_as(_AS_IN_BURN):
            return new, dict(first.tensors)
        for other in pieces[1:]:
            scalars = [{name: float(it) for name, it in one.tensors.items() if it.dim() == 0 and not it.is_meta}
                       for one in (first, other)]  # fmt: skip
            alike = first.tensors.keys() == other.tensors.keys() and scalars[0] == scalars[1]
            if not alike or first.entry.values != other.entry.values:
                reason = f"has other steps than that of '{other.part.path}', with which it is one in '{new.path}'"
                raise self._refusal(first.entry, reason)
        recipe = layout.recipe()
        laid_out_fields: dict[str, Tensor] = {}
        for name in first.tensors:
            fields = {str(place): it.tensors[name] for place, it in enumerate(pieces)}
            for place, piece in enumerate(pieces):
                shape = _common_shape(field.shape for field in piece.tensors.values())
                self._check_field(piece.entry, name, fields[str(place)], shape, joins=len(pieces) > 1)
            is_scalar = first.tensors[name].dim() == 0
            laid_out_fields[name] = first.tensors[name] if is_scalar else recipe.make(fields).contiguous()
        self._changed = self._changed or any(field.dim() > 1 or len(pieces) > 1 for field in laid_out_fields.values())
        return new, _swapped(laid_out_fields) if layout.parts[0].transposed else laid_out_fields

    def _part(self, tensors: Mapping[str, Tensor], layout: Layout, place: int) -> dict[str, Tensor]:
        """The fields of Burn's tensor number `place` of a parameter."""
        source = layout.source(place)
        fields = {name: it if it.dim() == 0 else source.taken_from(it).contiguous() for name, it in tensors.items()}
        self._changed = self._changed or any(field.dim() > 1 or len(layout.parts) > 1 for field in fields.values())
        return _swapped(fields) if source.transposed else fields

    def _check_field(
        self, entry: StateEntry, name: str, tensor: Tensor, shape: torch.Size | None, *, joins: bool
    ) -> None:
        """Refuse what does not lie as its parameter: codes of moments with scales, means of rows, flat vectors."""
        if is_distributed(tensor):
            remedy = "gather it: load it into an optimizer without fully_shard, and take the into_record() of that"
            raise self._refusal(entry, f"is divided among processes, and is to be laid out otherwise; {remedy}")
        if tensor.dim() == 0:
            return
        if shape is None or not _fits(tensor.shape, shape) or (joins and tensor.shape != shape):
            raise self._refusal(
                entry,
                f"has '{name}' of shape {list(tensor.shape)}, which can't be laid out as"
                f" {'torch' if joins else 'the other library'} has the parameter; begin its state anew",
            )

    def _shape_of(self, entry: StateEntry, record: Record) -> torch.Size | None:
        noted_shapes = record.values.get("shapes")
        if isinstance(noted_shapes, Mapping) and str(entry.id) in noted_shapes:
            return torch.Size(noted_shapes[str(entry.id)])
        return _common_shape([shape_in(record.tensors, name) for name in entry.tensors.values()])

    def _pieces_for(self, target: StateOwner, pieces: Sequence[_Piece], used: set[int]) -> list[_Piece]:
        """The states of Burn's tensors that the target is made of; none if there is none of any."""
        parts = self._wanted[target.id].parts
        chosen = [self._piece_for(part, pieces, used) for part in parts]
        missing = [part.path for part, it in zip(parts, chosen, strict=True) if it is None]
        if not parts or len(missing) == len(parts):
            return []
        if missing:
            raise RecordMismatchError(
                f"{self._record.source}: '{target.param.path}' is made of {len(parts)} parameters of Burn's, and there"
                f" is no state of '{missing[0]}'. The optimizer is as it was"
            )
        return [it for it in chosen if it is not None]

    def _piece_for(self, part: Part, pieces: Sequence[_Piece], used: set[int]) -> _Piece | None:
        ids = {} if self._report is None else self._report.ids
        names = {} if self._report is None else self._report.renamed
        left = [piece for piece in pieces if id(piece) not in used]
        by_id = (it for it in left if it.part.id is not None and ids.get(it.part.id, it.part.id) == part.id)
        by_path = (it for it in left if part.path in (it.part.path, names.get(it.part.path)))
        return next(by_id, None) or next(by_path, None)

    def _record_of(
        self,
        kept: Sequence[StateEntry],
        converted: Sequence[tuple[StateEntry, dict[str, Tensor], StateOwner | None, list[str]]],
        notes: Mapping[str, Layout],
    ) -> Record:
        record = self._record
        rows = [
            *(
                (it, {name: record.tensors[full] for name, full in it.tensors.items()}, None, [str(it.id)])
                for it in kept
            ),
            *converted,
        ]
        tensors = {name: record.tensors[name] for name in record.tensors if name.partition(".")[0] == GROUPS}
        states: dict[str, Any] = {}
        layouts = {text: _note(note) for text, note in notes.items()}
        now: dict[str, list[str]] = {}
        shapes = dict(record.values.get("shapes", {}))
        for entry, fields, owner, origins in rows:
            tensors |= {f"{entry.id}.{name}": field for name, field in fields.items()}
            states |= {f"{entry.id}.{name}": value for name, value in entry.values.items()}
            for text in origins:
                now.setdefault(text, []).append(str(entry.id))
            if owner is not None:
                layouts.pop(str(entry.id), None)
                shapes[str(entry.id)] = list(owner.param.tensor.shape)
        values = {**record.values, "states": states, LAYOUTS: layouts}
        values["paths"] = {str(it.id): it.path for it, *_ in rows if it.path is not None}
        if GROUPS in values:
            for text in {*now} & {*shapes}:
                if text not in now[text]:
                    del shapes[text]
            values |= {"shapes": shapes, GROUPS: [_with_params(it, now) for it in values[GROUPS]]}
        return replace(record, tensors=tensors, values=values, layout=None)

    def _refusal(self, entry: StateEntry, reason: str) -> RecordMismatchError:
        return RecordMismatchError(f"{self._record.source}: the state of {entry} {reason}. The optimizer is as it was")


def _swapped(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    both = tensors.keys() >= _OF_TRANSPOSE.keys()
    return {_OF_TRANSPOSE.get(name, name): tensor for name, tensor in tensors.items()} if both else tensors


def _fits(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    """True if a tensor of a state has its parameter's shape, or 1 in place of some sizes, as means over them have."""
    return len(shape) == len(wanted) and all(size in (1, of) for size, of in zip(shape, wanted, strict=True))


def _common_shape(shapes: Iterable[torch.Size]) -> torch.Size | None:
    """The shape of a parameter, from those of its state's tensors; None if they don't tell."""
    shapes = [*shapes]
    full = [shape for shape in shapes if shape and len(shape) == max(map(len, shapes))]
    try:
        return torch.broadcast_shapes(*full) if full else None
    except RuntimeError:  # shapes that don't broadcast, as of flat vectors beside matrices
        return None


def _with_params(group: Any, now: Mapping[str, Sequence[str]]) -> Any:
    if not isinstance(group, Mapping):
        return group
    texts = [new for text in group.get("params", ()) for new in now.get(text, [text])]
    return {**group, "params": [*dict.fromkeys(texts)]}


def _layouts_of(modules: Iterable[nn.Module]) -> dict[tuple[int, str], Layout]:
    """The layouts of parameters that lie otherwise, or have another name, in Burn, by their homes."""
    ours: dict[tuple[int, str], tuple[str, TensorRecipe | None]] = {}
    modules = [*modules]
    for module in modules:
        for layer, pair in _torch_layers(module):
            named = tensors_of(layer)
            recipes: dict[str, TensorRecipe | None] = {**inverse(whole(pair.places(named)))}
            recipes |= dict.fromkeys(name for name in named if "parametrizations." in name)
            for name, recipe in recipes.items():
                owner, last = owner_of(layer, name)
                ours[id(owner), last] = name, recipe
    layouts: dict[tuple[int, str], Layout] = {}
    for param in (parameter for module in modules for parameter in params(module, "weight")) if ours else ():
        home = _home(param)
        if home not in ours:
            continue
        name, recipe = ours[home]
        if recipe is None:
            layouts[home] = Layout(())
            continue
        prefix = param.path.removesuffix(name)
        ids: Sequence[ParamId | None] = [param.id]
        if len(recipe.sources) > 1:
            owner, last = param.home
            numbers = fields_of(owner).get(last, {}).get("parts", ())
            has_all = len(numbers) == len(recipe.sources)
            ids = [ParamId(number) for number in numbers] if has_all else [None] * len(recipe.sources)
        sources = zip(recipe.sources, ids, strict=True)
        parts = (Part(f"{prefix}{it.name}", param_id, it.transposed) for it, param_id in sources)
        layout = Layout(tuple(parts), recipe.dim)
        if layout.parts[0] != (param.path, param.id, False) or len(layout.parts) > 1:
            layouts[home] = layout
    return layouts


def _torch_layers(module: nn.Module) -> Iterator[tuple[nn.Module, Counterpart]]:
    """The layers of torch's that have a counterpart, or whose class is derived from one that has."""
    pairs = (it for kind in type(module).__mro__ for it in of_torch().get(kind, ()))
    pair = next((it.of(module) for it in pairs if it.fits(module)), None)
    if pair is not None and not isinstance(module, getattr(layers, pair.layer)):
        yield module, pair
        return
    for child in module._modules.values():
        if child is not None:
            yield from _torch_layers(child)


def _home(param: Any) -> tuple[int, str]:
    module, name = param.home
    return id(module), name


def _note(layout: Layout) -> Any:
    if not layout.parts:
        return _UNKNOWN
    parts = [
        {"path": part.path, "transposed": part.transposed, **({} if part.id is None else {"id": str(part.id)})}
        for part in layout.parts
    ]
    return {"parts": parts, "dim": layout.dim}


def _notes_in(record: Record) -> dict[str, Layout] | None:
    """The layouts that a record says; None if it says nothing of them."""
    notes = record.values.get(LAYOUTS)
    if notes is None:
        return None
    try:
        return {text: _layout_in(note) for text, note in notes.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RecordMismatchError(
            f"{record.source}: expected under '{LAYOUTS}' of which tensors of Burn's parameters are made, got"
            f" {notes!r:.80}; it is damaged"
        ) from error


def _layout_in(note: Any) -> Layout:
    if note == _UNKNOWN:
        return Layout(())
    parts = tuple(
        Part(str(it["path"]), ParamId.parse(it["id"]) if "id" in it else None, bool(it["transposed"]))
        for it in note["parts"]
    )
    return Layout(parts, int(note["dim"]))
