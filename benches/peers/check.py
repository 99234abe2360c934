"""Whether a peer's answer is right: plain sums in f64, everywhere on a small case and here and there on what is
timed."""

import numpy as np

from workloads import sample

TOLERANCE = 2e-2
SPOTS = 100


def plain(kind, windows, template):
    """The answer of windows, whose last axes are the template's."""
    axes = tuple(range(windows.ndim - template.ndim, windows.ndim))
    windows, weights = windows.astype(np.float64), template.astype(np.float64)
    if kind == "corr":
        return (windows * weights).sum(axes)
    weights = weights - weights.mean()
    centred = windows - windows.mean(axes, keepdims=True)
    return (centred * weights).sum(axes) / np.sqrt((centred**2).sum(axes) * (weights**2).sum())


def distance(kind, got, want):
    """The largest error: relative to the largest value for a correlation, absolute for a coefficient."""
    if got.shape != want.shape:
        raise ValueError(f"expected a result of {want.shape}, got {got.shape}")
    error = np.abs(np.asarray(got, np.float64) - want).max() / (np.abs(want).max() if kind == "corr" else 1)
    if not error <= TOLERANCE:
        raise ValueError(f"the answer is off by {error:.1e}")
    return float(error)


def small(peer, workload, threads):
    """The error on a small case with a template as large as that allows."""
    ndim = len(workload.image)
    sides, most = {1: ((3000,), 500), 2: ((70, 83), 20), 3: ((30, 28, 33), 8)}[ndim]
    rng = np.random.default_rng(7)
    image = sample(rng, sides, workload.dtype)
    template = sample(rng, tuple(min(side, most) for side in workload.template), workload.dtype)
    windows = np.lib.stride_tricks.sliding_window_view(image, template.shape)
    got = np.array(peer.make(image, template, threads)())
    return distance(workload.kind, got, plain(workload.kind, windows, template))


def spots(kind, image, template, got):
    """The error of a result at its two outermost corners and at positions drawn by lot."""
    windows = np.lib.stride_tricks.sliding_window_view(image, template.shape)
    if got.shape != windows.shape[: image.ndim]:
        raise ValueError(f"expected a result of {windows.shape[: image.ndim]}, got {got.shape}")
    rng = np.random.default_rng(3)
    lengths = got.shape
    places = [tuple(0 for _ in lengths), tuple(length - 1 for length in lengths)]
    places += [tuple(int(rng.integers(length)) for length in lengths) for _ in range(SPOTS)]
    want = np.array([plain(kind, windows[place], template) for place in places])
    return distance(kind, np.array([got[place] for place in places]), want)
