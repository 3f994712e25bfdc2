import subprocess
import sys
from pathlib import Path

import pytest

from burnlike.config import DatasetConfig, LrSchedulerConfig, ModuleConfig, OptimizerConfig
from burnlike.nn import LinearConfig
from burnlike.record import save


def test_init_from_builds_the_module_with_the_values_of_a_record(tmp_path):
    config = LinearConfig(d_input=3, d_output=2)
    module = config.init()
    save(module, tmp_path / "linear.safetensors")
    again = config.init_from(tmp_path / "linear.safetensors", device="cpu")
    assert type(again) is type(module)
    assert {name: value.tolist() for name, value in again.state_dict().items()} == {
        name: value.tolist() for name, value in module.state_dict().items()
    }


@pytest.mark.parametrize("role", [ModuleConfig, OptimizerConfig, LrSchedulerConfig, DatasetConfig])
def test_each_role_reads_any_of_its_classes_by_type(role):
    from burnlike.config.registry import imported, load_built_in

    load_built_in()
    classes = imported(role)
    assert classes
    assert all(issubclass(cls, role) for cls in classes.values())


def test_configs_import_no_torch():
    code = (
        "import sys, burnlike, burnlike.config\n"
        "from burnlike.config.registry import load_built_in; load_built_in()\n"
        "heavy = {'torch', 'numpy', 'rich', 'safetensors'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_every_type_lies_in_a_file_that_the_registry_finds():
    code = (
        "from burnlike.config import Config, registry\n"
        "found = registry.types_by_role(Config)\n"
        "from burnlike import data, module, nn, optim, train\n"
        "for part in (data, module, nn, optim, train): [getattr(part, name) for name in part.__all__]\n"
        "missed = {role: {*tags} - {*found.get(role, ())} for role, tags in registry.types_by_role(Config).items()}\n"
        "assert not any(missed.values()), missed\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, cwd=Path(__file__).parents[2])
