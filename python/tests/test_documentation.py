"""docs/python.md, followed from top to bottom, and the examples of the READMEs."""

import pathlib
import re
import subprocess
import sys

import pytest
from conftest import PROGRAMS

ROOT = pathlib.Path(__file__).parents[2]


def blocks(page):
    """Returns the languages and texts of the fenced blocks of a page."""
    text = (ROOT / page).read_text()
    found = re.findall(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", text, re.MULTILINE)
    return [(info, re.sub(f"^{indent}", "", block, flags=re.MULTILINE)) for indent, info, block in found]


def likeness(output):
    """Returns what of an output does not depend on times and loads: words, and lines of numbers."""
    lines = [re.sub(r"[\d.:-]+", "0", line) for line in output.splitlines()]
    lines = [" ".join(line.split()) for line in lines]
    return [line for index, line in enumerate(lines) if index == 0 or line != lines[index - 1]]


def test_the_page_works_from_top_to_bottom(machine):
    machine.start_agent(interval="1s")
    programs = f"{PROGRAMS}:{pathlib.Path(sys.executable).parent}"
    machine.environment["PATH"] = f"{programs}:{machine.environment['PATH']}"
    commands = 0
    for info, block in blocks("docs/python.md"):
        if info == 'python title="shop.py"':
            machine.write("shop.py", block)
            continue
        assert info == "console"
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, shown = step.split("\n", 1)
            if command.startswith("pip install"):
                # ci/python has done that.
                continue
            shell = ["bash", "-c", command.replace("@", str(machine.archives))]
            ran = subprocess.run(
                shell, env=machine.environment, cwd=machine.directory, capture_output=True, text=True
            )
            assert ran.returncode == 0 and ran.stderr == "", ran.stderr
            assert likeness(ran.stdout) == likeness(shown), ran.stdout
            commands += 1
    assert commands == 3


@pytest.mark.parametrize("page", ["README.md", "python/README.md"])
def test_the_examples_of_the_readmes_count(machine, page):
    (example,) = [block for info, block in blocks(page) if info == "python"]
    output, errors = machine.run(
        example + "print(requests.labels('cart').value, latency.count, registry.is_published)"
    )
    assert (output, errors) == ("1 1 True\n", "")
