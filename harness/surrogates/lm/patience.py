"""When to ask an endpoint again: a shared pause that all threads keep, a limit, and a count of what was asked again."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from harness.surrogates.foreign import Unavailable
from harness.surrogates.lm.endpoint import Failed, Misshapen, Throttled

T = TypeVar("T")

MOST_IN_A_ROW = 3  # so many queries in a row that the endpoint fails on, and it counts as down
LEAST_WAIT_S = 0.2  # an endpoint that asks to wait for no time at all is not asked without end
LONGEST_WAIT_S = 60.0


class Patience:
    """Repeats requests that may work later, and gives up on an endpoint that does not come back.

    A throttled request is asked again after the time that the endpoint names, else after `first_wait_s`, doubled each
    time; meanwhile no thread asks. A request that failed is asked again `retries` times. Nothing is asked again later
    than `patience_s` after the first time.
    """

    def __init__(
        self,
        retries: int = 4,
        patience_s: float = 300.0,
        first_wait_s: float = 1.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._retries, self._patience_s, self._first_wait_s = retries, patience_s, first_wait_s
        self._sleep, self._clock = sleep, clock
        self._lock = Lock()
        self._open_at = 0.0
        self._lost_in_a_row = 0
        self.throttled = 0
        self.retried = 0

    def ask(self, request: Callable[[], T]) -> T:
        """Return what the request returns.

        Raises Unavailable if the endpoint is down or throttles for longer than the patience lasts, and Failed or
        Misshapen for a request that got no usable answer from an endpoint that may have one for others.
        """
        start, failures, throttles = self._clock(), 0, 0
        while True:
            self._keep_pause()
            try:
                answer = request()
            except Throttled as error:
                throttles += 1
                wait_s = error.wait_s if error.wait_s is not None else self._own_wait(throttles)
                if self._clock() - start + wait_s > self._patience_s:
                    problem = (
                        f"{error}; it asks to wait for {wait_s:.0f} s more, beyond patience_s={self._patience_s:g}"
                    )
                    raise Unavailable(problem) from None
                self._pause(max(wait_s, LEAST_WAIT_S))
            except Failed as error:
                failures += 1
                wait_s = error.wait_s if error.wait_s is not None else self._own_wait(failures)
                if failures > self._retries or self._clock() - start + wait_s > self._patience_s:
                    self._lost(error, down=not error.reached)
                    raise
                with self._lock:
                    self.retried += 1
                self._sleep(wait_s)
            except Misshapen as error:
                self._lost(error, down=False)
                raise
            else:
                with self._lock:
                    self._lost_in_a_row = 0
                return answer

    def _own_wait(self, times: int) -> float:
        return float(min(self._first_wait_s * 2 ** (times - 1), LONGEST_WAIT_S))

    def _keep_pause(self) -> None:
        while (left := self._open_at - self._clock()) > 0:
            self._sleep(left)

    def _pause(self, seconds: float) -> None:
        with self._lock:
            self.throttled += 1
            self._open_at = max(self._open_at, self._clock() + seconds)

    def _lost(self, error: Exception, down: bool) -> None:
        with self._lock:
            self._lost_in_a_row += 1
            many = self._lost_in_a_row >= MOST_IN_A_ROW
        if down or many:
            raise Unavailable(f"{error}; answers so far are kept, and the same command continues") from None
