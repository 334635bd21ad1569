"""An application of gunicorn whose workers are killed and restarted, against its own log."""

import collections
import os
import random
import signal
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import wait_for

pytest.importorskip("gunicorn")

WORKERS = 8

APPLICATION = """
import os, signal
import mmv

registry = mmv.Registry("shop", per_process=True)
requests = mmv.Counter("requests", "Requests answered", ["endpoint"], registry=registry)
latency = mmv.Histogram("latency", "Time to answer", ["endpoint"], registry=registry)
log = os.open("requests.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def application(environ, start_response):
    endpoint = environ["PATH_INFO"].strip("/")
    with latency.labels(endpoint).time():
        requests.labels(endpoint).inc()
        os.write(log, f"{os.getpid()} {endpoint}\\n".encode())
    if endpoint == "die" and f"harvested file=shop.{os.getpid()} " in open("agent.log").read():
        os.kill(os.getpid(), signal.SIGKILL)
    start_response("200 OK", [("Content-Length", "0")])
    return []
"""


class Server:
    def __init__(self, machine, *options):
        machine.write("shop.py", APPLICATION)
        self.directory = machine.directory
        self.log = machine.directory / "requests.log"
        command = ["-m", "gunicorn", "shop:application", "--workers", str(WORKERS)]
        command += ["--bind", "127.0.0.1:0", "--log-file", machine.directory / "gunicorn.log"]
        self.process = machine.start(*command, *options)
        wait_for(lambda: self.address() is not None)
        self.wait_for_agent(machine)

    def address(self):
        log = self.directory / "gunicorn.log"
        lines = log.read_text().splitlines() if log.exists() else []
        listening = [line for line in lines if "Listening at: " in line]
        return listening[0].split("Listening at: ")[1].split()[0] if listening else None

    def workers(self):
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            return [int(child) for child in children.read().split()]

    def wait_for_agent(self, machine):
        """Waits until all workers are there, and the agent has read the files of those that have
        counted. Returns the workers."""

        def are_known():
            workers = self.workers()
            counted = {int(process) for process, _ in self.counted()}.intersection(workers)
            return len(workers) == WORKERS and all(
                machine.has_read(f"shop.{worker}") for worker in counted
            )

        wait_for(are_known)
        return self.workers()

    def request(self, endpoint):
        try:
            urllib.request.urlopen(f"{self.address()}/{endpoint}", timeout=30).read()
        except OSError:
            # The worker died.
            pass

    def counted(self):
        """Returns the numbers of requests by process and endpoint, as the application logged them."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return collections.Counter(tuple(line.split()) for line in lines)


@pytest.mark.parametrize("options", [[], ["--preload"]])
def test_sums_of_killed_and_restarted_workers_are_those_of_the_log(machine, options):
    machine.start_agent()
    server = Server(machine, *options)
    chance = random.Random(1)
    with ThreadPoolExecutor(16) as clients:
        for turn in range(6):
            endpoints = chance.choices(["cart", "pay"], [2, 1], k=200)
            # One is killed at work, with requests waiting.
            endpoints[100] = "die"
            list(clients.map(server.request, endpoints))
            # Others when they have answered.
            workers = server.wait_for_agent(machine)
            for worker in chance.sample(workers, WORKERS // 2):
                os.kill(worker, signal.SIGKILL if turn % 3 else signal.SIGTERM)
            if turn == 4:
                server.process.send_signal(signal.SIGHUP)
            server.wait_for_agent(machine)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=60) == 0
    machine.stop_agent()

    counted = server.counted()
    assert len({process for process, _ in counted}) > 2 * WORKERS
    assert sum(counted.values()) >= 6 * 200 - 6 * 16
    expected = {
        f"process={process},endpoint={endpoint}": number
        for (process, endpoint), number in counted.items()
    }
    assert machine.totals("mmv.shop.requests") == expected
    buckets = machine.totals("mmv.shop.latency.bucket")
    assert sum(buckets.values()) == sum(counted.values())
    # Of workers that were killed; the next one removes them when they are older than an hour.
    for name in machine.names():
        os.utime(machine.files / name, (0, 0))
    machine.run("import mmv; mmv.Registry('shop', per_process=True)")
    assert machine.names() == []
