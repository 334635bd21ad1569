"""Processes: names of programs, ends, forks, workers, and systems without room."""

import os
import resource
import signal

import pytest
from conftest import wait_for

# The program of most tests: counts once and runs the code that a test appends.
SHOP = """
import mmv, os, signal, sys, time
registry = mmv.Registry("shop", per_process="per_process" in sys.argv)
orders = mmv.Counter("orders", "Orders taken", registry=registry)
requests = mmv.Counter("requests", "Requests answered", ["endpoint"], registry=registry)
latency = mmv.Histogram("latency", "Time to answer", registry=registry)
waiting = mmv.Gauge("waiting", "Orders that wait", registry=registry)
orders.inc()
requests.labels("cart").inc()

def forked(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.waitpid(child, 0)

def ready():
    # Changes are announced a tenth of a second after the last ones.
    time.sleep(0.15)
    print("ready")
    sys.stdout.flush()
"""


def test_the_default_registry_has_the_name_of_the_program(machine):
    source = """
import mmv, sys
mmv.Counter("orders", "Orders taken").inc()
assert mmv.default_registry().path.name == sys.argv[1]
assert mmv.default_registry().path.exists()
"""
    assert machine.run(source, "program") == ("", "")
    machine.write("my-shop.2.py", source)
    assert machine.start("my-shop.2.py", "my_shop_2").wait() == 0
    (machine.directory / "market").mkdir()
    machine.write("market/__main__.py", source)
    assert machine.start("-m", "market", "market").wait() == 0
    assert machine.start("-c", source, "python").wait() == 0
    assert machine.names() == []


def test_the_file_of_a_program_goes_at_its_end(machine):
    output, _ = machine.run(SHOP + "print(registry.path.exists())")
    assert (output, machine.names()) == ("True\n", [])
    machine.run(SHOP + "sys.exit(0)")
    assert machine.names() == []


def test_a_killed_program_leaves_its_file_to_the_next(machine):
    program = machine.write("shop.py", SHOP + "ready(); time.sleep(60)")
    process = machine.start(program)
    process.stdout.readline()
    process.kill()
    process.wait()
    assert machine.read("shop").values("mmv.shop.orders") == {None: 1}
    output, _ = machine.run(SHOP + "print(orders.value)")
    assert (output, machine.names()) == ("1\n", [])


@pytest.mark.parametrize("per_process", [False, True])
def test_a_forked_child_counts_in_a_file_of_its_own(machine, per_process):
    program = machine.write(
        "shop.py",
        SHOP
        + """
kept = requests.labels("cart")

def work():
    orders.inc(10)
    kept.inc(20)
    requests.labels("pay").inc(30)
    latency.observe(0.5)
    forked(lambda: orders.inc(100))
    time.sleep(0.15)
    print(os.getpid(), orders.value, kept.value, registry.path.name)
    sys.stdout.flush()
    sys.stdin.readline()

child = os.fork()
if child == 0:
    work()
    sys.exit()
sys.stdin.readline()
print("parent", orders.value, kept.value)
os.waitpid(child, 0)
""",
    )
    process = machine.start(program, *["per_process"] * per_process, stdin=-1)
    pid, *values, name = process.stdout.readline().split()
    assert values == ["10", "20"]
    assert name == (f"shop.{pid}" if per_process else f"shop_{pid}")
    prefix = "mmv.shop" if per_process else f"mmv.shop_{pid}"
    own = f"process={pid}" if per_process else None
    and_endpoint = f"{own},endpoint=" if per_process else "endpoint="
    file = machine.read(name)
    assert file.values(f"{prefix}.orders") == {own: 10}
    assert file.values(f"{prefix}.latency.sum") == {own: 500_000_000}
    assert file.values(f"{prefix}.waiting") == {own: 0}
    assert file.values(f"{prefix}.requests") == {
        and_endpoint + "cart": 20,
        and_endpoint + "pay": 30,
    }
    of_parent = machine.read(f"shop.{process.pid}" if per_process else "shop")
    assert list(of_parent.values("mmv.shop.orders").values()) == [1]
    # The parent's numbers of metrics are those of the child.
    if per_process:
        items = {name: metric["item"] for name, metric in file.metrics.items()}
        assert items == {name: metric["item"] for name, metric in of_parent.metrics.items()}
    output, errors = process.communicate("\n\n")
    assert (output, errors, process.returncode) == ("parent 1 1\n", "", 0)
    # That of the grandchild is one of a process that did not end by itself.
    assert [name for name in machine.names() if name.endswith((pid, str(process.pid)))] == []


def test_a_child_that_does_not_count_has_no_file(machine):
    output, errors = machine.run(
        SHOP + "directory = registry.path.parent; forked(lambda: print(os.listdir(directory)))"
    )
    assert (output, errors) == ("['shop']\n", "")


def test_a_child_forked_beside_busy_threads_counts(machine):
    output, errors = machine.run(
        SHOP
        + """
import threading, warnings
warnings.simplefilter("ignore")
def work(number):
    for turn in range(300):
        requests.labels(f"{number} {turn}").inc()
        latency.observe(turn * number / 1000)
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for turn in range(50):
    def check():
        orders.inc(turn)
        requests.labels("own").inc()
        assert (orders.value, requests.labels("own").value) == (turn, 1)
        print("counted")
        registry.withdraw()
    forked(check)
for thread in threads:
    thread.join()
print(orders.value, sum(requests.labels(f"{n} {t}").value for n in range(4) for t in range(300)))
"""
    )
    assert (output, errors) == ("counted\n" * 50 + "1 1200\n", "")
    assert machine.names() == []


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing_are_one_set_of_metrics(machine, method):
    machine.start_agent()
    source = """
import mmv, multiprocessing, sys, time
registry = mmv.Registry("shop", per_process=True)
orders = mmv.Counter("orders", "Orders taken", ["of"], registry=registry)

def work(number):
    for _ in range(1000):
        orders.labels(number % 2).inc()
    # Long enough to be read.
    time.sleep(2)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    children = [context.Process(target=work, args=(number,)) for number in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    with context.Pool(2) as pool:
        pool.map(work, range(4))
        pool.close()
        pool.join()
"""
    machine.run(source, method)
    assert machine.names() == []
    machine.stop_agent()
    totals = machine.totals("mmv.shop.orders")
    for of in range(2):
        counted = [total for name, total in totals.items() if name.endswith(f",of={of}")]
        assert sum(counted) == 4000
    assert all(name.startswith("process=") for name in totals)


def test_without_a_directory_metrics_count_without_readers(machine):
    machine.files.rmdir()
    output, errors = machine.run(
        SHOP
        + """
other = mmv.Registry("other")
mmv.Counter("orders", "Orders taken", registry=other).inc()
forked(lambda: (orders.inc(), print(orders.value)))
print(orders.value, requests.labels("cart").value, registry.is_published)
"""
    )
    assert output == "1\n1 1 False\n"
    assert len([line for line in errors.splitlines() if "not published" in line]) == 1, errors


def test_a_second_program_of_the_name_counts_without_readers(machine):
    program = machine.write("shop.py", SHOP + "ready(); sys.stdin.readline()")
    first = machine.start(program, stdin=-1)
    first.stdout.readline()
    output, errors = machine.run(SHOP + "print(registry.is_published, orders.value)")
    assert output == "False 1\n"
    assert "per_process" in errors and len(errors.splitlines()) == 1
    assert machine.read("shop").content["header"]["pid"] == first.pid
    first.communicate("\n")


def test_a_full_disk_fails_no_count(machine):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    output, errors = machine.run(
        SHOP
        + """
for number in range(5000):
    requests.labels(number).inc()
    latency.observe(number)
late = mmv.Counter("late", "Registered late", ["of"], registry=registry)
for number in range(1000):
    late.labels(number).inc()
print(latency.count, orders.value)
""",
        preexec_fn=limit,
    )
    assert output == "5000 1\n"
    assert 1 <= len(errors.splitlines()) < 5, errors


def test_killed_workers_keep_what_they_counted(machine):
    machine.start_agent()
    program = machine.write(
        "shop.py",
        SHOP + "ready(); sys.stdin.readline(); orders.inc(int(sys.argv[2])); ready(); time.sleep(60)",
    )
    for amount in [5, 50, 500]:
        workers = [machine.start(program, "per_process", amount, stdin=-1) for _ in range(3)]
        for worker in workers:
            worker.stdout.readline()
            wait_for(lambda: machine.has_read(f"shop.{worker.pid}"))
            worker.stdin.write("\n")
            worker.stdin.flush()
            worker.stdout.readline()
            worker.kill()
            assert worker.wait() == -signal.SIGKILL
    machine.stop_agent()
    totals = machine.totals("mmv.shop.orders")
    assert sorted(totals.values()) == [6] * 3 + [51] * 3 + [501] * 3
    # The next worker removes them when they are older than an hour.
    assert len(machine.names()) == 9
    for name in machine.names():
        os.utime(machine.files / name, (0, 0))
    output, _ = machine.run(SHOP + "print(len(os.listdir(registry.path.parent)))", "per_process")
    assert (output, machine.names()) == ("1\n", [])
