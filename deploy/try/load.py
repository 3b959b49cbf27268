"""Callers that take keys through a load balancer, and what they got: every key, and every request that failed."""

import http.client
import json
import threading
import time
from dataclasses import dataclass

TIME_MAX = 15
PAUSE = 0.005


@dataclass
class Failure:
    """A request that failed, and when it was under way."""

    phase: str
    began: float
    ended: float
    reason: str


class Load:
    """Workers that take batches of keys, each over one connection, until they are told to stop."""

    def __init__(self, port, token, workers=8, count=10):
        self.port, self.token, self.count, self.size = port, token, count, workers
        self.phase = None
        self.answered = {}
        self.failures = []
        self.keys = []
        self.slowest = {}
        self.lock = threading.Lock()
        self.is_ending = threading.Event()
        self.workers = [threading.Thread(target=self.work) for _ in range(workers)]

    def start(self, phase):
        self.phase = phase
        for worker in self.workers:
            worker.start()

    def stop(self):
        self.is_ending.set()
        for worker in self.workers:
            worker.join()

    def failed(self, phase):
        return [failure.reason for failure in self.failures if failure.phase == phase]

    def failed_outside(self, phase, begin, end):
        """What failed in a phase although it was not under way at any moment from `begin` to `end`."""
        return [failure for failure in self.failures
                if failure.phase == phase and (failure.began > end or failure.ended < begin)]

    def duplicated(self):
        return len(self.keys) - len(set(self.keys))

    def work(self):
        connection = None
        while not self.is_ending.is_set():
            # A request counts for the phase in which it began.
            phase, began = self.phase, time.monotonic()
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIME_MAX)
                headers = {"Authorization": f"Bearer {self.token}"}
                connection.request("POST", f"/v1/spaces/default/keys?count={self.count}", headers=headers)
                answer = connection.getresponse()
                body = answer.read()
                if answer.status != 200:
                    raise OSError(f"{answer.status} {body[:200]!r}")
                keys = json.loads(body)["keys"]
                if len(keys) != self.count:
                    raise OSError(f"{len(keys)} keys instead of {self.count}")
                self.note(phase, time.monotonic() - began, keys)
            except (OSError, http.client.HTTPException) as error:
                failure = Failure(phase, began, time.monotonic(), f"{type(error).__name__}: {error}")
                with self.lock:
                    self.failures.append(failure)
                if connection is not None:
                    connection.close()
                connection = None
            time.sleep(PAUSE)

    def note(self, phase, seconds, keys):
        with self.lock:
            self.answered[phase] = self.answered.get(phase, 0) + 1
            self.slowest[phase] = max(self.slowest.get(phase, 0), seconds)
            self.keys.extend(keys)
