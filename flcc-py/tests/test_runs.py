"""What goes on while the library computes: threads, signals, progress, forks."""

import multiprocessing
import os
import signal
import subprocess
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


def test_ctrl_c_stops_a_run_under_a_template_of_many_taps():
    image = np.random.default_rng(5).random((1300, 1300))
    begin = time.monotonic()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        flcc.correlate(image, image[:900, :900], method="direct")
    timer.join()
    assert time.monotonic() - begin < 5


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


WITHOUT_THREADS = """
import os, resource, threading
import flcc, numpy as np

image = np.random.default_rng(1).random((500, 500))
results, begin = [], threading.Event()

def work():
    begin.wait()
    results.append(flcc.match_template(image, image[:20, :20], threads=2))

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
if os.getuid() == 0:
    # Who may do all has no limits.
    os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try:
    threading.Thread(target=print).start()
    print("threads")
except RuntimeError:
    begin.set()
    for thread in threads:
        thread.join()
    told = []
    work()
    results.append(flcc.match_template(image, image[:20, :20], progress=lambda done, total: told.append((done, total))))
    print(all((one == results[0]).all() for one in results), len(results), told[-1][0] == told[-1][1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_a_system_without_threads():
    done = subprocess.run([sys.executable, "-c", WITHOUT_THREADS], capture_output=True, text=True, timeout=60)
    if done.stdout == "threads\n":
        pytest.skip("this system has no limit for this user")
    assert done.stdout == "True 5 True\n", done.stdout + done.stderr


forks = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def forked(work, seconds=60):
    """Whether a child does its work before the time is over."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return False


class TestForks:
    pytestmark = forks

    def test_while_other_threads_call(self):
        """Calls, plans, matchers, streams and wisdom of other threads, at any of their steps."""
        image, template = RNG.random((150, 160)), RNG.random((9, 9))
        matcher = flcc.plan((150, 160), (9, 9), "f8", threads=2).bind(template)
        expected = matcher(image)
        stream = matcher.stream(image[: 40 + k % 60] for k in range(10**9))
        stop = threading.Event()
        sizes = iter(range(20, 10**9))

        def calls():
            while not stop.is_set():
                n = 20 + next(sizes) % 900
                flcc.correlate(RNG.random(n * 3), RNG.random(n), method="fourier", threads=2)

        def matchers():
            while not stop.is_set():
                matcher(image)
                matcher.peaks(image, k=3)

        def streams():
            while not stop.is_set():
                next(stream)

        def wisdom():
            while not stop.is_set():
                flcc.plan((30 + next(sizes) % 50, 30), (3, 3), effort="measure")
                flcc.export_wisdom()

        def child():
            fine = (matcher(image) == expected).all() and matcher.peaks(image)["score"][0] == expected.max()
            flcc.forget_wisdom()
            flcc.export_wisdom()
            fine &= next(matcher.stream([image[:77]])).shape == (69, 152)
            for n in [486, 500, 77]:
                fine &= flcc.correlate(np.ones(n * 2), np.ones(n), method="fourier", threads=2).shape == (3 * n - 1,)
            return fine and flcc.plan((31, 30), (3, 3), effort="measure").shape == (29, 28)

        threads = [threading.Thread(target=work) for work in (calls, calls, matchers, streams, wisdom)]
        for thread in threads:
            thread.start()
        try:
            done = [forked(child, 30) for _ in range(20)]
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert all(done), done

    def test_claims_of_running_calls_stay_behind(self):
        out = np.zeros_like(IMAGE)
        told = []

        def look(done, total):
            if not told:
                small = RNG.random(IMAGE.shape)
                told.append(forked(lambda: flcc.correlate(small, np.ones((3, 3)), "same", out=IMAGE) is IMAGE))
                told.append(forked(lambda: flcc.correlate(out, np.ones((3, 3)), "same").shape == out.shape))
                told.append(forked(lambda: flcc.correlate(small, np.ones((3, 3)), "same", out=out) is out))

        flcc.correlate(IMAGE, LARGE[:60, :60], "same", out=out, method="direct", threads=1, progress=look)
        assert told == [True] * 3

    def test_a_child_forks(self):
        image = IMAGE[:100, :100]
        expected = flcc.match_template(image, image[:9, :9], threads=2)

        def child(depth):
            fine = (flcc.match_template(image, image[:9, :9], threads=2) == expected).all()
            return fine and (depth == 0 or forked(lambda: child(depth - 1)))

        assert forked(lambda: child(5))
