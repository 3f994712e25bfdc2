"""What a reader of README.md types: its programs and commands, for the test suite and for `make release-check`."""

import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()
_BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
FILES = {name: text for text, name in re.findall(r"```yaml\n(# (\S+\.yaml)\n.*?)```", README, re.DOTALL)}
FILES["people.csv"] = "age,city,churn\n" + "".join(
    f"{20 + 7 * row % 50},{('Bern', 'Basel')[row % 2]},{('no', 'yes')[row % 3 == 0]}\n" for row in range(60)
)
"""The files that its commands read, by their names: those that it shows, and a reader's own table."""
_SHELL = "".join(re.findall(r"```bash\n(.*?)```", README, re.DOTALL))

PROGRAMS = [it for it in _BLOCKS if "load_run" not in it]
COMMANDS = re.findall(r"^burnlike (.*?)(?: +#.*)?$", _SHELL, re.MULTILINE)
"""The words after `burnlike`, in the order in which they are typed."""

(AFTER_THE_COMMANDS,) = (it for it in _BLOCKS if "load_run" in it)
"""The program that uses what the commands have left."""

INSTALLS = re.findall(r"^pip install \"\./(burnlike-\S+\.whl)\[(.*?)\]\"", _SHELL, re.MULTILINE)
"""The files of wheels that it installs, with their extras."""
