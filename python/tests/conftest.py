"""What the tests share: files read by mmv-agent, programs in processes of their own, and the agent."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

PROGRAMS = pathlib.Path(
    os.environ.get("MMV_PROGRAMS_DIR", pathlib.Path(__file__).parents[2] / "target" / "debug")
)


class File:
    """The content of an MMV file, as mmv-agent reads it."""

    def __init__(self, path):
        inspect = [PROGRAMS / "mmv-agent", "inspect", "--json", path]
        read = subprocess.run(inspect, capture_output=True, text=True)
        assert read.returncode == 0, read.stdout + read.stderr
        self.content = json.loads(read.stdout)
        self.metrics = {metric["complete_name"]: metric for metric in self.content["metrics"]}

    def values(self, name):
        """Returns the values of a metric by the names of its instances."""
        metric = self.metrics[name]
        domains = {domain["serial"]: domain["instances"] for domain in self.content["indoms"]}
        names = {each["id"]: each["name"] for each in domains.get(metric["indom"], [])}
        return {names.get(each["instance"]): each["value"] for each in metric["values"]}

    def labels(self):
        """Returns the labels of all instances."""
        labels = self.content["labels"]
        return {(each["name"], json.loads(each["value"])) for each in labels if each["instance"]}


class Machine:
    """A directory of MMV files, the programs that publish there, and the agent that logs them."""

    def __init__(self, directory):
        self.directory = directory
        self.files = directory / "mmv"
        self.archives = directory / "archives"
        self.files.mkdir()
        self.environment = {**os.environ, "PCP_TMP_DIR": str(directory), "PYTHONWARNINGS": "error"}
        self.processes = []
        self.agent = None

    def names(self):
        """Returns the names of the published files."""
        return sorted(path.name for path in self.files.iterdir() if path.name[0] != ".")

    def read(self, name):
        return File(self.files / name)

    def write(self, name, source):
        path = self.directory / name
        path.write_text(source)
        return path

    def start(self, program, *arguments, **options):
        command = [sys.executable, program, *map(str, arguments)]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        options |= {"env": self.environment, "cwd": self.directory, "start_new_session": True}
        process = subprocess.Popen(command, **options)
        self.processes.append(process)
        return process

    def run(self, source, *arguments, **options):
        """Runs a program to its end. Returns its output and what it wrote to standard error."""
        process = self.start(self.write("program.py", source), *arguments, **options)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        return output, errors

    def start_agent(self, interval="100ms"):
        command = [PROGRAMS / "mmv-agent", "run", "--mmv-dir", self.files, "--archive-dir"]
        command += [self.archives, "--interval", interval, "--own-metrics", "false"]
        with open(self.directory / "agent.log", "w") as log:
            self.agent = subprocess.Popen(command, stderr=log)
        wait_for(lambda: list(self.archives.glob("*/*.meta")))

    def has_read(self, name):
        """Returns whether the agent has read a file since it was published."""
        return f"harvested file={name} " in (self.directory / "agent.log").read_text()

    def stop_agent(self):
        self.agent.send_signal(signal.SIGTERM)
        assert self.agent.wait(timeout=30) == 0, (self.directory / "agent.log").read_text()

    def end(self):
        """Kills what a failed test has left."""
        if self.agent is not None and self.agent.poll() is None:
            self.agent.kill()
            self.agent.wait()
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def totals(self, metric):
        """Returns the increases of the instances of a counter, as logged."""
        command = [PROGRAMS / "mmv-archive", "summary", self.archives, metric]
        command += ["--total", "--exact", "--format", "jsonl"]
        summary = subprocess.run(command, capture_output=True, text=True)
        assert summary.returncode == 0, summary.stderr
        lines = [json.loads(line) for line in summary.stdout.splitlines()]
        return {line["instance"]: line["sum"] for line in lines}


def wait_for(condition, seconds=60):
    """Waits until a condition holds; fails if it does not."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.01)


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    yield machine
    machine.end()
