"""The README: its example runs and prints what it says, and the names in it exist."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import fastmm as mm

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def stated_output(example: str) -> list[str]:
    """What the comments behind the print calls promise."""
    return re.findall(r"^print\(.*\)\s+# (.*)$", example, re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_prints_what_it_states(example):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {})
    assert printed.getvalue().splitlines() == stated_output(example)


def test_there_is_an_example_that_states_its_output():
    assert len(EXAMPLES) == 1
    assert len(stated_output(EXAMPLES[0])) >= 3
    assert len(EXAMPLES[0].splitlines()) <= 14


def test_names_in_the_text_exist():
    for name in set(re.findall(r"`mm\.([A-Za-z_.]+)", README)):
        thing = mm
        for part in name.split("."):
            thing = getattr(thing, part)


def test_the_commands_are_targets_of_the_makefile():
    commands = set(re.findall(r"^make ([a-z-]+)", README, re.MULTILINE))
    assert commands == {"paper", "test"}
