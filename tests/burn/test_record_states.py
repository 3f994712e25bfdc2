"""Files of the tests, states of optimizers and states of schedules, there and back between Burn and burnlike."""

import json
import struct
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

import burnlike as bl
from burnlike.module import params
from burnlike.optim import GradientsParams, OptimizerAdaptor
from tests.burn_configs import optimizer_config, scheduler_config
from tests.golden.folder import Golden, read_folder
from tests.golden.modules import built

from .record_cases import answers_of, check_content, same_bits
from .running import packed, random_of, unpacked

pytestmark = pytest.mark.burn

GOLDEN = Path(__file__).parents[1] / "golden"


def layers_of(version: str) -> list[Golden]:
    goldens = read_folder(GOLDEN / version)
    return [it for it in goldens if it.kind == "module" and "type" in (it.values.get("config") or {})]


def layer_case(golden: Golden, **more: Any) -> dict[str, Any]:
    config = {name: it for name, it in golden.values["config"].items() if name != "type"}
    return {"kind": "layer", "layer": golden.values["config"]["type"], "config": config, **more}


def name_of(golden: Golden) -> str:
    return golden.label.rpartition("/")[2].partition(".")[0]


def files_of(folder: str, extension: str) -> list[Path]:
    return sorted((GOLDEN / folder).glob(f"*{extension}"))


def test_burn_reads_the_burnpacks_of_the_tests_as_burnlike_does(tmp_path: Path) -> None:
    paths = [*files_of("v0.22", ".bpk"), GOLDEN / "older" / "target_net.bpk"]
    again = [tmp_path / path.name for path in paths]
    for path, copy in zip(paths, again, strict=True):
        assert Path(bl.record.save(bl.record.open_record(path), copy)).read_bytes() == path.read_bytes(), path
    answers = answers_of([{"kind": "pack", "load": str(path)} for path in (*paths, *again)])
    for path, first, second in zip(paths, answers, answers[len(paths) :], strict=False):
        assert first == second, path
        if not first["scalars"] and not path.name.startswith("optim"):
            check_content(bl.record.open_record(path), first["tensors"], path)


@pytest.mark.parametrize("version", ["v0.21", "v0.22"])
def test_files_of_layers_become_burnpacks_that_burn_loads(version: str, tmp_path: Path) -> None:
    cases, records = list[dict[str, Any]](), list[bl.record.Record]()
    for golden in layers_of(version):
        if golden.values["config"]["type"] == "Net":
            continue
        name = name_of(golden)
        extensions = ("-full.mpk", "-full.json", "-full.bin") if version == "v0.21" else (".bpk", ".safetensors")
        for extension in extensions:
            path, model = GOLDEN / version / f"{name}{extension}", built(golden.values["config"])
            bl.record.load(model, path)
            target = tmp_path / f"{name}{extension}.bpk"
            bl.record.save(model, target)
            records.append(bl.record.Record.of(model))
            cases.append(layer_case(golden, load=str(target), save=str(tmp_path / f"again-{name}{extension}.bpk")))
    assert len(cases) > 55
    for case, record, answer in zip(cases, records, answers_of(cases), strict=True):
        for it in answer["tensors"]:
            it["id"] = None if "running_" in it["name"] else it["id"]
        check_content(record, answer["tensors"], case)
        if case["layer"] != "BatchNorm":
            assert Path(case["save"]).read_bytes() == Path(case["load"]).read_bytes(), case


def test_burns_store_reads_the_safetensors_files_of_the_tests() -> None:
    goldens = [it for it in layers_of("v0.22") if it.values["config"]["type"] != "Net"]
    paths = [GOLDEN / "v0.22" / f"{name_of(it)}.safetensors" for it in goldens]
    cases = [
        layer_case(golden, store="safetensors", load=str(path)) for golden, path in zip(goldens, paths, strict=True)
    ]
    for case, path, answer in zip(cases, paths, answers_of(cases), strict=True):
        check_content(bl.record.open_record(path), answer["tensors"], case, ids=False)


def test_every_file_of_older_versions_becomes_a_burnpack_that_burn_reads(tmp_path: Path) -> None:
    older = [path for version in ("v0.14", "v0.16", "v0.20", "v0.21") for path in files_of(f"older/{version}", ".mpk")]
    cases, records = list[dict[str, Any]](), list[bl.record.Record]()
    for path in (*files_of("v0.21", ".mpk"), *files_of("v0.21", "-full.json"), *older):
        record = bl.record.open_record(path)
        if path.name.startswith("lr_"):
            continue  # refused, as numbers without names
        cases.append({"kind": "pack", "load": str(tmp_path / f"{len(cases)}.bpk")})
        records.append(record)
        bl.record.save(record, cases[-1]["load"])
    assert len(cases) > 90
    for case, record, answer in zip(cases, records, answers_of(cases), strict=True):
        if "states" in record.values:
            names = {bl.ParamId(int(it["id"])): it for it in answer["tensors"]}
            assert {str(it) for it in names} == {name.partition(".")[0] for name in record.tensors}, case
            for it in answer["tensors"]:
                number, _, rest = it["name"].partition(".")
                tensor = record.tensors[f"{bl.ParamId(int(number))}.{rest}"]
                assert same_bits(tensor, unpacked(it["value"])), (case, it["name"])
        else:
            check_content(record, answer["tensors"], case)


RULES: dict[str, list[dict[str, Any]]] = {
    "Sgd": [{}, {"momentum": {"momentum": 0.9, "dampening": 0.1, "nesterov": True}, "weight_decay": {"penalty": 0.01}}],
    "Adam": [{}, {"amsgrad": True, "weight_decay": {"penalty": 0.05}}],
    "AdamW": [{}, {"cautious_weight_decay": True, "amsgrad": True, "grad_clipping": {"Norm": 0.5}}],
    "AdaGrad": [{}, {"lr_decay": 0.1}],
    "RmsProp": [{}, {"centered": True, "momentum": 0.9}, {"momentum": 0.0}],
    "Adan": [{}],
    "Lion": [{}],
    "Lamb": [{"weight_decay": 0.1}],
    "Adafactor": [{}],
    "Muon": [{}],
}
STEPS, SAVE_AT = 4, 2


def linear(random: Random, *, bias: bool) -> bl.nn.Linear:
    return bl.nn.LinearConfig(d_input=random.randint(1, 5), d_output=random.randint(1, 4), bias=bias).init()


def stepped(model: bl.nn.Linear, optimizer: OptimizerAdaptor, grads: list[dict[str, torch.Tensor]], lr: float) -> None:
    for step in grads:
        given = GradientsParams()
        for param in params(model):
            given.register(param, step[param.path])
        optimizer.step(lr, model, given)


def close(one: torch.Tensor, other: torch.Tensor, case: object) -> None:
    torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-6, msg=lambda text: f"{case}: {text}")


def test_states_of_optimizers_go_on_on_the_other_side(tmp_path: Path) -> None:
    random = random_of("states of optimizers")
    cases, parts = list[dict[str, Any]](), list[Any]()
    for rule, config in ((rule, config) for rule, configs in RULES.items() for config in configs for _ in range(2)):
        model = linear(random, bias=rule != "Muon" and random.random() < 0.7)
        shapes = {param.path: tuple(param.tensor.shape) for param in params(model)}
        grads = [{path: torch.randn(shape) for path, shape in shapes.items()} for _ in range(STEPS)]
        name, lr = str(len(parts)), random.choice([0.1, 0.01])
        case = {
            "kind": "optimizer",
            "optimizer": rule,
            "config": config,
            "sizes": list(shapes["weight"]),
            "bias": "bias" in shapes,
            "lr": lr,
        }
        texts = [{path: packed(it) for path, it in step.items()} for step in grads]
        bl.record.save(model, tmp_path / f"{name}-start.bpk")
        optimizer = optimizer_config(rule, config).init()
        twin = bl.nn.LinearConfig(d_input=shapes["weight"][0], d_output=shapes["weight"][1], bias=case["bias"]).init()
        bl.record.load(twin, tmp_path / f"{name}-start.bpk")
        stepped(model, optimizer, grads[:SAVE_AT], lr)
        bl.record.save(model, tmp_path / f"{name}-middle.bpk")
        own = bl.record.open_record(optimizer.save(tmp_path / f"{name}-optimizer.bpk"))
        middle = [param.tensor.detach().clone() for param in params(model)]
        stepped(model, optimizer, grads[SAVE_AT:], lr)
        parts.append((name, model, middle, own, grads, texts))
        burn = {"module": str(tmp_path / f"{name}-start.bpk"), "save": str(tmp_path / f"{name}-burn.bpk")}
        cases.append({**case, **burn, "save_at": SAVE_AT, "grads": texts})
        burn = {"module": str(tmp_path / f"{name}-middle.bpk"), "load": str(tmp_path / f"{name}-optimizer.bpk")}
        cases.append({**case, **burn, "grads": texts[SAVE_AT:]})
    answers = answers_of(cases)
    for index, (name, model, middle, own, grads, _) in enumerate(parts):
        case, whole, gone_on = cases[2 * index], answers[2 * index], answers[2 * index + 1]
        record = bl.record.Record.of(model)
        for answer in (whole, gone_on):
            for it in answer["tensors"]:
                close(unpacked(it["value"]), record.tensors[it["name"]], (case["optimizer"], case["config"]))
        path = tmp_path / f"{name}-burn.bpk"
        burns = bl.record.open_record(path)
        assert Path(bl.record.save(burns, tmp_path / "again.bpk")).read_bytes() == path.read_bytes(), case
        assert burns.tensors.keys() == own.tensors.keys(), case
        assert burns.values.get("states") == own.values["states"], case
        for key, tensor in burns.tensors.items():
            close(tensor, own.tensors[key], (case["optimizer"], case["config"], key))
        with torch.no_grad():
            for param, tensor in zip(params(model), middle, strict=True):
                param.tensor.copy_(tensor)
        optimizer = optimizer_config(case["optimizer"], case["config"]).init().load(path, module=model)
        saved = Path(optimizer.save(tmp_path / "loaded.bpk")).read_bytes()
        if case["optimizer"] != "Muon":  # whose layout the names do not tell: it is in the metadata, too
            assert saved == path.read_bytes(), case
        stepped(model, optimizer, grads[SAVE_AT:], case["lr"])
        record = bl.record.Record.of(model)
        for it in whole["tensors"]:
            close(unpacked(it["value"]), record.tensors[it["name"]], (case["optimizer"], case["config"]))


@pytest.mark.parametrize("version", ["v0.14", "v0.16", "v0.20"])
@pytest.mark.parametrize("rule", ["Adam", "Sgd"])
def test_states_of_older_versions_go_on_in_burn(version: str, rule: str, tmp_path: Path) -> None:
    folder = GOLDEN / "older" / version
    name = {"Adam": "optim_adam", "Sgd": "optim_sgd_momentum"}[rule]
    config = {} if rule == "Adam" else {"momentum": {"momentum": 0.9, "dampening": 0.1, "nesterov": False}}
    weight, bias = json.loads((folder / f"{name}.values.json").read_text())["before"]
    tensors = {key: torch.tensor(it["values"]).reshape(it["shape"]) for key, it in (("weight", weight), ("bias", bias))}
    ids = {"weight": bl.ParamId.parse(weight["id"]), "bias": bl.ParamId.parse(bias["id"])}
    model = bl.nn.LinearConfig(d_input=3, d_output=2).init()
    bl.record.Record(tensors, ids=ids).load_into(model)
    bl.record.save(model, tmp_path / "model.bpk")
    bl.record.save(bl.record.open_record(folder / f"{name}-full.mpk"), tmp_path / "optimizer.bpk")
    grads = [{key: torch.ones_like(it) for key, it in tensors.items()}]
    (answer,) = answers_of(
        [
            {
                "kind": "optimizer",
                "optimizer": rule,
                "config": config,
                "sizes": [3, 2],
                "bias": True,
                "lr": 0.1,
                "module": str(tmp_path / "model.bpk"),
                "load": str(tmp_path / "optimizer.bpk"),
                "grads": [{key: packed(it) for key, it in grads[0].items()}],
            }
        ]
    )
    optimizer = optimizer_config(rule, config).init().load(folder / f"{name}-full.mpk", module=model)
    stepped(model, optimizer, grads, 0.1)
    record = bl.record.Record.of(model)
    for it in answer["tensors"]:
        close(unpacked(it["value"]), record.tensors[it["name"]], (version, rule))
    assert not record.tensors["weight"].equal(tensors["weight"])


def drawn_schedule(random: Random, depth: int = 0) -> tuple[str, Any]:
    rate = random.choice([1.0, 0.1, 3e-4])
    kinds = ["Constant", "Linear", "Cosine", "Exponential", "Noam", "Step"]
    match kind := random.choice([*kinds, "Composed", "Sequential"] if depth == 0 else kinds):
        case "Constant":
            return kind, rate
        case "Linear":
            return kind, {"initial_lr": rate, "final_lr": rate / 7, "num_iters": random.randint(1, 9)}
        case "Cosine":
            return kind, {"initial_lr": rate, "min_lr": rate / 9, "num_iters": random.randint(1, 9)}
        case "Exponential":
            return kind, {"initial_lr": rate, "gamma": random.choice([0.5, 0.99])}
        case "Noam":
            return kind, {"factor": rate, "warmup_steps": random.randint(1, 5), "model_size": random.choice([1, 64])}
        case "Step":
            return kind, {"initial_lr": rate, "step_size": random.randint(1, 3), "gamma": 0.3}
    children = [dict([drawn_schedule(random, 1)]) for _ in range(random.randint(1, 3))]
    if kind == "Composed":
        return kind, {"schedulers": children, "reduction": random.choice(["Avg", "Sum", "Prod"])}
    milestones = sorted(random.sample(range(1, 9), len(children) - 1))
    return kind, {"schedulers": children, "milestones": milestones}


def test_states_of_schedules_go_on_on_the_other_side(tmp_path: Path) -> None:
    random = random_of("states of schedules")
    cases, drawn = list[dict[str, Any]](), list[Any]()
    for index in range(100):
        kind, fields = drawn_schedule(random)
        before, after = random.randint(0, 6), random.randint(1, 8)
        schedule = scheduler_config(kind, fields, restart=False).init()
        for _ in range(before):
            schedule.step()
        own = schedule.save(tmp_path / f"{index}-own.bpk")
        case = {"kind": "schedule", "config": {"base": {kind: fields}}}
        cases.append({**case, "steps": before + after, "save_at": before, "save": str(tmp_path / f"{index}-burn.bpk")})
        cases.append({**case, "steps": after, "load": str(own)})
        drawn.append((kind, fields, before, [schedule.step() for _ in range(after)]))
    answers = answers_of(cases)
    for index, (kind, fields, before, rates) in enumerate(drawn):
        whole, gone_on = (rates_of(it) for it in answers[2 * index : 2 * index + 2])
        assert rates == pytest.approx(whole[before:], rel=1e-12), (kind, fields)
        assert gone_on == whole[before:], (kind, fields)
        burns, own = tmp_path / f"{index}-burn.bpk", tmp_path / f"{index}-own.bpk"
        assert burns.read_bytes() == own.read_bytes(), (kind, fields)
        again = scheduler_config(kind, fields, restart=False).init()
        bl.record.load(again, burns)
        assert [again.step() for _ in rates] == rates, (kind, fields)


def rates_of(answer: dict[str, Any]) -> list[float]:
    return [struct.unpack("<d", struct.pack("<Q", it))[0] for it in answer["rates"]]
