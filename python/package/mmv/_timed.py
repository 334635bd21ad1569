"""Functions whose calls are timed."""

import functools
import inspect


def timed(histogram, function):
    """Returns a function that records the time of each call, also of one that raises."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def timed_coroutine(*args, **kwargs):
            with histogram.time():
                return await function(*args, **kwargs)

        return timed_coroutine

    @functools.wraps(function)
    def timed_function(*args, **kwargs):
        with histogram.time():
            return function(*args, **kwargs)

    return timed_function
