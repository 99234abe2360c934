"""Times peers and FLCC in turns: the speed of a machine drifts, so each is timed once a round and only medians
over rounds are compared."""

import gc
import statistics
import sys
import time

import check
from catalogue import Outside
from parts import bounds, together

# A peer so much slower than the fastest of the first round takes no part in the others.
HOPELESS = 4
# Until threads that wait for more work have gone to sleep.
SETTLE = 0.05
FEWEST, MOST = 3, 31


class Contest:
    """All that is timed of one workload on so many threads."""

    def __init__(self, workload, pairs, threads, seconds):
        self.workload, self.pairs, self.threads, self.seconds = workload, pairs, threads, seconds
        self.times, self.errors, self.failures = {}, {}, {}
        self.kernel = ""

    def hold(self, peers, flcc, rounds):
        """Every round: each peer that is right and not hopeless, then FLCC."""
        peers = [peer for peer in peers if isinstance(peer, Outside) or self.is_sound(peer)]
        for _ in range(rounds):
            for peer in peers:
                self.take(peer.name, lambda peer=peer: self.peer(peer))
            self.take("flcc", lambda: self.own(flcc))
            peers = self.worthwhile(peers)

    def take(self, name, timed):
        """Notes a time and its error, or why there is none: whatever a library throws, the others are timed."""
        time.sleep(SETTLE)
        try:
            result = timed()
        except Exception as error:
            self.fail(name, error)
            return
        if result is not None:
            milliseconds, error = result
            self.times.setdefault(name, []).append(milliseconds)
            self.errors[name] = max(error, self.errors.get(name, 0))
            line = f"# {self.workload.name}, {self.threads} threads, {name}: {milliseconds:.3f} ms"
            print(line, file=sys.stderr, flush=True)

    def fail(self, name, error):
        self.failures[name] = f"{type(error).__name__}: {error}".strip()
        self.times.pop(name, None)

    def is_sound(self, peer):
        try:
            # Of many pairs each is computed on one thread.
            self.errors[peer.name] = check.small(peer, self.workload, self.inner)
        except Exception as error:
            self.fail(peer.name, error)
        return peer.name in self.errors

    @property
    def inner(self):
        """Threads of one call: images are shared out to threads where there are several."""
        return self.threads if len(self.pairs) == 1 else 1

    def peer(self, peer):
        """Milliseconds of a peer, with the error of its answers to the first and the last pair."""
        if isinstance(peer, Outside):
            return peer.time(self.workload, self.threads)
        runs = [peer.make(image, template, self.inner) for image, template in self.pairs]
        results = [None] * len(runs)

        def part(begin, end):
            for place in range(begin, end):
                results[place] = runs[place]()

        shares = bounds(len(runs), self.threads) if len(runs) > 1 else [(0, 1)]
        whole = together([lambda begin=begin, end=end: part(begin, end) for begin, end in shares])
        milliseconds = median(whole, self.seconds) / self.workload.calls
        ends = {0, len(runs) - 1}
        error = max(check.spots(self.workload.kind, *self.pairs[place], results[place]) for place in ends)
        del runs, results, whole, part
        gc.collect()
        return milliseconds, error

    def own(self, flcc):
        line = flcc.time(self.workload, self.threads, self.seconds)
        self.kernel = line["kernel"]
        return line["median_ns"] / 1e6 / self.workload.calls, line["max_error"]

    def worthwhile(self, peers):
        peers = [peer for peer in peers if peer.name in self.times]
        best = min((min(self.times[peer.name]) for peer in peers), default=0)
        return [peer for peer in peers if min(self.times[peer.name]) <= HOPELESS * best]

    def rows(self):
        """A row for each, in the order of their times, then those that failed."""
        named = {"spec": self.workload.name, "threads": self.threads}
        for name in sorted(self.times, key=lambda name: statistics.median(self.times[name])):
            rounds = [round(value, 4) for value in self.times[name]]
            row = named | {"peer": name, "ms": round(statistics.median(rounds), 4), "rounds": rounds}
            row["error"] = self.errors[name]
            yield row | ({"kernel": self.kernel} if name == "flcc" else {})
        for name, reason in self.failures.items():
            yield named | {"peer": name, "failed": reason}

    def summary(self):
        """FLCC beside the best of the peers."""
        medians = {name: statistics.median(times) for name, times in self.times.items()}
        own = medians.pop("flcc", None)
        row = {"spec": self.workload.name, "threads": self.threads}
        if own is not None:
            row |= {"flcc_ms": round(own, 4), "kernel": self.kernel, "error": self.errors["flcc"]}
        if medians:
            best = min(medians, key=medians.get)
            row |= {"best": best, "best_ms": round(medians[best], 4)}
            if own is not None:
                row["ratio"] = round(medians[best] / own, 3)
        return row


def median(run, seconds):
    """Milliseconds of a call, after one that warms up and says how many there is time for."""
    began = time.perf_counter()
    run()
    once = time.perf_counter() - began
    times = []
    for _ in range(int(min(MOST, max(FEWEST, seconds / once))) if once < 3 * seconds else 0):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times or [once])
