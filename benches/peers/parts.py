"""Work shared out to threads: what a peer's user writes around a library that has no threads of its own."""

from concurrent.futures import ThreadPoolExecutor

POOL = ThreadPoolExecutor(64)


def bounds(total, parts):
    """Begins and ends of parts of nearly one length."""
    edges = [total * part // parts for part in range(parts + 1)]
    return list(zip(edges, edges[1:]))


def together(calls):
    """A call that makes all of them at once, the first on this thread."""
    first, *others = calls
    if not others:
        return first

    def run():
        waiting = [POOL.submit(call) for call in others]
        first()
        for other in waiting:
            other.result()

    return run
