"""Metrics that cost a memory access, in a file that mmv-agent logs every second.

    requests = Counter("requests", "Requests answered", ["endpoint"])
    requests.labels("cart").inc()

Counting never fails because of the system: where no file can be written, one line on standard error
says so and metrics count without readers. What is no amount, such as -1 of a counter, is not counted,
with a RuntimeWarning. Threads lose no count. A forked child counts in a file of its own.
"""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar, final

from typing_extensions import Self

__all__ = ["Counter", "Gauge", "Histogram", "Registry", "default_registry"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

@final
class Registry:
    """A file of metrics, which exists until the program ends.

    The file is in the directory that Rust programs use: PCP's if it is writable, else one of the
    user. Names of metrics begin with ``mmv.`` and the name of the registry.
    """

    def __new__(
        cls,
        name: str,
        *,
        per_process: bool = False,
        cluster: int | None = None,
        directory: str | PathLike[str] | None = None,
    ) -> Self:
        """Publishes the file.

        Without ``per_process`` one process at a time has the name; a forked child that counts gets
        ``NAME_PID``. With it each process has a file, as the workers of gunicorn need, and readers
        see one set of metrics with the label ``process``; their cluster follows from the name
        unless it is stated (1 to 2047).

        Raises ValueError for a name that is not legal.
        """

    @property
    def path(self) -> Path:
        """The path of this process's file."""

    @property
    def is_published(self) -> bool:
        """Whether readers see the file."""

    def withdraw(self) -> None:
        """Removes this process's file; its metrics count on, without readers."""

def default_registry() -> Registry:
    """Returns the registry of the metrics that state none. It has the name of the program."""

@final
class Counter:
    """A count that only grows."""

    def __new__(
        cls,
        name: str,
        help: str,
        labels: Sequence[str] = ...,
        *,
        unit: str = "count",
        registry: Registry | None = None,
    ) -> Self:
        """Registers the metric.

        ``unit`` is "count", "bytes", "seconds" or what else PCP knows. Times are kept in whole
        nanoseconds, all others are whole numbers.

        Raises ValueError for a name, label or unit that is not legal, and for a name that is taken.
        """

    def labels(self, *values: object, **named: object) -> Counter:
        """Returns the counter for these values of the labels; keep it where you can.

        Raises ValueError for other labels than the metric has.
        """

    def remove(self, *values: object) -> None:
        """Removes the series of these values of the labels."""

    def inc(self, amount: float = 1) -> None:
        """Adds an amount."""

    @property
    def value(self) -> float:
        """The count of this process."""

@final
class Gauge:
    """A value that goes up and down."""

    def __new__(
        cls,
        name: str,
        help: str,
        labels: Sequence[str] = ...,
        *,
        unit: str | None = None,
        registry: Registry | None = None,
    ) -> Self:
        """Registers the metric, as Counter does; without a unit it is a plain number."""

    def labels(self, *values: object, **named: object) -> Gauge:
        """Returns the gauge for these values of the labels; keep it where you can.

        Raises ValueError for other labels than the metric has.
        """

    def remove(self, *values: object) -> None:
        """Removes the series of these values of the labels."""

    def set(self, value: float) -> None:
        """Sets the value."""

    def inc(self, amount: float = 1.0) -> None:
        """Adds an amount."""

    def dec(self, amount: float = 1.0) -> None:
        """Subtracts an amount."""

    @property
    def value(self) -> float:
        """The value in this process."""

@final
class Histogram:
    """A distribution of values, by default of seconds, in buckets at most an eighth wide."""

    def __new__(
        cls,
        name: str,
        help: str,
        labels: Sequence[str] = ...,
        *,
        unit: str = "seconds",
        registry: Registry | None = None,
    ) -> Self:
        """Registers the metric, as Counter does. Values of other units than times are rounded to
        whole numbers."""

    def labels(self, *values: object, **named: object) -> Histogram:
        """Returns the histogram for these values of the labels; keep it where you can.

        Raises ValueError for other labels than the metric has.
        """

    def remove(self, *values: object) -> None:
        """Removes the series of these values of the labels."""

    def observe(self, value: float) -> None:
        """Records a value; a negative one as 0."""

    def time(self) -> _Timing:
        """Returns what records the time of a ``with`` block, or of each call of a function that it
        decorates, which may be a coroutine."""

    @property
    def count(self) -> int:
        """The number of values that this process recorded."""

    @property
    def sum(self) -> float:
        """The sum of the values that this process recorded."""

@final
class _Timing:
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]: ...
