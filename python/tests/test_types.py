"""The stubs say what the module has."""

import subprocess
import sys

import pytest

pytest.importorskip("mypy")


def test_stubs_are_those_of_the_module():
    stubtest = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "mmv"], capture_output=True, text=True
    )
    assert stubtest.returncode == 0, stubtest.stdout + stubtest.stderr


def test_a_typed_program_passes_mypy_and_a_wrong_one_does_not(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        """
from mmv import Counter, Histogram, Registry
registry: Registry = Registry("shop", per_process=True)
requests: Counter = Counter("requests", "Requests", ["endpoint"], registry=registry)
requests.labels(endpoint="cart").inc(2)
latency = Histogram("latency", "Times")

@latency.time()
def work(amount: int) -> str:
    with latency.time():
        return str(amount)

text: str = work(1)
"""
    )
    mypy = [sys.executable, "-m", "mypy", "--strict", program]
    passed = subprocess.run(mypy, capture_output=True, text=True)
    assert passed.returncode == 0, passed.stdout
    program.write_text(program.read_text() + "requests.inc('1')\nwork('1')\n")
    failed = subprocess.run(mypy, capture_output=True, text=True)
    assert "Found 2 errors" in failed.stdout, failed.stdout
