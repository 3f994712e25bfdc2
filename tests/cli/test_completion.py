"""`burnlike completion`: what shells offer."""

import shutil
import subprocess
from pathlib import Path

import pytest

from burnlike.cli.main import COMMANDS, main


@pytest.fixture
def scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Path]:
    found = {}
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        found[shell] = tmp_path / shell
        found[shell].write_text(capsys.readouterr().out)
    return found


def offered(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    line = " ".join(f"'{it}'" for it in ("burnlike", *words))
    program = (
        f'source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _burnlike; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    return subprocess.run(["bash", "-c", program], check=True, capture_output=True, text=True).stdout.split()


def test_bash_offers_commands_options_and_configs(scripts: dict[str, Path]) -> None:
    assert {it.name for it in COMMANDS} <= {*offered(scripts["bash"], "")}
    assert offered(scripts["bash"], "ch") == ["check"]
    assert offered(scripts["bash"], "train", "--sw") == ["--sweep"]
    assert offered(scripts["bash"], "check", "char_gpt_t") == ["char_gpt_tiny"]
    assert offered(scripts["bash"], "completion", "f") == ["fish"]
    assert offered(scripts["bash"], "nothing", "a") == []


def test_fish_and_zsh_name_every_command_and_option(scripts: dict[str, Path]) -> None:
    fish, zsh = scripts["fish"].read_text(), scripts["zsh"].read_text()
    for command in COMMANDS:
        assert f"-a {command.name} -d " in fish
        assert f" {command.name}) words=" in zsh
    assert "'__fish_seen_subcommand_from train' -l sweep -r -d " in fish
    assert "bashcompinit" in zsh


@pytest.mark.parametrize("shell", [it for it in ("bash", "zsh", "fish") if shutil.which(it)])
def test_shells_can_read_them(shell: str, scripts: dict[str, Path]) -> None:
    subprocess.run([shell, "-n", scripts[shell]], check=True)


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "cmd"])
    assert "invalid choice: 'cmd'" in capsys.readouterr().err
