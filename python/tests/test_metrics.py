"""Metrics as other programs read them."""

import asyncio
import itertools
import threading
import time

import mmv
import pytest
from conftest import File

NUMBERS = itertools.count()


@pytest.fixture
def registry(tmp_path):
    registry = mmv.Registry(f"shop{next(NUMBERS)}", directory=tmp_path)
    yield registry
    registry.withdraw()


def read(registry):
    # Changes are announced a tenth of a second after the last ones.
    time.sleep(0.15)
    return File(registry.path)


def test_names_units_and_semantics_are_those_of_the_declaration(registry):
    mmv.Counter("requests", "Requests answered", registry=registry).inc(3)
    mmv.Counter("sent", "Bytes sent", unit="bytes", registry=registry).inc(2**40)
    mmv.Counter("busy", "Time at work", unit="seconds", registry=registry).inc(0.25)
    mmv.Gauge("depth", "Orders that wait", registry=registry).set(2.5)
    mmv.Gauge("rate", "Rate of requests", unit="count / second", registry=registry)
    mmv.Histogram("latency", "Time to answer", registry=registry).observe(0.25)
    name = registry.path.name
    file = read(registry)
    described = {
        metric["complete_name"].removeprefix(f"mmv.{name}."): (
            metric["type"],
            metric["semantics"],
            metric["units"],
            metric["short_help"],
        )
        for metric in file.metrics.values()
    }
    assert described == {
        "requests": ("64-bit unsigned int", "counter", "count", "Requests answered"),
        "sent": ("64-bit unsigned int", "counter", "byte", "Bytes sent"),
        "busy": ("64-bit unsigned int", "counter", "nanosec", "Time at work"),
        "depth": ("double", "instant", "", "Orders that wait"),
        "rate": ("double", "instant", "count / sec", "Rate of requests"),
        "latency.bucket": ("64-bit unsigned int", "counter", "count", "Time to answer"),
        "latency.sum": ("64-bit unsigned int", "counter", "nanosec", "Time to answer"),
    }
    assert file.values(f"mmv.{name}.requests") == {None: 3}
    assert file.values(f"mmv.{name}.sent") == {None: 2**40}
    assert file.values(f"mmv.{name}.busy") == {None: 250_000_000}
    assert file.values(f"mmv.{name}.depth") == {None: 2.5}
    assert file.values(f"mmv.{name}.latency.sum") == {None: 250_000_000}
    (bucket,) = file.values(f"mmv.{name}.latency.bucket")
    first, last = map(int, bucket.removeprefix("bucket=").split(".."))
    assert first <= 250_000_000 <= last <= first * 9 / 8


def test_sets_of_labels_are_series(registry):
    requests = mmv.Counter("requests", "Requests", ["endpoint", "code"], registry=registry)
    requests.labels("cart", 200).inc()
    requests.labels("cart", code="200").inc(2)
    requests.labels(code="404", endpoint="a,b=c").inc(4)
    assert requests.labels("cart", 200) is requests.labels(code=200, endpoint="cart")
    assert requests.labels(True, 1.0).value == 0
    assert requests.labels(1, 1).inc() is None
    assert requests.labels(True, 1.0).value == 0
    file = read(registry)
    values = file.values(f"mmv.{registry.path.name}.requests")
    assert values["endpoint=cart,code=200"] == 3
    assert values["endpoint=a\\,b\\=c,code=404"] == 4
    assert {("endpoint", "cart"), ("code", "200"), ("endpoint", "a,b=c")} <= file.labels()
    requests.remove("cart", 200)
    assert "endpoint=cart,code=200" not in read(registry).values(
        f"mmv.{registry.path.name}.requests"
    )
    assert requests.labels("cart", 200).value == 0


def test_values_are_those_that_were_counted(registry):
    count = mmv.Counter("count", "A count", registry=registry)
    for amount in [1, 2.0, 0, 2**40]:
        count.inc(amount)
    count.inc()
    assert count.value == 2**40 + 4
    busy = mmv.Counter("busy", "A time", unit="seconds", registry=registry)
    busy.inc()
    busy.inc(0.5)
    assert busy.value == 1.5
    depth = mmv.Gauge("depth", "A depth", registry=registry)
    depth.set(10)
    depth.inc()
    depth.dec(0.5)
    assert depth.value == 10.5
    size = mmv.Histogram("size", "A size", unit="bytes", registry=registry)
    for value in [100, 200.4, -5]:
        size.observe(value)
    assert (size.count, size.sum) == (3, 300)


def test_times_of_blocks_and_functions_are_recorded(registry):
    latency = mmv.Histogram("latency", "Times", ["of"], registry=registry)

    @latency.labels("function").time()
    def work(amount, *, more=0):
        """Works."""
        time.sleep(0.01)
        return amount + more

    @latency.labels("coroutine").time()
    async def work_later():
        await asyncio.sleep(0.01)
        raise KeyError

    assert (work(1, more=2), work.__name__, work.__doc__) == (3, "work", "Works.")
    with pytest.raises(KeyError):
        asyncio.run(work_later())
    with latency.labels("block").time():
        # In another series, and within itself.
        work(1)
    for of, count in [("function", 2), ("coroutine", 1), ("block", 1)]:
        assert latency.labels(of).count == count
        assert 0.01 * count <= latency.labels(of).sum < 10


def test_what_is_no_amount_is_not_counted_with_a_warning(registry):
    count = mmv.Counter("count", "A count", registry=registry)
    for amount in [-1, 0.5, float("nan"), float("inf"), 2**64]:
        with pytest.warns(RuntimeWarning, match="metric count: .* is not counted"):
            count.inc(amount)
    assert count.value == 0
    by_label = mmv.Counter("by_label", "A count", ["label"], registry=registry)
    with pytest.warns(RuntimeWarning, match="values of its labels"):
        by_label.inc()
    size = mmv.Histogram("size", "A size", unit="bytes", registry=registry)
    with pytest.warns(RuntimeWarning):
        size.observe(float("nan"))
    with pytest.warns(RuntimeWarning):
        with size.time():
            pass
    assert size.count == 0
    with pytest.raises(TypeError):
        count.inc("1")


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda r: mmv.Counter("a b", "", registry=r), "is not a metric name"),
        (lambda r: mmv.Counter("a", "", unit="parsecs", registry=r), "unit"),
        (lambda r: mmv.Counter("a", "", ["b-c"], registry=r), "not the name of a label"),
        (lambda r: mmv.Counter("a", "", ["b", "b"], registry=r), "already there"),
        (lambda r: mmv.Histogram("a", "", ["bucket"], registry=r), "already there"),
        (lambda r: mmv.Counter("a", "x" * 256, registry=r), "help"),
        (lambda r: mmv.Registry("a/b"), "file name"),
        (lambda r: mmv.Registry("a", cluster=5000), "cluster"),
        (lambda r: mmv.Counter("taken", "", registry=r), "taken"),
        (lambda r: mmv.Counter("a", "", ["b"], registry=r).labels(), 'labels \\["b"\\]'),
        (lambda r: mmv.Counter("a", "", ["b"], registry=r).labels(c=1), 'labels \\["b"\\]'),
        (lambda r: mmv.Counter("a", "", ["b"], registry=r).labels("x", b=1), "labels"),
        (lambda r: mmv.Counter("a", "", registry=r).labels("x"), "no labels"),
        (lambda r: mmv.Counter("a", "", ["b"], registry=r).labels("x").labels("y"), "already"),
    ],
)
def test_a_mistake_in_a_declaration_is_an_error(registry, declare, message):
    mmv.Gauge("taken", "The first", registry=registry)
    with pytest.raises(ValueError, match=message):
        declare(registry)


def test_threads_lose_no_count(registry):
    count = mmv.Counter("count", "A count", registry=registry)
    by_thread = mmv.Counter("by_thread", "Counts", ["thread"], registry=registry)
    level = mmv.Gauge("level", "A level", registry=registry)
    times = mmv.Histogram("times", "Times", registry=registry)

    def work(number):
        for _ in range(20_000):
            count.inc()
            by_thread.labels(number % 2).inc(2)
            level.inc(3)
            level.dec(2)
            times.observe(0.001)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (count.value, level.value, times.count) == (160_000, 160_000, 160_000)
    assert by_thread.labels(0).value == by_thread.labels(1).value == 160_000


def test_series_beyond_the_limit_count_as_overflow(registry):
    count = mmv.Counter("count", "A count", ["of"], registry=registry)
    for number in range(10_050):
        count.labels(number).inc()
    file = read(registry)
    values = file.values(f"mmv.{registry.path.name}.count")
    assert (len(values), values["overflow"], sum(values.values())) == (10_001, 50, 10_050)


def test_a_withdrawn_registry_counts_on_without_a_file(registry):
    count = mmv.Counter("count", "A count", registry=registry)
    path = registry.path
    assert registry.is_published and path.exists()
    registry.withdraw()
    count.inc()
    assert (count.value, registry.is_published, path.exists()) == (1, False, False)


def test_metrics_are_printed_by_name(registry):
    assert repr(mmv.Counter("count", "A count", registry=registry)) == 'Counter("count")'
    assert repr(registry) == f'Registry("{registry.path.name}")'
