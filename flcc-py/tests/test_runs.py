"""What goes on while the library computes: threads, signals, progress, forks."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import flcc
import numpy as np
import pytest

RNG = np.random.default_rng(1)
# Some seconds by the direct method.
IMAGE = RNG.random((1500, 1500))
LARGE = IMAGE[:300, :300]


def long_run(**keywords):
    return flcc.match_template(IMAGE, LARGE, method="direct", threads=1, **keywords)


def test_ctrl_c_stops_a_run():
    begin = time.monotonic()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        long_run()
    timer.join()
    assert time.monotonic() - begin < 5
    # What was stopped can be run again.
    assert flcc.match_template(IMAGE[:50, :50], IMAGE[:5, :5]).shape == (46, 46)


def test_progress():
    told = []
    template = IMAGE[:60, :60]
    flcc.match_template(IMAGE, template, method="direct", progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 0
    assert told == sorted(set(told))


def test_a_bar():
    class Bar:
        total, n = None, 0

        def update(self, count):
            self.n += count

    bar = Bar()
    flcc.match_template(IMAGE, IMAGE[:60, :60], method="direct", progress=bar)
    assert bar.n == bar.total > 0


def test_a_bar_of_tqdm():
    tqdm = pytest.importorskip("tqdm")
    with tqdm.tqdm(disable=False, file=open(os.devnull, "w")) as bar:
        flcc.match_template(IMAGE, IMAGE[:60, :60], method="direct", progress=bar)
        assert bar.n == bar.total > 0


def test_progress_that_raises_stops_the_run():
    def stop(done, total):
        raise LookupError("enough")

    begin = time.monotonic()
    with pytest.raises(LookupError, match="enough"):
        long_run(progress=stop)
    assert time.monotonic() - begin < 5


def test_python_goes_on_meanwhile():
    counted = 0
    running = threading.Event()

    def work():
        running.set()
        flcc.match_template(IMAGE, IMAGE[:100, :100], method="direct", threads=1)

    thread = threading.Thread(target=work)
    thread.start()
    running.wait()
    while thread.is_alive():
        counted += 1
        time.sleep(0.001)
    assert counted > 10


def test_many_threads_at_once():
    images = [RNG.random((100, 110)) for _ in range(8)]
    template = images[0][:9, :8].copy()
    expected = [flcc.match_template(image, template) for image in images]
    matcher = flcc.plan("zncc:f64:100x110*9x8:valid").bind(template)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            for scores, one in zip(pool.map(lambda image: flcc.match_template(image, template), images), expected):
                assert (scores == one).all()
            for scores, one in zip(pool.map(matcher, images), expected):
                assert abs(scores - one).max() < 1e-11


def child(queue):
    queue.put(float(flcc.match_template(IMAGE, IMAGE[:30, :30]).max()))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_computes():
    expected = float(flcc.match_template(IMAGE, IMAGE[:30, :30]).max())
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    assert queue.get(timeout=60) == expected
    process.join()
