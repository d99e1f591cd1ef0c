"""The README is true: its example runs and prints what it says, its links and files exist."""

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_example_prints_what_it_says():
    """Runs the one Python block in a fresh namespace; the text block after it is the output."""
    (code,), (stated,) = blocks("python"), blocks("text")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert printed.getvalue() == stated
    assert len([line for line in code.splitlines() if line.strip()]) <= 12


def test_the_two_commands_are_named():
    commands = "".join(blocks("bash")).split("\n")
    assert [line.split("#")[0].strip() for line in commands][:2] == ["make paper", "make test"]


def test_every_public_function_it_names_exists():
    import fastmm as mm

    names = set(re.findall(r"`mm\.([a-z_]+(?:\.[a-z_]+)*)", README))
    assert len(names) > 8
    for name in names:
        value = mm
        for part in name.split("."):
            value = getattr(value, part)
