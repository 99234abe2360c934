"""Eight threads at once, which builds of Python without the interpreter's lock run at the same time."""

import pickle
import subprocess
import sys
import sysconfig
import threading

import numpy as np
import pytest

import flcc

RNG = np.random.default_rng(12)
THREADS = 8


def at_once(work):
    """Runs `work` with the numbers of eight threads, which begin together; raises what one of them raised."""
    begin, raised = threading.Barrier(THREADS), []

    def run(k):
        try:
            begin.wait()
            work(k)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def test_everything_by_eight_threads():
    images = RNG.integers(0, 256, (THREADS, 60, 70), dtype=np.uint8)
    template = images[3, 20:29, 30:41].copy()
    plan = flcc.plan((60, 70), (9, 11), "u1", threads=1)
    shared = plan.bind(template)
    maps = [flcc.match_template(image, template) for image in images]
    best = [flcc.find(image, template) for image in images]
    assert [(scores == shared(image)).all() for scores, image in zip(maps, images)] == [True] * THREADS

    def work(k):
        scores = np.empty_like(maps[k])
        stream = shared.stream(images)
        for turn in range(40):
            # Plans that nobody has made yet, by all at once.
            assert flcc.correlate(images[k], template[: 1 + turn % 9], "same").shape == (60, 70)
            assert (flcc.match_template(images[k], template) == maps[k]).all()
            assert (flcc.find(images[k], template) == best[k]).all()
            shared(images[k], out=scores)
            assert (scores == maps[k]).all()
            if turn % 5 == 0:
                own = pickle.loads(pickle.dumps(shared)) if turn % 2 else plan.bind(template)
                assert (own.peaks(images[k]) == best[k]).all()
                assert (next(stream) == maps[turn // 5]).all()
            if turn % 10 == k:
                flcc.forget_wisdom()

    at_once(work)


def test_one_stream_by_eight_threads():
    """Each image is given out once."""
    images = RNG.random((400, 20, 20))
    matcher = flcc.plan((20, 20), (5, 5), "f8", threads=1).bind(images[7, :5, :5])

    class Images:
        """An iterator for several threads, which an array's is not."""

        def __init__(self):
            self.lock, self.images = threading.Lock(), iter(images)

        def __iter__(self):
            return self

        def __next__(self):
            with self.lock:
                return next(self.images)

    stream, sums = matcher.stream(Images()), [[] for _ in range(THREADS)]
    at_once(lambda k: sums[k].extend(float(scores.sum()) for scores in stream))
    assert sorted(sum(sums, [])) == sorted(float(matcher(image).sum()) for image in images)


def test_one_array_for_the_results_of_eight_threads():
    """A call has it alone or is refused, and what it holds in the end is one result."""
    images = RNG.random((THREADS, 300, 300), dtype=np.float32)
    template = images[0, :20, :20].copy()
    matcher = flcc.plan((300, 300), (20, 20), threads=1).bind(template)
    maps = [matcher(image) for image in images]
    out, refused, written = np.full_like(maps[0], np.nan), [], []

    def work(k):
        for _ in range(20):
            try:
                matcher(images[k], out=out)
                written.append(k)
            except ValueError as error:
                refused.append(str(error))

    at_once(work)
    assert written
    assert all(message.startswith("out: expected an array that no other call") for message in refused), refused
    assert any((out == scores).all() for scores in maps)


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has the interpreter's lock")
def test_the_package_does_not_take_up_the_lock():
    program = "import sys, flcc; assert not sys._is_gil_enabled()"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
