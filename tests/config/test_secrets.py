"""What a config must not give away or make: values of environment variables, and layers beyond all use."""

import pickle
from pathlib import Path

import pytest

from burnlike.cli.main import main
from burnlike.config import ModuleConfig
from burnlike.config.file_paths import missing_files
from burnlike.config.hiding import hide_values, values_hidden
from burnlike.errors import ConfigError
from burnlike.train import TrainConfig

SECRET = "s3cr3t"
SHIPPED = Path(__file__).parents[2] / "burnlike" / "configs" / "char_gpt_tiny.yaml"


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"KEY": SECRET, "FOLDER": f"/nowhere/{SECRET}", "COUNT": "3"}.items():
        monkeypatch.setenv(name, value)


def read(*options: str) -> TrainConfig:
    return TrainConfig.load(SHIPPED, options)


def test_a_config_is_written_with_the_references() -> None:
    config = read("data.path=${env:FOLDER}", "data.pattern=$${${env:KEY}-${env:COUNT}", "task.prompt=${data.path}")
    assert config.data.path == f"/nowhere/{SECRET}"
    assert config.data.pattern == "${" + f"{SECRET}-3"
    assert config.task.prompt == config.data.path
    text = config.to_yaml()
    assert SECRET not in text
    assert "path: ${env:FOLDER}\n" in text
    assert "prompt: ${env:FOLDER}\n" in text
    assert TrainConfig.from_yaml(text) == config
    assert pickle.loads(pickle.dumps(config)).to_yaml() == text == config.replace(seed=config.seed).to_yaml()
    assert SECRET not in repr(config)


def test_a_default_of_a_reference_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEY")
    assert read("data.pattern=${env:KEY,*.txt}").to_yaml().count("*.txt") == 1


def test_messages_about_files_name_the_reference() -> None:
    ((path, message),) = missing_files(read("data.path=${env:FOLDER}"))
    assert path == "data.path"
    assert message.startswith("${env:FOLDER}: No such file")


@pytest.mark.parametrize(
    "option",
    [
        "training.epochs=${env:KEY}",
        "training.epochs=a${env:KEY}",
        "training.epochs=${device}",
        "optimizer.type=${env:KEY}",
        "device=${env:KEY}",
        "training=${env:KEY}",
        "training.precision=${env:KEY}",
        "task.prompt={a: '${env:KEY}'}",
        "metrics=['${env:KEY}']",
        "${env:KEY}=1",
    ],
)
def test_no_mistake_shows_a_value(option: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read("device=${env:KEY}", option)
    assert SECRET not in str(caught.value)
    assert "${" in str(caught.value)


def test_texts_have_the_references_in_place_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGER", f"{SECRET}/more")
    config = "a: ${env:KEY}\nb: x${env:LONGER,d}\nc: ${env:COUNT}\nd: ${env:UNSET_X}\n"
    assert hide_values(f"3 {SECRET} {SECRET}/more", config) == "3 ${env:KEY} ${env:LONGER}"


def fail() -> None:
    try:
        Path(f"/nowhere/{SECRET}").read_bytes()
    except OSError as error:
        raise OSError(f"no {SECRET}") from error


def test_no_error_of_a_training_shows_a_value() -> None:
    with pytest.raises(OSError, match=r"\$\{env:KEY\}") as caught, values_hidden(read("data.pattern=${env:KEY}")):
        fail()
    assert SECRET not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize("more", [[], ["--debug"], ["--sweep", "seed=1,2"]])
@pytest.mark.parametrize("option", ["data={type: Csv, path: '${env:FOLDER}', target: y}", "freeze=['${env:KEY}']"])
def test_no_command_shows_a_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, more: list[str]
) -> None:
    assert main(["train", str(SHIPPED), "--set", option, "--run-dir", str(tmp_path / "run"), *more]) == 2
    assert main(["check", str(SHIPPED), "--set", option]) == 2
    out = capsys.readouterr()
    assert "${env:" in out.out + out.err
    assert SECRET not in out.out + out.err


def test_a_literal_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "bfloat16")
    assert read("training.precision=${env:KEY}").training.precision is not None


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("{type: Repeat, times: 4096, layer: {type: Repeat, times: 9, layer: {type: Relu}}}", "36,864"),
        ("{type: Sequential, layers: [" + "{type: Repeat, times: 4096, layer: {type: Relu}}, " * 9 + "]}", "36,865"),
        (
            "{type: Repeat, times: 100, layer: {type: LstmLm, vocab_size: 2, n_layers: 400, d_model: 2, d_hidden: 2}}",
            "40,000",
        ),
    ],
)
def test_layers_within_repeated_layers_are_counted(text: str, count: str) -> None:
    with pytest.raises(ConfigError, match=f"makes {count} layers, those within repeated layers counted; expected at"):
        ModuleConfig.from_yaml(text)


def test_errors_that_are_each_others_cause_are_changed_once() -> None:
    first, second = ValueError(f"no {SECRET}"), ValueError(f"nor {SECRET}")
    first.__cause__, second.__cause__ = second, first
    with pytest.raises(ValueError, match=r"^no \$\{env:KEY\}$"), values_hidden(read("data.pattern=${env:KEY}")):
        raise first
    assert str(second) == "nor ${env:KEY}"
