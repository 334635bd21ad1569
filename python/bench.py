"""Measures operations of mmv beside those of prometheus_client, alone and in its multiprocess mode.

    ci/python bench [ROUNDS]

Each round runs each library in a process of its own; the table has medians over rounds, in
nanoseconds for an operation.
"""

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import timeit

LIBRARIES = ["mmv", "prometheus_client", "multiprocess"]
OPERATIONS = {
    "an empty loop": "pass",
    "an empty call by ctypes: abs(1)": "call(1)",
    "counter, kept: inc()": "kept()",
    "counter: requests.inc()": "requests.inc()",
    "counter: requests.inc(2)": "requests.inc(2)",
    'counter: by.labels("cart").inc()': 'by.labels("cart").inc()',
    'counter: by.labels(endpoint="cart").inc()': 'by.labels(endpoint="cart").inc()',
    "gauge: depth.set(2.0)": "depth.set(2.0)",
    "gauge: depth.inc()": "depth.inc()",
    "histogram: latency.observe(0.01)": "latency.observe(0.01)",
    "histogram: with latency.time()": "with latency.time(): pass",
}
REPEATS = 5


def measure(library):
    """Prints the nanoseconds of each operation of a library."""
    if library == "mmv":
        import mmv as metrics
    else:
        import prometheus_client as metrics
    requests = metrics.Counter("requests", "Requests answered")
    names = {
        "call": ctypes.CDLL(None).abs,
        "requests": requests,
        "kept": requests.inc,
        "by": metrics.Counter("requests_by", "Requests answered", ["endpoint"]),
        "depth": metrics.Gauge("depth", "Requests that wait"),
        "latency": metrics.Histogram("latency", "Time to answer"),
    }
    nanoseconds = {}
    for operation, statement in OPERATIONS.items():
        timer = timeit.Timer(statement, globals=names)
        number, _ = timer.autorange()
        number = max(1, number // 4)
        nanoseconds[operation] = min(timer.repeat(REPEATS, number)) / number * 1e9
    print(json.dumps(nanoseconds))


def run(library, directory):
    files = os.path.join(directory, "mmv")
    os.makedirs(files, exist_ok=True)
    environment = {**os.environ, "PCP_TMP_DIR": directory}
    if library == "multiprocess":
        environment["PROMETHEUS_MULTIPROC_DIR"] = directory
    command = [sys.executable, __file__, "--measure", library]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(output.stdout)


def compare(rounds):
    found = {library: {operation: [] for operation in OPERATIONS} for library in LIBRARIES}
    for _ in range(rounds):
        for library in LIBRARIES:
            with tempfile.TemporaryDirectory() as directory:
                for operation, nanoseconds in run(library, directory).items():
                    found[library][operation].append(nanoseconds)
    print(f"{'':44}" + "".join(f"{library:>20}" for library in LIBRARIES))
    for operation in OPERATIONS:
        medians = [statistics.median(found[library][operation]) for library in LIBRARIES]
        print(f"{operation:44}" + "".join(f"{median:20.1f}" for median in medians))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2])
    else:
        compare(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
