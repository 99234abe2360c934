#!/usr/bin/env python3
"""Runs flcc on random problems that are made to hurt and holds every result against an oracle of its own.

    python conformance/fuzz.py --seconds 120                # a fresh seed, which is printed
    python conformance/fuzz.py --seconds 120 --seed 7       # the same cases again, as far as the time goes
    python conformance/fuzz.py --case '{"op": ...}'         # one case, as a violation prints it
    python conformance/fuzz.py --platform cuda --keep DIR   # on a GPU; the files of violations go to DIR

A case is a line of JSON that says all: the spec, how it is computed, and how image, template and mask are made from
seeds. CONVENTIONS.md defines every result and, in section 7, the tolerance of sums and of accuracy fast;
docs/numerics.md promises the rest: 1e-5 (f32) or 1e-11 (f64) for normalised measures of every finite input, exact
integers, the same bits for a region and for any number of threads under one kernel. The oracle takes each panel by
itself, centred and scaled, in f64, and again in long double (64 bits of mantissa at least) wherever that could matter;
integers are exact. It shares nothing with flcc, but for what `bench` alone takes: pairs, known ranks and any number of
channels have made-up data there, and the error that bench finds is held against the promise. Of large results it takes
some hundred places: at random, where a screening by transforms differs most, at bright samples, corners and seams.
Cases that come near their tolerance are kept, changed and tried again. A violation is made smaller and printed with the
command that shows it; then the status is 1. Needs numpy alone.
"""

import argparse
import collections
import copy
import json
import math
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

LD = np.longdouble
DTYPES = {"u8": np.uint8, "u16": np.uint16, "f32": np.float32, "f64": np.float64}
ORDER = ("u8", "u16", "f32", "f64")
U = {"f32": 2.0**-24, "f64": 2.0**-53}
PROMISE = {"f32": 1e-5, "f64": 1e-11}
BOUNDARIES = ("zero", "constant", "replicate", "reflect", "mirror", "wrap")
NORMALISED = ("ncc", "zncc", "nssd")
SUMS = ("conv", "corr", "cc", "ssd", "sad")
LARGEST = {"u8": 255.0, "u16": 65535.0, "f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308}
# Products that a case may come to where all of its panels are in doubt, which the option --products lowers.
PRODUCTS = [2e10]
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # files of batches stay in memory where they can
FULL = 600_000  # multiply-adds up to which every output is computed by the oracle
SAMPLE = 300_000  # and of how many those of a large result are


# ------------------------------------------------------------------ contents ---------------------


def draw(rng, shape, kind, *p):
    """A fresh array: the first layer of a content."""
    n, size = len(shape), math.prod(shape)
    grid = np.meshgrid(*[np.arange(k, dtype=float) for k in shape], indexing="ij")
    if kind == "const":
        return np.full(shape, p[0])
    if kind == "normal":
        return p[0] * rng.normal(size=shape)
    if kind == "uniform":
        return p[0] * rng.random(shape)
    if kind == "ints":
        return np.floor(rng.random(shape) * (p[0] + 1))
    if kind == "two":
        return np.where(rng.random(shape) < 0.5, p[0], -p[0])
    if kind == "perm":  # as many +1 as -1, in a random order
        signs = np.ones(size)
        signs[: size // 2] = -1
        if size % 2 and len(p) > 0 and p[0]:
            signs[-1] = 0
        return rng.permutation(signs).reshape(shape)
    if kind == "exps":  # signs and exponents at random
        with np.errstate(over="ignore", under="ignore"):
            return np.where(rng.random(shape) < 0.5, 1, -1) * 10.0 ** rng.uniform(min(p), max(p), shape)
    if kind == "bits":  # a scan: runs of 0 and of a value
        runs = rng.random(size) < p[1]
        return p[0] * (np.cumsum(runs) % 2).reshape(shape).astype(float)
    if kind == "checker":
        return p[0] * (sum(g // max(1, int(p[1])) for g in grid) % 2)
    if kind == "stripes":
        g = grid[int(p[2]) % n]
        return p[0] * np.where(g % max(1, int(p[1])) < max(1, int(p[1]) // 2), 1.0, 0.0)
    if kind == "wave":
        f = np.zeros(shape)
        for _ in range(int(p[1])):
            k = rng.normal(size=n) * 0.6
            f += np.cos(sum(a * g for a, g in zip(k, grid)) + rng.uniform(0, 6.28))
        return p[0] * f
    if kind == "cosine":  # of so many samples a period
        return p[0] * np.cos(2 * np.pi * (grid[int(p[2]) % n] % p[1]) / p[1])
    if kind == "ramp":
        return p[0] * sum(grid)
    if kind == "step":
        g = grid[int(p[1]) % n]
        return np.where(g >= rng.integers(1, max(2, shape[int(p[1]) % n])), p[0], 0.0)
    if kind == "gauss":
        k = np.ones(())
        for m in shape:
            k = np.multiply.outer(k, np.exp(-0.5 * ((np.arange(m) - (m - 1) / 2) / max(0.8, m / 4)) ** 2))
        return p[0] * k
    if kind == "rank":  # a sum of outer products
        f = np.zeros(shape)
        for _ in range(int(p[1])):
            k = np.ones(())
            for m in shape:
                k = np.multiply.outer(k, rng.normal(size=m))
            f += k
        return p[0] * f
    if kind == "delta":
        f = np.zeros(size)
        f[rng.integers(size)] = p[0]
        return f.reshape(shape)
    if kind == "equal":  # what varies along one axis only
        m = shape[int(p[1]) % n]
        sizes = [1] * n
        sizes[int(p[1]) % n] = m
        return p[0] * (np.ones(shape) * rng.normal(size=sizes))
    if kind == "squares":  # a sequence without a pattern, the same in every row
        g = grid[int(p[1]) % n]
        return p[0] * ((g * g * 7919) % 1009 - 504)
    raise SystemExit(f"content {kind!r}: expected one that fuzz.py knows")


def lay(rng, a, other, kind, *p):
    """A further layer of a content over `a`; `other` is the template, or for a template the image."""
    shape, n = a.shape, a.ndim
    if kind in ("copies", "near"):
        if other is None or other.ndim != n:
            return a
        part = tuple(slice(0, min(s, t)) for s, t in zip(shape, other.shape))
        patch = other.astype(float)[part]
        for k in range(int(p[0])):
            at = [int(rng.integers(0, s - t + 1)) for s, t in zip(shape, patch.shape)]
            if kind == "near" and rng.random() < 0.3:
                at = [min(s - t, int(rng.choice((0, 63, 64, 65, 128)))) for s, t in zip(shape, patch.shape)]
            where = tuple(slice(b, b + t) for b, t in zip(at, patch.shape))
            if kind == "copies":
                a[where] = a[where] * p[2] + p[1] * (1 + 0.37 * k) * patch
            else:  # a copy of which one sample in so many differs a little
                change = rng.random(patch.shape) < p[2]
                a[where] = np.where(change, patch * (1 + p[1] * rng.normal(size=patch.shape)), patch)
        return a
    if kind == "blocks":  # a copy among even blocks as large, as far away as a transform's first sums reach
        if other is None or other.ndim != n or any(t > s for s, t in zip(shape, other.shape)):
            return a
        at, axis = [int(rng.integers(0, s - t + 1)) for s, t in zip(shape, other.shape)], int(p[1]) % n
        apart = max(1, 2 ** math.ceil(math.log2(shape[axis])) // int(rng.choice((2, 3, 4, 8))))
        for far in range(-8, 9):
            begin = at[axis] + far * apart
            where = [slice(b, b + t) for b, t in zip(at, other.shape)]
            where[axis] = slice(max(0, begin), max(0, begin + other.shape[axis]))
            if far == 0:
                a[tuple(where)] = p[2] * other.astype(float)
            elif rng.random() < 0.6:
                a[tuple(where)] = p[0]
        return a
    if kind == "crop":  # of a template: a part of the image, with noise
        if other is None or other.ndim != n:
            return a
        if any(s > o for s, o in zip(shape, other.shape)):
            return a
        at = [int(rng.integers(0, o - s + 1)) for s, o in zip(shape, other.shape)]
        part = other.astype(float)[tuple(slice(b, b + s) for b, s in zip(at, shape))]
        return part + p[0] * rng.normal(size=shape) if p[0] else part.copy()
    if kind == "noise":
        return a + p[0] * rng.normal(size=shape)
    if kind == "patches":
        for _ in range(int(p[0])):
            at = [int(rng.integers(0, s)) for s in shape]
            where = tuple(slice(b, b + int(rng.integers(1, max(2, int(s * 0.6) + 1)))) for b, s in zip(at, shape))
            a[where] = p[1] if len(p) > 1 else float(a[tuple(at)])
        return a
    if kind == "lone":
        for _ in range(int(p[0])):
            a[tuple(int(rng.integers(0, s)) for s in shape)] = p[1]
        return a
    if kind == "corner":  # where a round mask does not look
        a[tuple(int(rng.integers(2)) * (s - 1) for s in shape)] = p[0]
        return a
    if kind == "seam":  # bright samples where tiles may meet
        for _ in range(int(p[0])):
            a[tuple(min(s - 1, int(rng.choice((0, 15, 16, 63, 64, 127, 128, 255, 256, s - 1)))) for s in shape)] = p[1]
        return a
    if kind == "line":
        where = [slice(None)] * n
        axis = int(p[1]) % n
        where[axis] = int(rng.integers(0, shape[axis]))
        a[tuple(where)] += p[0]
        return a
    if kind == "specks":
        return np.where(rng.random(shape) < p[0], p[1], a)
    if kind == "clip":
        return np.clip(a, p[0], p[1])
    if kind == "times":
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return a * p[0]
    if kind == "plus":
        return a + p[0]
    if kind == "faint":  # one side of the array times a factor
        where = [slice(None)] * n
        axis = int(p[1]) % n
        where[axis] = slice(int(shape[axis] * rng.uniform(0.2, 0.8)), None)
        with np.errstate(over="ignore", under="ignore"):
            a[tuple(where)] *= p[0]
        return a
    if kind == "alternate":
        where = [1] * n
        axis = int(p[0]) % n
        where[axis] = shape[axis]
        return a * np.where(np.arange(shape[axis]) % 2, -1.0, 1.0).reshape(where)
    if kind == "repeat":  # every line along an axis as the first
        axis = int(p[0]) % n
        return np.repeat(np.take(a, [0], axis=axis), shape[axis], axis=axis)
    if kind == "round":
        return np.rint(a * p[0]) / p[0]
    if kind == "ulps":
        return a * (1 + p[0] * np.rint(2 * rng.normal(size=shape)))
    if kind == "levels":  # a panel of few levels, whose differences from the ground `p[0]` are rounded most
        ground, middle, spread, count = p[0], p[1], p[2], int(p[3])
        where = [np.float32(middle + spread * f + 0.1 * spread / count * rng.normal(size=100)).astype(float)
                 for f in np.linspace(-1, 1, count)]
        errors = [np.float32(near - ground) - (near - ground) for near in where]
        levels = np.array([near[np.argmax(e * (-1) ** k)] for k, (near, e) in enumerate(zip(where, errors))])
        size = [min(s, int(k)) for s, k in zip(shape, p[4:])]
        at = [int(rng.integers(0, s - k + 1)) for s, k in zip(shape, size)]
        a[tuple(slice(b, b + k) for b, k in zip(at, size))] = levels[rng.integers(0, count, size)]
        return a
    if kind == "errors":  # of a template: what the rounding of such a panel has that the panel has not
        if other is None or other.ndim != n or any(s > o for s, o in zip(shape, other.shape)):
            return a
        ground = np.float32(p[0]).astype(float)
        off = np.argwhere(other != ground)
        at = [min(int(b), o - s) for b, o, s in zip(off.min(axis=0), other.shape, shape)] if len(off) else [0] * n
        panel = other.astype(float)[tuple(slice(b, b + s) for b, s in zip(at, shape))]
        error = np.float32(panel - ground) - (panel - ground)
        d, e = panel - panel.mean(), error - error.mean()
        e = e - d * ((d * e).sum() / max((d * d).sum(), 1e-300))
        return e / np.abs(e).max() if np.abs(e).max() > 0 else a
    if kind in ("nan", "inf", "-inf", "-0"):  # after the cast, see `content`
        return a
    return draw(rng, shape, kind, *p)


def cast(a, dtype):
    """The array in a type of pixels, what lies outside its range at the end of it."""
    if dtype in ("u8", "u16"):
        return np.rint(np.clip(np.nan_to_num(a, nan=0.0), 0, LARGEST[dtype])).astype(DTYPES[dtype])
    with np.errstate(over="ignore", under="ignore"):
        return np.clip(np.nan_to_num(a, nan=0.0), -LARGEST[dtype], LARGEST[dtype]).astype(DTYPES[dtype])


def content(seed, shape, channels, layers, dtype, other):
    """Image or template: an array of `shape`, with the channels as a last axis where there are several."""
    planes = []
    if 0 in shape:
        return np.zeros(tuple(shape) + ((channels,) if channels > 1 else ()), DTYPES[dtype])
    for c in range(channels):
        beside = None if other is None else other[..., c] if channels > 1 else other
        a = np.zeros(shape)
        for k, (kind, *p) in enumerate(layers):
            a = lay(np.random.default_rng([seed, k, c]), a, beside, kind, *p)
        a = cast(np.asarray(a, float), dtype)
        if dtype in ("f32", "f64"):
            for k, (kind, *p) in enumerate(layers):
                if kind == "-0":  # some of the zeros have the other sign
                    other_sign = np.random.default_rng([seed, k, c]).random(shape) < p[0]
                    a[other_sign & (a == 0)] = -0.0
                if kind in ("nan", "inf", "-inf"):
                    rng = np.random.default_rng([seed, k, c])
                    for _ in range(int(p[0])):
                        seams = [
                            (int(rng.integers(0, s)), min(s - 1, int(rng.choice((0, 63, 64, 127, 128, s - 1)))))
                            for s in shape
                        ]
                        a[tuple(pair[int(rng.random() < 0.4)] for pair in seams)] = float(kind)
        planes.append(a)
    return np.ascontiguousarray(np.stack(planes, axis=-1) if channels > 1 else planes[0])


def arrays(case):
    """Image, template and mask of a case."""
    shape, tshape, channels = tuple(case["shape"]), tuple(case["template"]), case.get("channels", 1)
    xs, ts = case["x"], case["t"]
    if any(layer[0] in ("crop", "errors") for layer in ts["layers"]):
        x = content(xs["seed"], shape, channels, xs["layers"], case["types"][0], None)
        t = content(ts["seed"], tshape, channels, ts["layers"], case["types"][1], x)
    else:
        t = content(ts["seed"], tshape, channels, ts["layers"], case["types"][1], None)
        x = content(xs["seed"], shape, channels, xs["layers"], case["types"][0], t)
    first = x  # what templates are made from
    if case.get("frame"):  # of several images a later one
        x = content(xs["seed"] + case["frame"], shape, channels, xs["layers"], case["types"][0], t)
    if case.get("which"):  # of several templates a later one
        t = content(ts["seed"] + case["which"], tshape, channels, ts["layers"], case["types"][1], first)
    for name in ("crop", "cut"):
        if case.get(name):
            part = tuple(slice(a, b) for a, b in case[name])
            x, t = (np.ascontiguousarray(x[part]), t) if name == "crop" else (x, np.ascontiguousarray(t[part]))
    if case.get("wrong") == "dims":
        t = t.reshape((1,) + t.shape) if t.ndim < 3 else t.reshape(t.shape[1:]) if t.shape[0] == 1 else t[0]
    w = None
    if case.get("mask"):
        kind, seed, *p = case["mask"]
        rng = np.random.default_rng(seed)
        size = (
            t.shape[: len(tshape)]
            if case.get("wrong") != "mask_shape"
            else tuple(k + 1 for k in t.shape[: len(tshape)])
        )
        if kind == "bits":
            w = (rng.random(size) < p[0]).astype(np.uint8)
            w.flat[int(rng.integers(w.size))] = 1
        elif kind == "disc":
            g = np.meshgrid(*[(np.arange(k) - (k - 1) / 2) / max(1, k / 2) for k in size], indexing="ij")
            w = (sum(a * a for a in g) <= 1).astype(np.float32)
            w.flat[w.size // 2] = 1
        elif kind == "decades":  # from 1 down to almost nothing
            w = (10.0 ** rng.uniform(-p[0], 0, size)).astype(np.float64 if p[0] > 30 else np.float32)
            w[rng.random(size) < 0.2] = 0
            w.flat[int(rng.integers(w.size))] = 1
        else:
            w = np.where(rng.random(size) < 0.2, 0, rng.random(size) * p[0]).astype(DTYPES[p[1]])
            w.flat[int(rng.integers(w.size))] = p[0]
        if case.get("wrong") == "mask_zero":
            w = np.zeros_like(w)
        elif case.get("wrong") in ("mask_negative", "mask_nan"):
            w = w.astype(np.float32)
            w.flat[int(rng.integers(w.size))] = -1 if case["wrong"] == "mask_negative" else np.nan
    return x, t, w


# ------------------------------------------------------------------ oracle -----------------------


def joined(case):
    return ORDER[max(ORDER.index(name) for name in case["types"])]


def equal_bits(a, b):
    """Where two arrays of a type have the same bits, the sign of a zero too; one NaN is as good as another."""
    bits = {4: np.uint32, 8: np.uint64}[a.dtype.itemsize]
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return (a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))


def measure_of(case):
    return "cc" if case["op"] in ("conv", "corr", "cc") else case["op"]


def folded(i, n, boundary):
    """Source indices of an axis of n samples; -1 where a value stands instead."""
    if boundary in ("zero", "constant"):
        return np.where((i >= 0) & (i < n), i, -1)
    if boundary == "replicate":
        return np.clip(i, 0, n - 1)
    if boundary == "wrap":
        return np.mod(i, n)
    if boundary == "reflect":
        j = np.mod(i, 2 * n)
        return np.minimum(j, 2 * n - 1 - j)
    j = np.mod(i, max(1, 2 * n - 2))
    return np.minimum(j, 2 * n - 2 - j) if n > 1 else np.zeros_like(i)


def mistakes(case, x, t, w):
    """The names of the errors of section 6 that this call makes."""
    found = set()
    if x.size == 0 or t.size == 0:
        return {"empty_input"}
    channels = case.get("channels", 1)
    dims, tdims = (x.ndim - 1, t.ndim - 1) if channels > 1 else (x.ndim, t.ndim)
    if dims != tdims:
        return {"dims_mismatch"}
    if case["mode"] == "valid" and any(a > b for a, b in zip(t.shape[:dims], x.shape[:dims])):
        found.add("template_larger_than_image")
    if w is not None and case["op"] == "conv":
        return found | {"invalid"}
    on = np.ones(t.shape[:dims], bool)
    if w is not None:
        if w.shape != t.shape[:dims]:
            return found | {"mask_shape"}
        weights = w.astype(float)
        if not np.isfinite(weights).all() or (weights < 0).any() or not (weights > 0).any():
            return found | {"mask_invalid"}
        on = weights > 0
    if case["op"] not in ("conv", "corr", "cc"):
        if not np.isfinite(t.astype(float)).all():
            return found | {"nonfinite_template"}
        kept = t[on].reshape(-1, channels)
        if case["op"] == "zncc" and (kept == kept[:1]).all():
            found.add("constant_template")
        if case["op"] in ("ncc", "nssd") and not kept.any():
            found.add("zero_template")
    if case.get("accuracy") == "exact" and joined(case) in ("u8", "u16"):
        if w is not None and not np.isin(w, (0, 1)).all():
            found.add("invalid")
        c = case.get("cval", 0.0)
        if (
            case["boundary"] == "constant"
            and case["mode"] != "valid"
            and (c != int(c) or not 0 <= c <= LARGEST[joined(case)])
        ):
            found.add("invalid")
    return found


def good_length(n):
    """A length from n on that transforms are fast at."""
    while True:
        m = n
        for f in (2, 3, 5):
            while m % f == 0:
                m //= f
        if m == 1:
            return n
        n += 1


def correlated(a, kernels, out):
    """By transforms in f64, the valid correlations of `a` with arrays of the template's size."""
    axes = tuple(range(a.ndim))
    sizes = [good_length(s) for s in a.shape]
    spectrum = np.fft.rfftn(a, sizes, axes)
    part = tuple(slice(0, n) for n in out)
    return [np.fft.irfftn(spectrum * np.conj(np.fft.rfftn(k, sizes, axes)), sizes, axes)[part] for k in kernels]


def boxes(a, tshape):
    """Sums of every window, by running sums: counts exactly, other sums roughly."""
    for axis, t in enumerate(tshape):
        c = np.cumsum(a, axis=axis)
        pad = [(0, 0)] * a.ndim
        pad[axis] = (1, 0)
        c = np.pad(c, pad)
        n = c.shape[axis]
        a = np.take(c, np.arange(t, n), axis=axis) - np.take(c, np.arange(0, n - t), axis=axis)
    return a


class Problem:
    """A case with its arrays, extended as its boundary says, and its panels."""

    def __new__(cls, case=None):
        return super().__new__(Partial if case and case.get("known") else cls)

    def __init__(self, case):
        self.case = case
        self.x, self.t, self.w = x, t, w = arrays(case)
        self.mistakes = mistakes(case, x, t, w)
        self.op, self.measure = case["op"], measure_of(case)
        self.work = joined(case)
        self.out = case.get("precision") or ("f64" if self.work == "f64" else "f32")
        self.accuracy = case.get("accuracy") or "promised"
        self.fits = True
        if self.mistakes:
            return
        channels = case.get("channels", 1)
        self.dims = dims = x.ndim - (channels > 1)
        self.tshape, xs = t.shape[:dims], x.shape[:dims]
        tf = t if case["op"] != "conv" else t[tuple([slice(None, None, -1)] * dims)]
        origin = {
            "full": [0] * dims, "same": [(k - 1) // 2 for k in self.tshape], "valid": [k - 1 for k in self.tshape],
        }
        self.origin = origin[case["mode"]]
        lengths = {
            "full": [a + b - 1 for a, b in zip(xs, self.tshape)], "same": list(xs),
            "valid": [a - b + 1 for a, b in zip(xs, self.tshape)],
        }
        self.shape = tuple(lengths[case["mode"]])
        fill = case.get("cval", 0.0) if case["boundary"] == "constant" else 0.0
        ext = x.astype(float).reshape(xs + (channels,))
        for axis in range(dims):
            first = self.origin[axis] - (self.tshape[axis] - 1)
            source = folded(
                np.arange(first, first + self.shape[axis] + self.tshape[axis] - 1), xs[axis], case["boundary"]
            )
            ext = np.take(ext, np.where(source < 0, 0, source), axis=axis)
            if (source < 0).any():
                where = [slice(None)] * (dims + 1)
                where[axis] = source < 0
                ext[tuple(where)] = fill
        spoilt = ~np.isfinite(ext)
        self.spoilt = spoilt.any(axis=-1) if spoilt.any() else None
        self.ext = np.where(spoilt, 0.0, ext) if spoilt.any() else ext
        self.taps = np.ascontiguousarray(
            tf.astype(float).reshape(self.tshape + (channels,)).reshape(-1, channels).T
        )  # (C, N)
        self.weights = None if w is None else w.astype(float).ravel()
        self.count = self.taps.size
        self.template_finite = bool(np.isfinite(self.taps).all())
        self.windows = sliding_window_view(self.ext, self.tshape, axis=tuple(range(dims)))
        self.outputs = math.prod(self.shape)
        self.binary = binary = w is None or bool(np.isin(w, (0, 1)).all())
        self.integer = self.work in ("u8", "u16") and binary and fill == int(fill) and 0 <= fill <= LARGEST[self.work]
        self.most = most = [
            float(np.abs(a).max()) if a.size else 0.0 for a in (self.ext, self.taps[np.isfinite(self.taps)])
        ]
        self.fits = self.integer and self.count * max(most) * (1 if self.measure == "sad" else max(most)) < 2**53
        self.small = all(m == 0 or 1e-60 < m < 1e60 for m in most) and self.least() > 1e-60
        self.verdicts = {}

    def least(self):
        """The smallest magnitude that is not 0."""
        both = [np.abs(a[a != 0]) for a in (self.ext, self.taps)]
        return min((float(a.min()) for a in both if a.size), default=1.0)

    # -- expectations ---------------------------------------------------------------------------

    def panels(self, flat):
        """The panels of these outputs: (outputs, channels, samples)."""
        at = np.unravel_index(flat, self.shape)
        return self.windows[at].reshape(len(flat), -1, self.taps.shape[1])

    def evaluate(self, flat, kind):
        """(values as long double, ||P||, ||P - mean||, ||P - mean of the image||) of these outputs, in type `kind`."""
        p, t = self.panels(flat).astype(kind), self.taps.astype(kind)
        w = None if self.weights is None else self.weights.astype(kind)
        if w is not None:  # what no weight looks at decides no power of two
            p, t = np.where(w > 0, p, kind(0)), np.where(w > 0, t, kind(0))
        shift = np.zeros(len(flat), int)
        tshift = 0
        if kind is not LD and not self.small:  # each panel and the template by a power of two, near 1
            both = self.measure in ("ssd", "nssd", "sad")
            largest = np.abs(p).max(axis=(1, 2))
            largest = np.maximum(largest, np.abs(t).max()) if both else largest
            shift = np.frexp(largest)[1]
            tshift = int(np.frexp(np.abs(t).max())[1])
            with np.errstate(under="ignore"):
                p = np.ldexp(p, -shift[:, None, None])
                ts = t if self.measure not in ("ssd", "nssd", "sad") else np.ldexp(t[None], -shift[:, None, None])
                t = np.ldexp(t, -tshift) if self.measure not in ("ssd", "nssd", "sad") else t
        else:
            ts = t
        weigh = (lambda a: a) if w is None else (lambda a: a * w)

        def total(a):
            return a.sum(axis=-1).sum(axis=-1)

        def back(a, s):
            return np.ldexp(a.astype(LD), s)

        n = LD(t.shape[1]) if w is None else w.sum()
        pp = total(weigh(p * p))
        norm = np.sqrt(pp)
        middle = np.zeros(len(flat))
        if self.measure == "cc":
            if w is None and kind is not LD:
                value = p.reshape(len(flat), -1) @ t.ravel()
            else:
                value = total(weigh(p * t))
            value = back(value, shift + tshift)
        elif self.measure == "ncc":
            tt = total(weigh(t * t)[None])[0]
            den = norm * np.sqrt(tt)
            value = np.where(den > 0, total(weigh(p * t)) / np.where(den > 0, den, 1), 0).astype(LD)
        elif self.measure == "zncc":
            mean = weigh(p).sum(axis=-1) / n if w is not None else p.mean(axis=-1)
            tmean = weigh(t).sum(axis=-1) / n if w is not None else t.mean(axis=-1)
            d, e = p - mean[..., None], t - tmean[:, None]
            ds, es = weigh(d).sum(axis=-1), weigh(e).sum(axis=-1)
            cross = total(weigh(d * e)) - (ds * es).sum(axis=-1) / n
            energy = np.maximum(total(weigh(d * d)) - (ds * ds).sum(axis=-1) / n, 0)
            tenergy = total(weigh(e * e)[None])[0] - (es * es).sum() / n
            on = slice(None) if w is None else w > 0
            kept = p[..., on]
            flat_panel = (kept == kept[..., :1]).all(axis=(1, 2))
            den = np.sqrt(energy) * np.sqrt(tenergy)
            value = np.where(flat_panel | (den == 0), 0, cross / np.where(den > 0, den, 1)).astype(LD)
            middle = np.where(flat_panel, 0, np.sqrt(energy))
        elif self.measure == "ssd":
            value = back(total(weigh((p - ts) ** 2)), 2 * shift)
        elif self.measure == "nssd":
            tt = total(weigh(ts * ts)) if ts.ndim == 3 else total(weigh(ts * ts)[None])
            den = norm * np.sqrt(tt)
            zero = (
                pp == 0
                if kind is LD
                else ~(self.panels(flat)[..., slice(None) if w is None else w > 0].any(axis=(1, 2)))
            )
            value = np.where(
                zero | (den == 0), 1, np.minimum(1, total(weigh((p - ts) ** 2)) / np.where(den > 0, den, 1))
            ).astype(LD)
        else:
            value = back(total(weigh(np.abs(p - ts))), shift)
        if self.measure in ("ncc", "zncc"):
            value = np.clip(value, -1, 1)
        inner = np.zeros(len(flat))
        if self.accuracy == "fast" and self.measure in NORMALISED:
            if self.measure != "zncc":
                mean = weigh(p).sum(axis=-1) / n
                middle = np.sqrt(total(weigh((p - mean[..., None]) ** 2)))
            finite = self.x[np.isfinite(self.x)].astype(LD)
            top = int(np.frexp(self.most[0])[1])
            centre = np.ldexp(finite.mean(), -top).astype(kind) if finite.size else kind(0)
            d = np.ldexp(self.panels(flat), -top).astype(kind) - centre
            inner = back(np.sqrt(total(weigh(d * d))), top)
        return value, back(norm, shift), back(np.asarray(middle), shift), np.asarray(inner, LD)

    def exact_integers(self, flat):
        """What integers must be, bit for bit, as values of the type of the result: section 4's exact finish."""
        p, t = self.panels(flat), self.taps
        w = self.weights
        weigh = (lambda a: a) if w is None else (lambda a: a * w)

        def whole(a):  # sums of products below 2^53: exact in any order
            return a.astype(np.int64)

        tt = whole(weigh(t * t).sum(axis=-1))
        spt = whole(weigh(p * t).sum(axis=-1))
        kind = DTYPES[self.out]
        if self.measure == "cc":
            return spt.sum(axis=-1).astype(kind)
        if self.measure == "ssd":
            return whole(weigh((p - t) ** 2).sum(axis=-1)).sum(axis=-1).astype(kind)
        if self.measure == "sad":
            return whole(weigh(np.abs(p - t)).sum(axis=-1)).sum(axis=-1).astype(kind)
        spp = whole(weigh(p * p).sum(axis=-1))
        if self.measure == "zncc":
            n = int(t.shape[1] if w is None else w.sum())
            sp, st = whole(weigh(p).sum(axis=-1)), whole(weigh(t).sum(axis=-1))
            if n * int(max(spp.max(), spt.max(), tt.max())) * len(t) * 2 > 2**62:
                spp, spt, tt, sp, st = (a.astype(object) for a in (spp, spt, tt, sp, st))
            c = (n * spt - sp * st).sum(axis=-1).astype(float)
            v = (n * spp - sp * sp).sum(axis=-1).astype(float)
            s = float((n * tt - st * st).sum())
        elif self.measure == "ncc":
            c, v, s = spt.sum(axis=-1).astype(float), spp.sum(axis=-1).astype(float), float(tt.sum())
        else:
            v, s = spp.sum(axis=-1), tt.sum()
            c, v, s = (v - 2 * spt.sum(axis=-1) + s).astype(float), v.astype(float), float(s)
        with np.errstate(divide="ignore", invalid="ignore"):
            r = c / (np.sqrt(v) * math.sqrt(s))
        if self.measure == "nssd":
            return np.where(v == 0, 1.0, np.minimum(r, 1.0)).astype(kind)
        return np.where(v == 0, 0.0, np.clip(r, -1.0, 1.0)).astype(kind)

    def spoilt_outputs(self):
        """Where a panel holds a sample that is not finite under a positive weight; None if nowhere."""
        if self.spoilt is None:
            return None
        if self.weights is None or (self.weights > 0).all():
            return boxes(self.spoilt.astype(np.int64), self.tshape) > 0
        on = (self.weights > 0).astype(float).reshape(self.tshape)
        return correlated(self.spoilt.astype(float), [on], self.shape)[0] > 0.5

    def screened(self):
        """A rough result by transforms and the panels' energies, to choose places by."""
        if not self.template_finite:
            return None, None
        scale = max(self.most[0], 1e-320)
        tscale = max(self.most[1], 1e-320)
        if self.measure in ("ssd", "nssd", "sad"):
            scale = tscale = max(scale, tscale)
        w = np.ones(self.tshape) if self.weights is None else self.weights.reshape(self.tshape)
        n, cross, p2, t2, c1 = w.sum(), 0, 0, 0, 0

        def summed(a):
            return boxes(a, self.tshape) if self.weights is None else correlated(a, [w], self.shape)[0]

        with np.errstate(all="ignore"):
            for c in range(self.ext.shape[-1]):
                a = self.ext[..., c] / scale
                t = self.taps[c].reshape(self.tshape) / tscale
                if self.measure == "zncc":
                    a, t = a - np.median(a), t - (w * t).sum() / n
                cross = cross + correlated(a, [w * t], self.shape)[0]
                p2, t2 = p2 + summed(a * a), t2 + (w * t * t).sum()
                c1 = c1 + summed(a) ** 2 if self.measure == "zncc" else c1
            energy = p2 - c1 / n
            value = {
                "cc": lambda: cross * (scale * tscale), "ncc": lambda: cross / np.sqrt(p2 * t2),
                "zncc": lambda: cross / np.sqrt(energy * t2), "ssd": lambda: (p2 - 2 * cross + t2) * (scale * scale),
                "nssd": lambda: np.minimum(1, (p2 - 2 * cross + t2) / np.sqrt(p2 * t2)),
            }
            return value[self.measure](), energy if self.measure == "zncc" else p2

    def places(self, got):
        """Flat indices of the outputs that are compared: all, or a choice."""
        if self.outputs * self.count <= FULL:
            return np.arange(self.outputs)
        rng = np.random.default_rng(self.case["x"]["seed"])
        most = max(4, min(self.outputs, SAMPLE // max(1, self.count)))
        chosen = []
        got = np.nan_to_num(got.astype(float), nan=0.0, posinf=0.0, neginf=0.0).ravel()
        share = max(2, most // 6)

        def least(a, count):
            return np.argpartition(a, count)[:count] if count < len(a) else np.arange(len(a))

        rough, energy = self.screened() if self.measure != "sad" else (None, None)
        if rough is not None:
            with np.errstate(all="ignore"):
                off = np.nan_to_num(np.abs(got - rough.ravel()), nan=0.0, posinf=0.0)
            chosen += [least(-off, 2 * share), least(np.nan_to_num(energy.ravel(), nan=0.0), share)]
        chosen += [least(got, share // 2 + 1), least(-got, share // 2 + 1)]
        last = np.array(self.shape) - 1
        bright = least(-np.abs(self.ext).max(axis=-1).ravel(), share // 4 + 1)
        at = np.repeat(np.stack(np.unravel_index(bright, self.ext.shape[:-1]), axis=-1), 2, axis=0)
        near = at - rng.integers(-1, np.array(self.tshape) + 1, at.shape)
        seams = np.stack(
            [rng.choice((0, 63, 64, 65, 127, 128, 255, 256, n, n // 2), share // 2 + 1) for n in last], axis=-1
        )
        near = np.clip(np.concatenate([near, seams]), 0, last)
        chosen += [np.ravel_multi_index(tuple(near.T), self.shape), rng.integers(0, self.outputs, share)]
        chosen = np.concatenate(chosen)[: 2 * most]
        return np.unique(chosen)

    def largest_norm(self, flat, norms, power=2):
        """The largest ||P|| of all panels."""
        if len(flat) == self.outputs:
            return LD(norms.max()) if len(norms) else LD(0)
        scale = max(self.most[0], 1e-320)
        a = ((self.ext / scale) ** 2).sum(axis=-1)
        if self.weights is None:
            big = boxes(a, self.tshape).max()
        else:
            big = correlated(a, [self.weights.reshape(self.tshape)], self.shape)[0].max()
        return max(LD(scale) * np.sqrt(LD(max(big, 0.0))), LD(norms.max()))

    def template_norm(self):
        t = self.taps.astype(LD)
        t = t * t if self.weights is None else t * t * self.weights.astype(LD)
        return np.sqrt(t.sum())

    def tiny(self):
        """What sums of numbers below the normal ones may be off by."""
        # A transform on a GPU may take what is below the normal numbers for 0.
        lost = -126 if self.case.get("platform") == "cuda" else -149
        return LD(2.0) ** (lost if self.out == "f32" else -1074) * self.count

    def common(self):
        """What the samples of each of the template's channels have in common, 0 where that is next to nothing."""
        used = slice(None) if self.weights is None else self.weights > 0
        low, high = (of(self.taps[:, used].astype(LD), axis=1) for of in (np.min, np.max))
        middle = (low + high) / 2
        return np.where((high - low) / 2 <= abs(middle) / 150, middle, 0)

    def apart(self):
        """The largest ||P|| + ||t|| of samples less what those of the template have in common, channel by channel."""
        used = slice(None) if self.weights is None else self.weights > 0
        weights = np.ones(self.taps.shape[1]) if self.weights is None else self.weights
        image = template = LD(0)
        for c, (taps, middle) in enumerate(zip(self.taps, self.common())):
            low, high = LD(taps[used].min()), LD(taps[used].max())
            here = self.ext[..., c] if self.spoilt is None else self.ext[..., c][~self.spoilt]
            reach = max(abs(LD(here.max()) - middle), abs(LD(here.min()) - middle)) if here.size else LD(0)
            image += weights.sum() * reach * reach
            # Templates of a plan may share an offset, which is as far from this middle as its own samples are.
            template += weights.sum() * max(abs(low - middle), abs(high - middle)) ** 2
        return np.sqrt(image) + np.sqrt(template)

    def tolerance(self, flat, norms, middles, inners, method):
        """The tolerance of each place."""
        u = LD(U[self.out])
        k = 16 + math.sqrt(self.count)
        if self.measure in NORMALISED and self.accuracy != "fast":
            return np.full(len(flat), LD(PROMISE[self.out]))
        top, tn = self.largest_norm(flat, norms), self.template_norm()
        if self.measure in SUMS:
            # A transform rounds in proportion to samples that no weight, or hardly one, looks at, too: auto takes one
            # only where those that none looks at are hidden from it.
            asked = method in ("fourier", "separable")
            hidden = asked and method == "fourier" and self.binary and self.case.get("platform") != "cuda"
            if self.weights is not None and asked and not hidden:
                scale = max(self.most[0], 1e-320)
                big = boxes(((self.ext / scale) ** 2).sum(axis=-1), self.tshape).max()
                top = max(top, LD(scale) * np.sqrt(LD(max(big, 0.0))))
            wide = 1 if self.weights is None else None
            sw = LD(self.count) if wide else self.weights.astype(LD).sum() * len(self.taps)
            scale = {"cc": top * tn, "ssd": (top + tn) ** 2, "sad": np.sqrt(sw) * (top + tn)}[self.measure]
            return np.full(len(flat), k * u * scale + self.tiny())
        lossy = self.work == "f64" and self.out == "f32"
        if self.measure == "zncc":
            wide = LD(inners.max())
            if len(flat) < self.outputs:  # the largest of all, roughly
                finite = self.x[np.isfinite(self.x)].astype(float)
                scale = max(self.most[0], 1e-320)
                a = (((self.ext / scale) - (finite.mean() / scale if finite.size else 0.0)) ** 2).sum(axis=-1)
                weights = np.ones(self.tshape) if self.weights is None else self.weights.reshape(self.tshape)
                wide = max(wide, scale * np.sqrt(LD(max(0.0, correlated(a, [weights], self.shape)[0].max()))))
            wide = max(wide, top) if lossy else wide
            cond = 1 + np.where(middles > 0, wide / np.where(middles > 0, middles, 1), 0)
        elif self.measure == "ncc":
            cond = 1 + np.where(norms > 0, top / np.where(norms > 0, norms, 1), 0)
        else:
            cond = 1 + np.where(norms > 0, (top + tn) ** 2 / (tn * np.where(norms > 0, norms, 1)), 0)
        if self.out == "f32":
            return k * u * cond ** (1 if self.weights is None else 2)
        typical = np.median((norms / np.where(middles > 0, middles, 1))[middles > 0]) if (middles > 0).any() else 1
        area = max(1.0, self.x.size / self.t.size)
        return 64 * u * area * max(LD(1), typical) * cond**2

    def bits_due(self, method):
        """Whether the result must be the exact one, bit for bit."""
        if not self.fits or not self.template_finite:
            return False
        if self.accuracy == "exact":
            return True
        if self.measure in NORMALISED or method == "separable":
            return False
        if method == "fourier":
            tile = 4.0 * self.ext.size
            bound = 10 * math.log2(tile) * U["f64"] * LARGEST[self.work] ** 2 * math.sqrt(tile * self.count)
            return self.accuracy != "fast" and self.measure in ("cc", "ssd") and bound < 0.25
        return True

    # -- judgement ------------------------------------------------------------------------------

    def judge(self, got, method):
        """(largest ratio of error to tolerance, what was found there)"""
        case = self.case
        if str(got.dtype) != {"f32": "float32", "f64": "float64"}[self.out]:
            return math.inf, {"what": f"type {got.dtype}, expected {self.out}"}
        begin = [0] * self.dims
        if case.get("roi"):
            begin = [a - b for a, b in zip(case["roi"][0], self.origin)]
            if got.shape != tuple(case["roi"][1]):
                return math.inf, {"what": f"shape {got.shape}, expected {tuple(case['roi'][1])}"}
            whole = np.full(self.shape, np.nan, got.dtype)
            part = tuple(slice(b, b + n) for b, n in zip(begin, got.shape))
            whole[part] = got
            inside = np.zeros(self.shape, bool)
            inside[part] = True
            got, inside = whole, inside.ravel()
        elif got.shape != self.shape:
            return math.inf, {"what": f"shape {got.shape}, expected {self.shape}"}
        else:
            inside = None

        def found(flat, what, **more):
            at = [int(i) for i in np.unravel_index(int(flat), self.shape)]
            more.setdefault("got", float(got.ravel()[int(flat)]))
            return {"what": what, "at": at, **more}

        values = got.ravel()
        finite = np.isfinite(values)
        bad = self.spoilt_outputs()
        bad = np.zeros(self.outputs, bool) if bad is None else bad.ravel()
        if not self.template_finite:
            bad = np.ones(self.outputs, bool)
        here = np.ones(self.outputs, bool) if inside is None else inside
        wrong = here & bad & (finite if self.measure == "cc" else ~np.isnan(values))
        if wrong.any():
            return math.inf, found(np.flatnonzero(wrong)[0], "a panel that touches NaN or an infinity has a value")
        nan = here & ~bad & (np.isnan(values) if self.op in SUMS else ~finite)
        if nan.any():
            return math.inf, found(np.flatnonzero(nan)[0], "NaN where all samples are finite")
        scores = np.where(finite, values, 0)
        beyond = here & ~bad & ((scores if self.measure == "nssd" else np.abs(scores)) > 1)
        if self.measure in NORMALISED and beyond.any():
            return math.inf, found(np.flatnonzero(beyond)[0], "a score beyond 1")
        flat_map = self.flat_outputs()
        if flat_map is not None:
            due = 1.0 if self.measure == "nssd" else 0.0
            wrong = here & ~bad & flat_map & (values != due)
            if wrong.any():
                return math.inf, found(
                    np.flatnonzero(wrong)[0], f"a constant panel (or one of zeros), for which {due:g} is due",
                    expected=due,
                )
        flat = self.places(np.where(here, values, 0))
        flat = flat[here[flat] & ~bad[flat]]
        if not len(flat):
            return 0.0, {"what": "nothing to compare"}
        if self.bits_due(method):
            due = self.exact_integers(flat)
            wrong = np.flatnonzero(~equal_bits(due, values[flat]))  # an integer's zero has no sign
            if len(wrong):
                k = wrong[np.argmax(np.abs(due[wrong].astype(float) - values[flat][wrong].astype(float)))]
                return math.inf, found(flat[k], "other bits than the exact integers'", expected=float(due[k]))
            return 0.0, found(flat[0], "exact")
        ratio, expected, limit = self.ratios(flat, values[flat], np.float64, method)
        order = np.argsort(ratio)[::-1]
        if self.out == "f64" or ratio[order[0]] > 0.5:  # what could matter, again in long double
            few = max(3, min(24, 40_000 // max(1, self.count)))
            again = flat[np.sort(order[:few])]
            r2, e2, l2 = self.ratios(again, values[again], LD, method, flat)
            k = int(np.argmax(r2))
            return float(r2[k]), found(again[k], "", expected=float(e2[k]), tolerance=float(l2[k]))
        k = int(order[0])
        return float(ratio[k]), found(flat[k], "", expected=float(expected[k]), tolerance=float(limit[k]))

    def ratios(self, flat, values, kind, method, before=None):
        value, norms, middles, inners = self.evaluate_by_parts(flat, kind)
        if before is None:
            limit = self.tolerance(flat, norms, middles, inners, method)
            self.limit = limit
        else:
            limit = self.limit[np.searchsorted(before, flat)]
        if self.measure == "ssd" and not self.case.get("known"):
            # What image and template have in common costs differences nothing.
            k = 16 + math.sqrt(self.count)
            shifted = LD(U[self.out]) * (4 * k * self.apart() ** 2 + np.abs(value)) + self.tiny()
            limit = np.minimum(limit, shifted)
        if self.measure == "ssd" and self.weights is None and not self.case.get("known") and not self.common().any():
            # Differences beside squares that the result does not hold are known by themselves.
            with np.errstate(over="ignore"):
                both = norms.astype(LD) + self.template_norm()
                beyond = (both**2 > 2 * LD(LARGEST[self.out])) & (both > 1e-15 * both.max())
            limit = np.where(beyond, np.minimum(limit, 1e-3 * np.abs(value)), limit)
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.abs(values.astype(LD) - value)
            over = np.isinf(values) & (
                value * np.sign(values) + limit >= LD(LARGEST[self.out])
            )  # it may have overflown
        off = np.where(over, 0, np.where(np.isnan(off), np.inf, off))
        ratio = np.where(off == 0, 0, off / np.where(limit > 0, limit, LD(2.0) ** -1074))
        return ratio, value, limit

    def evaluate_by_parts(self, flat, kind):
        step = max(1, 2_000_000 // max(1, self.count))
        parts = [self.evaluate(flat[k : k + step], kind) for k in range(0, len(flat), step)]
        return tuple(np.concatenate([part[k] for part in parts]) for k in range(4))

    def flat_outputs(self):
        """Where 0 (nssd: 1) is due exactly, decided by counts; None where no measure says so."""
        if self.measure not in NORMALISED:
            return None
        on = None
        if self.weights is not None and not (self.weights > 0).all():
            on = (self.weights > 0).astype(float).reshape(self.tshape)
        flat = np.ones(self.shape, bool)
        for a in np.moveaxis(self.ext, -1, 0):
            if self.measure != "zncc":
                flat &= self.touched(a != 0, on) < 0.5
            elif on is None:
                for axis in range(self.dims):
                    if self.tshape[axis] > 1:
                        differs = (np.diff(a, axis=axis) != 0).astype(np.int64)
                        flat &= boxes(differs, [t - (k == axis) for k, t in enumerate(self.tshape)]) == 0
            else:
                flat &= self.even_under(a, on > 0)
        return flat.ravel()

    def touched(self, here, on):
        """How many samples of each panel, of those that a mask looks at, are marked."""
        if on is None:
            return boxes(here.astype(np.int64), self.tshape)
        return correlated(here.astype(float), [on], self.shape)[0]

    def even_under(self, a, on):
        """Panels whose samples under a mask are all equal: as many as the mask has equal the first."""
        at = np.argwhere(on)
        first = a[tuple(slice(k, k + n) for k, n in zip(at[0], self.shape))]
        even = np.ones(self.shape, bool)
        for place in at[1:]:
            even &= a[tuple(slice(k, k + n) for k, n in zip(place, self.shape))] == first
            if not even.any():
                break
        return even


class Partial(Problem):
    """A case of an image of which not all is known: each panel has weights of its own. All is in long double."""

    def __init__(self, case):
        super().__init__(case)
        self.known, known = None, case["known"]
        if self.mistakes:
            return
        sides = self.x.shape[: self.dims]
        outside = 0.0 if known.get("unknown") or case["mode"] == "valid" else 1.0
        if known.get("mask"):
            kind, seed, *p = known["mask"]
            rng = np.random.default_rng(seed)
            full = tuple(case["shape"][: self.dims])
            on = rng.random(full) < p[0] if kind != "block" else np.ones(full, bool)
            if kind == "block":
                part = [sorted(rng.integers(0, n + 1, 2)) for n in full]
                on[tuple(slice(a, b) for a, b in part)] = False
            if kind == "decades":
                self.known = np.where(on, 10.0 ** rng.uniform(-p[1], 0, full), 0.0).astype(np.float64)
            else:
                self.known = on.astype(np.uint8) if kind == "block" or p[1] == "u8" else on * rng.random(full)
            if case.get("crop"):
                self.known = np.ascontiguousarray(self.known[tuple(slice(a, b) for a, b in case["crop"])])
        weights = np.ones(sides) if self.known is None else self.known.astype(float)
        for axis in range(self.dims):
            first = self.origin[axis] - (self.tshape[axis] - 1)
            steps = np.arange(first, first + self.shape[axis] + self.tshape[axis] - 1)
            source = folded(steps, sides[axis], case["boundary"])
            weights = np.take(weights, np.where(source < 0, 0, source), axis=axis)
            if (source < 0).any():
                where = [slice(None)] * self.dims
                where[axis] = source < 0
                weights[tuple(where)] = outside
        self.around = sliding_window_view(weights, self.tshape)
        self.own = np.ones(self.taps.shape[1]) if self.weights is None else self.weights
        if not np.isfinite(self.taps[:, self.own > 0]).all():  # of sums, too
            self.mistakes = {"nonfinite_template"}
            return
        self.template_finite, self.fits = True, False
        self.looked = self.look()

    def weigh(self, flat):
        """The weights of these panels: (outputs, samples), in long double."""
        at = np.unravel_index(flat, self.shape)
        return self.around[at].reshape(len(flat), -1).astype(LD) * self.own.astype(LD)

    def look(self):
        """(where a panel touches what is not finite, where a score is due by definition) of all outputs."""
        spoilt = np.zeros(self.ext.shape[:-1], bool) if self.spoilt is None else self.spoilt
        spoilt = sliding_window_view(spoilt, self.tshape)
        bad, due = np.zeros(self.outputs, bool), np.zeros(self.outputs, bool)
        step = max(1, 500_000 // max(1, self.count))
        total = self.own.astype(LD).sum()
        for first in range(0, self.outputs, step):
            flat = np.arange(first, min(self.outputs, first + step))
            w, p = self.weigh(flat), self.panels(flat)
            on = w > 0
            bad[flat] = (spoilt[np.unravel_index(flat, self.shape)].reshape(on.shape) & on).any(axis=1)
            empty = ~on.any(axis=1)
            if self.measure in NORMALISED:
                share = LD(self.case["known"].get("overlap", 0.0))
                empty |= w.sum(axis=1) < share * total * (1 - LD(1e-9))
                for a in (p, np.broadcast_to(self.taps, p.shape)):
                    if self.measure == "zncc":
                        most = np.where(on[:, None], a, -np.inf).max(axis=2)
                        empty |= (most <= np.where(on[:, None], a, np.inf).min(axis=2)).all(axis=1)
                    else:
                        empty |= ~(on[:, None] & (a != 0)).any(axis=(1, 2))
            due[flat] = empty
        return bad, due

    def spoilt_outputs(self):
        return self.looked[0].reshape(self.shape)

    def flat_outputs(self):
        return self.looked[1]

    def bits_due(self, method):
        return False

    def places(self, got):
        if self.outputs * self.count <= FULL:
            return np.arange(self.outputs)
        rng = np.random.default_rng(self.case["x"]["seed"])
        return np.unique(rng.integers(0, self.outputs, max(4, SAMPLE // max(1, self.count))))

    def evaluate(self, flat, kind):
        w, due = self.weigh(flat)[:, None], self.looked[1][flat]
        on = w > 0
        p, t = (np.where(on, a, 0).astype(LD) for a in (self.panels(flat), self.taps))

        def total(a):
            return (w * a).sum(axis=(1, 2))

        # One power of two for image and template of a measure of differences, one each for the others.
        tops = [np.frexp(np.abs(a).max(initial=0))[1] for a in (p, t)]
        if self.measure in ("ssd", "nssd", "sad"):
            tops = [max(tops)] * 2
        p, t = np.ldexp(p, -tops[0]), np.ldexp(t, -tops[1])
        with np.errstate(all="ignore"):
            if self.measure == "cc":
                value = np.ldexp(total(p * t), tops[0] + tops[1])
            elif self.measure == "sad":
                value = np.ldexp(total(np.abs(p - t)), tops[0])
            elif self.measure == "ssd":
                value = np.ldexp(total((p - t) ** 2), 2 * tops[0])
            elif self.measure == "nssd":
                value = np.minimum(1, total((p - t) ** 2) / np.sqrt(total(p * p) * total(t * t)))
            else:
                if self.measure == "zncc":
                    n = np.where(on.any(axis=2, keepdims=True), w.sum(axis=2, keepdims=True), 1)
                    for _ in range(2):
                        p, t = (a - (w * a).sum(axis=2, keepdims=True) / n for a in (p, t))
                value = np.clip(total(p * t) / np.sqrt(total(p * p) * total(t * t)), -1, 1)
        value = np.where(due, 1.0 if self.measure == "nssd" else 0.0, value).astype(LD)
        zeros = np.zeros(len(flat), LD)
        return value, zeros, zeros, zeros

    def tolerance(self, flat, norms, middles, inners, method):
        if self.measure in NORMALISED:
            return np.full(len(flat), LD(PROMISE[self.out]))
        u, k = LD(U["f64"]), 2 * (16 + math.sqrt(self.count))
        value = np.abs(self.evaluate_by_parts(flat, LD)[0])
        tiny = LD(2.0) ** (-149 if self.out == "f32" else -1074) * self.count
        if self.measure == "sad":
            return (self.count + 8) * u * value + LD(U[self.out]) * value + tiny
        norm = {key: LD(0) for key in ("mp", "mpp", "m")}
        for first in range(0, self.outputs, max(1, 500_000 // max(1, self.count))):
            every = np.arange(first, min(self.outputs, first + max(1, 500_000 // max(1, self.count))))
            at = np.unravel_index(every, self.shape)
            m = self.around[at].reshape(len(every), 1, -1).astype(LD)
            p = np.where(m > 0, self.panels(every), 0).astype(LD)
            for key, a in (("mp", m * p), ("mpp", m * p * p), ("m", m)):
                norm[key] = max(norm[key], np.sqrt((a * a).sum(axis=(1, 2)).max()))
        w, t = self.own.astype(LD), self.taps.astype(LD)
        w, t = w[None], np.where(w > 0, t, 0)
        size = [np.sqrt((a * a).sum()) for a in (w, w * t, w * t * t)]
        terms = norm["mp"] * size[1]
        if self.measure == "ssd":
            terms = norm["mpp"] * size[0] * math.sqrt(len(self.taps)) + 2 * terms + norm["m"] * size[2]
        return k * u * terms + LD(U[self.out]) * value + tiny


# ------------------------------------------------------------------ running ----------------------


def tiff(path, a):
    """A colour TIFF, a page for each plane: a.shape is ([pages,] rows, columns, 3)."""
    pages = a if a.ndim == 4 else a[None]
    data = np.ascontiguousarray(pages.astype(pages.dtype.newbyteorder("<")))
    bits, form = data.dtype.itemsize * 8, 3 if data.dtype.kind == "f" else 1
    with open(path, "wb") as f:
        f.write(struct.pack("<2sHI", b"II", 42, 8))
        at = 8
        for k, page in enumerate(data):
            raw = page.tobytes()
            extra = at + 2 + 10 * 12 + 4
            strip = extra + 16
            tags = [
                (256, 4, 1, page.shape[1]), (257, 4, 1, page.shape[0]), (258, 3, 3, extra), (259, 3, 1, 1),
                (262, 3, 1, 2), (273, 4, 1, strip), (277, 3, 1, 3), (278, 4, 1, page.shape[0]),
                (279, 4, 1, len(raw)), (339, 3, 3, extra + 8),
            ]
            after = strip + len(raw) + (len(raw) & 1)
            f.write(struct.pack("<H", len(tags)))
            for tag, kind, n, value in tags:
                f.write(
                    struct.pack("<HHI", tag, kind, n)
                    + (struct.pack("<HH", value, 0) if (kind, n) == (3, 1) else struct.pack("<I", value))
                )
            f.write(struct.pack("<I", after if k + 1 < len(data) else 0))
            f.write(struct.pack("<4H4H", bits, bits, bits, 0, form, form, form, 0) + raw + b"\0" * (len(raw) & 1))
            at = after


def save(folder, name, a, channels):
    if channels > 1:
        tiff(os.path.join(folder, name + ".tif"), a)
        return name + ".tif"
    np.save(os.path.join(folder, name + ".npy"), a, allow_pickle=False)
    return name + ".npy"


def region_text(roi):
    return ",".join(map(str, roi[0])) + ":" + "x".join(map(str, roi[1]))


class Result:
    """What came of a case: an array, or a status with words."""

    def __init__(self, status, said="", got=None, kernel=None, kernels=(), later=()):
        self.status, self.said, self.got, self.kernel, self.kernels = status, said, got, kernel, list(kernels)
        self.later = later  # of several images and templates the others: problems, with results where there are any
        self.told = None  # what bench tells of each spec

    def method(self):
        name = self.kernel or ""
        return "fourier" if "fourier" in name or "cufft" in name else "separable" if "separable" in name else "direct"

    def crashed(self):
        return self.status < 0 or self.status >= 100 or "panicked" in self.said


class Runner:
    """Runs cases: many to a process where the program takes them so, else one by one."""

    def __init__(self, flcc, timeout=300.0):
        self.flcc, self.timeout, self.incidents = flcc, timeout, []
        said = subprocess.run([flcc, "conformance", "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.batches = b"--results" in said.stdout

    def environment(self, case):
        env = {k: v for k, v in os.environ.items() if k not in ("FLCC_WISDOM", "FLCC_ISA")}
        if case.get("isa"):
            env["FLCC_ISA"] = case["isa"]
        return env

    @staticmethod
    def files(case, problem, folder, name):
        channels = case.get("channels", 1)
        return {
            "image": save(folder, name + "x", problem.x, channels),
            "template": save(folder, name + "t", problem.t, channels),
            "mask": None if problem.w is None else save(folder, name + "m", problem.w, 1),
            **Runner.partial(problem, folder, name),
        }

    @staticmethod
    def partial(problem, folder, name):
        known = getattr(problem, "known", None)
        return {} if known is None else {"known": save(folder, name + "k", known, 1)}

    def command(self, case, files, folder, out, later=()):
        """The words of the command that computes a case, files beside it."""
        op, at = case["op"], {key: os.path.join(folder, name) for key, name in files.items() if name}
        words = [self.flcc] + (["match", "--measure", op] if op not in ("conv", "corr") else [op])
        words += [at["image"], at["template"], "--mode", case["mode"], "--boundary", case["boundary"]]
        if case["boundary"] == "constant":
            words += ["--cval", repr(float(case.get("cval", 0.0)))]
        if case.get("known", {}).get("unknown"):
            words = words[: words.index("--boundary")] + ["--boundary", "unknown"]
        if files["mask"]:
            words += ["--mask", at["mask"]]
        if files.get("known"):
            words += ["--image-mask", at["known"]]
        if case.get("known", {}).get("overlap"):
            words += ["--min-overlap", repr(case["known"]["overlap"])]
        for key, option in (
            ("method", "--method"), ("accuracy", "--accuracy"), ("precision", "--precision"),
            ("platform", "--platform"), ("memory", "--memory-limit"), ("threads", "--threads"), ("kernel", "--kernel"),
        ):
            if case.get(key) is not None and case.get(key) != "auto":
                words += [option, str(case[key])]
        if case.get("roi"):
            # A command speaks of the template's first sample in the image, a case of the full result.
            first = [a - (k - 1) for a, k in zip(case["roi"][0], arrays(case)[1].shape)]
            words += ["--roi", region_text([first, case["roi"][1]])]
        for k, other in enumerate(later):
            words += ["--template", os.path.join(folder, save(folder, f"t{k + 1}", other.t, case.get("channels", 1)))]
        return words + ["-o", out, "--json"]

    def one(self, case, problem):
        """A single command."""
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            if case.get("bench"):
                return self.bench(case)
            if case.get("frames"):
                return self.stream(case, problem, folder)
            files = self.files(case, problem, folder, "")
            out = os.path.join(folder, "out.npy")
            later = [Problem(dict(case, which=k)) for k in range(1, case.get("templates", 1))]
            words = self.command(case, files, folder, out, later)
            done, said = self.said(case, words)
            if done is None:
                return Result(124, said)
            outs = [os.path.join(folder, f"out-{k + 1}.npy") for k in range(len(later) + 1)] if later else [out]
            if done.returncode or "panicked" in said or not all(map(os.path.exists, outs)):
                return Result(done.returncode if done.returncode else 101, said, later=later)
            told = json.loads(done.stdout.decode().splitlines()[-1])
            got = [np.load(name) for name in outs]
            return Result(0, said, got[0], told["kernel"], later=list(zip(later, got[1:])) if later else ())

    def said(self, case, words):
        """The finished process of a command, None if it takes too long, and its words on standard error."""
        try:
            done = subprocess.run(
                words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=self.timeout,
                env=self.environment(case),
            )
        except subprocess.TimeoutExpired:
            return None, f"no result in {self.timeout:g} s"
        return done, done.stderr.decode(errors="replace").strip()

    @staticmethod
    def options(case):
        """How a case of a stream or of bench is computed, in words."""
        words = []
        for key, option in (
            ("method", "--method"), ("kernel", "--kernel"), ("platform", "--platform"), ("threads", "--threads"),
        ):
            if case.get(key) is not None and case.get(key) != "auto":
                words += [option, str(case[key])]
        return words

    @staticmethod
    def several(case):
        """The cases of the results of a stream: of each frame those of all templates."""
        one = {key: value for key, value in case.items() if key not in ("frames", "templates")}
        pairs = [(f, t) for f in range(case["frames"]) for t in range(case.get("templates", 1))]
        return [dict(one, frame=f, which=t) for f, t in pairs]

    def stream_command(self, case, problems, folder):
        """The words of the stream that computes several images: every position is a peak, so all scores are told."""
        count, channels = case.get("templates", 1), case.get("channels", 1)

        def path(name, a, channels=channels):
            return os.path.join(folder, save(folder, name, a, channels))

        words = [self.flcc, "stream", path("t", problems[0].t)]
        words += [path(f"x{k}", each.x) for k, each in enumerate(problems[::count])]
        for k, other in enumerate(problems[1:count]):
            words += ["--template", path(f"t{k + 1}", other.t)]
        words += ["--measure", problems[0].measure, "--mode", case["mode"], "--boundary", case["boundary"]]
        if case["boundary"] == "constant":
            words += ["--cval", repr(float(case.get("cval", 0.0)))]
        if problems[0].w is not None:
            words += ["--mask", path("m", problems[0].w, 1)]
        for key, option in (("accuracy", "--accuracy"), ("precision", "--precision")):
            if case.get(key) is not None:
                words += [option, str(case[key])]
        return words + self.options(case) + ["--min-distance", "0", "--top", str(problems[0].outputs), "--json"]

    def stream(self, case, problem, folder):
        """Several images, with each template: the scores of a stream as arrays. No peak is where a score is NaN."""
        problems = [problem] + [Problem(each) for each in self.several(case)[1:]]
        done, said = self.said(case, self.stream_command(case, problems, folder))
        if done is None:
            return Result(124, said)
        if done.returncode or "panicked" in said:
            return Result(done.returncode or 101, said, later=problems[1:])
        lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
        frames = [os.path.basename(line["frame"]).split(".")[0] for line in lines]
        due = [f"x{each['frame']}" for each in self.several(case)]
        if frames != due:
            return Result(101, f"lines of the frames {frames}, expected {due}")
        results = []
        for each, line in zip(problems, lines):
            got = np.full(each.shape, np.nan, DTYPES[each.out])
            scores = np.array([peak["score"] for peak in line["peaks"]], dtype=DTYPES[each.out])
            if len(scores):
                got[tuple(np.array([peak["index"] for peak in line["peaks"]]).T)] = scores
            results.append(got)
            steps = np.diff(scores) * (1 if each.measure in ("ssd", "nssd", "sad") else -1)
            if len(scores) != np.isfinite(got).sum() or (steps < 0).any():
                return Result(101, f"{line['frame']}: peaks twice, or not the best first")
        later = list(zip(problems[1:], results[1:]))
        return Result(0, said, results[0], case.get("kernel"), later=later)

    def bench_command(self, case):
        words = [self.flcc, "bench"] + case["bench"]["texts"] + ["--seconds", "0", "--effort", "estimate", "--json"]
        return words + self.options(case)

    def bench(self, case):
        done, said = self.said(case, self.bench_command(case))
        if done is None:
            return Result(124, said)
        lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
        result = Result(done.returncode, said, kernel=lines[0]["kernel"] if lines else None)
        result.told = lines
        return result

    @staticmethod
    def entry(case, files, name):
        op = {"conv": "conv", "corr": "corr"}.get(case["op"], "match")
        entry = {
            "id": name, "op": op, "measure": case["op"] if op == "match" else None, "dims": len(case["shape"]),
            "mode": case["mode"], "boundary": case["boundary"], "cval": float(case.get("cval", 0.0)), **files,
        }
        for key, field in (
            ("method", "method"), ("accuracy", "accuracy"), ("precision", "precision"), ("memory", "memory_limit"),
            ("threads", "threads"), ("kernel", "kernel"),
        ):
            if case.get(key) is not None:
                entry[field] = case[key]
        if case.get("roi"):
            entry["roi"] = region_text(case["roi"])
        return entry

    def begin(self, cases):
        """Starts a process that computes (case, problem) pairs of one environment."""
        folder = tempfile.mkdtemp(dir=MEMORY)
        index = [
            self.entry(case, self.files(case, problem, folder, f"{k}"), str(k))
            for k, (case, problem) in enumerate(cases)
            if not any(case.get(key) for key in ("templates", "known", "frames", "bench"))
        ]
        with open(os.path.join(folder, "index.json"), "w") as f:
            json.dump({"cases": index}, f)
        os.mkdir(os.path.join(folder, "out"))
        platform = ["--platform", cases[0][0]["platform"]] if cases[0][0].get("platform") else []
        words = [self.flcc, "conformance", folder, "--results", os.path.join(folder, "out"), "--json"] + platform
        with open(os.path.join(folder, "stdout"), "wb") as told, open(os.path.join(folder, "stderr"), "wb") as said:
            return folder, subprocess.Popen(words, stdout=told, stderr=said, env=self.environment(cases[0][0]))

    def end(self, cases, begun):
        folder, process = begun
        try:
            try:
                process.wait(self.timeout + len(cases))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            with open(os.path.join(folder, "stderr"), errors="replace") as f:
                said = f.read()
            with open(os.path.join(folder, "stdout"), errors="replace") as f:
                told = f.read()
            if process.returncode not in (0, 1) or "panicked" in said or not told.startswith("{"):
                crash = Result(process.returncode if process.returncode not in (0, 1) else 101, said)
                if len(cases) == 1:
                    return [crash]
                half = len(cases) // 2  # a case took the process with it: the halves tell which
                results = self.many(cases[:half]) + self.many(cases[half:])
                if not any(result.crashed() for result in results):
                    kept = tempfile.mkdtemp(prefix="flcc-fuzz-process-")
                    shutil.copytree(folder, kept, dirs_exist_ok=True)
                    self.incidents.append(f"status {crash.status} of a process, but of none of its halves: {kept}")
                return results
            results = {}
            for row in json.loads(told)["results"]:
                path = os.path.join(folder, "out", row["id"] + ".npy")
                got = np.load(path) if row["status"] == 0 else None
                said = row["message"] or ""
                results[int(row["id"])] = Result(row["status"], said, got, row["kernel"], row["kernels"])
            return [results[k] if k in results else self.one(*pair) for k, pair in enumerate(cases)]
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def many(self, cases):
        return self.end(cases, self.begin(cases))

    def all(self, cases):
        """Results of (case, problem) pairs of one environment."""
        if not cases:
            return []
        return self.many(cases) if self.batches else [self.one(case, problem) for case, problem in cases]


# ------------------------------------------------------------------ judging ----------------------


def judged(case, problem, result):
    """(ratio, what was found), ratio above 1 for a violation; None for the ratio where nothing was to be compared."""
    if result.crashed():
        return math.inf, {"what": f"status {result.status}: {result.said[-300:]}"}
    if case.get("bench"):
        return judged_bench(case, problem, result)
    later = [other.mistakes for other in result.later] if result.status else []
    if problem.mistakes or case.get("wrong") == "roi" or any(later):
        if result.said and (
            result.status == 2
            or (result.status == 3 and allowed_refusal(case, problem))
            or (result.status == 1 and case.get("memory") and "--memory-limit" in result.said)
        ):
            return None, {"what": "the error that was due, or a refusal"}
        due = ", ".join(sorted(problem.mistakes)) or "a region outside"
        return math.inf, {"what": f"status {result.status} instead of the error {due}: {result.said[-200:]}"}
    if result.status == 0:
        verdicts = [problem.judge(result.got, result.method())]
        verdicts += [other.judge(got, result.method()) for other, got in result.later]
        return max(verdicts, key=lambda verdict: verdict[0])
    words = {"what": f"status {result.status}: {result.said[-200:]}"}
    if result.status == 1 and case.get("memory") and "--memory-limit" in result.said:
        return None, words
    if result.status == 3 and allowed_refusal(case, problem):
        return None, words
    return math.inf, words


def judged_bench(case, problem, result):
    """The same of what bench tells: the text of its spec, how many results it has, and how large their error is."""
    due = case["bench"]
    if due.get("error"):
        if result.status == 2 and due["error"] in result.said:
            return None, {"what": "the error that was due"}
        return math.inf, {"what": f"status {result.status} instead of an error of {due['error']}: {result.said[-200:]}"}
    words = {"what": f"status {result.status}: {result.said[-200:]}"}
    if result.status == 3 and allowed_refusal(case, problem):
        return None, words
    if result.status == 2 and due["few"] and re.search("constant|not 0", result.said):
        return None, words  # small integers of a low rank may be all the same
    if result.status:
        return math.inf, words
    texts = [line["spec"] for line in result.told]
    if texts != due["canonical"]:
        return math.inf, {"what": f"the specs {texts}, expected {due['canonical']}"}
    checked = [line["checked"] for line in result.told]
    # Of more than 1e9 products bench checks some, and tells how many.
    some = due.get("products", 0) > 9e8
    if any(count != due["checked"] and not (some and count > 4000) for count in checked):
        return math.inf, {"what": f"{checked} values were checked, expected {due['checked']}"}
    errors, kernels = ([line[key] for line in result.told] for key in ("max_error", "kernel"))
    if len(texts) > 1 and kernels[0] == kernels[1] and errors[0] != errors[1]:
        return math.inf, {"what": f"a known rank changes the result of {kernels[0]}: errors {errors}"}
    tolerance = due["tolerance"]
    if not due["exact"] or result.method() == "separable":
        tolerance = due["rounded"]
    return max(errors) / tolerance, {"what": "", "got": max(errors), "expected": 0.0, "tolerance": tolerance}


def allowed_refusal(case, problem):
    """Whether a method may refuse a problem: for what it is not made for, and exact integers that it cannot hold."""
    method = case.get("method") or "auto"
    exact = case.get("accuracy") == "exact" and joined(case) in ("u8", "u16")
    if exact and not getattr(problem, "fits", False):  # a call that is an error was not looked at so closely
        return True
    if case.get("crop") and case.get("kernel"):  # made smaller, it may be too small for the tile in that name
        return True
    if case.get("platform") == "cuda":
        return method != "direct"
    if method == "separable":
        squares = case.get("mask") and case["op"] in ("ncc", "zncc", "ssd", "nssd")
        return bool(case["op"] == "sad" or len(case["shape"]) == 1 or squares or exact)
    return method == "fourier" and (case["op"] == "sad" or exact)


# ------------------------------------------------------------------ cases ------------------------


def amplitude(rng):
    """A number that is no power of two, as a rule."""
    r = rng.random()
    if r < 0.4:
        return round(float(rng.uniform(0.3, 4.0)), int(rng.integers(1, 15)))
    if r < 0.6:
        return float(np.float32(rng.uniform(1, 2)) * 2.0 ** int(rng.integers(-6, 7)))
    if r < 0.8:
        return float(rng.integers(1, 256)) * 2.0 ** int(rng.integers(-8, 1))
    return float(rng.choice((0.1, 1 / 3, 0.7, 1.1, 1.9737, 3.14159, 255.0, 254.5, 1e3, 1e-3, 77777.0)))


SIDES = {
    1: ((1, 40), (30, 400), (300, 4000), (3000, 30000), (20000, 120000)),
    2: ((1, 12), (8, 48), (30, 160), (100, 520), (500, 1500)),
    3: ((1, 6), (4, 16), (10, 36), (24, 64), (60, 100)),
}
TAPS = (
    1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 20, 23, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129,
    200, 255, 257,
)


def sizes(rng, dims, least=1):
    """Shapes of image and template."""
    level = int(rng.choice(5, p=(0.3, 0.44, 0.215, 0.037, 0.008)))
    low, high = SIDES[dims][level]
    shape = [int(rng.integers(low, high + 1)) for _ in range(dims)]
    if rng.random() < 0.1:
        shape = [shape[0]] * dims
    if rng.random() < 0.05:
        shape[int(rng.integers(dims))] = int(rng.integers(1, 4))
    r = rng.random()
    if r < 0.45:
        most = {1: 64, 2: 24, 3: 9}[dims]
        template = [int(rng.integers(1, most + 1)) for _ in range(dims)]
    elif r < 0.65:
        template = [int(rng.choice(TAPS[: {1: 32, 2: 26, 3: 16}[dims]])) for _ in range(dims)]
    elif r < 0.75:
        template = [int(rng.choice(TAPS[: {1: 32, 2: 26, 3: 12}[dims]]))] * dims
    elif r < 0.83:
        template = [1] * dims
        template[int(rng.integers(dims))] = int(rng.integers(1, min(700, 2 * max(shape)) + 1))
    elif r < 0.88:
        template = list(shape)
    elif r < 0.95:
        template = [max(1, int(s * rng.uniform(0.1, 1.0))) for s in shape]
    else:
        template = [int(rng.integers(1, 2 * min(s, 200) + 4)) for s in shape]
    return shape, [max(least, k) for k in template]


def work_of(case):
    x, t = case["shape"], case["template"]
    outs = x if case["mode"] == "same" else [a + b - 1 for a, b in zip(x, t)]
    if case["mode"] == "valid":
        outs = [max(0, a - b + 1) for a, b in zip(x, t)]
    return math.prod(outs) * math.prod(t) * case.get("channels", 1), math.prod(outs)


def base_layers(rng, kind):
    """An ordinary start of a content, for a type of pixels."""
    top = {"u8": 255.0, "u16": 65535.0}.get(kind)
    if top:
        return [
            [["ints", top]], [["uniform", top]], [["bits", float(rng.integers(1, int(top) + 1)), 0.1]],
            [["wave", top / 8, 3], ["plus", top / 2]], [["normal", top / 3], ["plus", top / 2]],
            [["const", float(rng.integers(0, int(top) + 1))]], [["ramp", float(rng.choice((0.1, 1.0, 3.0)))]],
        ][int(rng.integers(7))]
    a = amplitude(rng)
    return [
        [["normal", a]], [["uniform", a]], [["ints", 255.0]], [["wave", a, 4]], [["bits", a, 0.1]],
        [["normal", a], ["plus", amplitude(rng)]], [["const", a]], [["ramp", a]], [["two", a]],
        [["step", a, int(rng.integers(3))], ["noise", a * 10.0 ** -int(rng.integers(0, 7))]],
    ][int(rng.integers(10))]


def template_layers(rng, kind):
    top = {"u8": 255.0, "u16": 65535.0}.get(kind, 1.0)
    a = top if top > 1 else amplitude(rng)
    axis = int(rng.integers(3))
    period = int(rng.choice((1, 2, 4, 8, 16, 64)))
    options = [
        [["normal", a / 4], ["plus", top / 2]], [["uniform", a]], [["crop", 0.0]], [["crop", a * 1e-3]],
        [["gauss", a]], [["rank", a, 1]], [["rank", a / 4, 2], ["plus", top / 2]], [["delta", a]],
        [["checker", a, period]], [["stripes", a, period, axis]], [["bits", a, 0.2]], [["const", a]],
        [["const", a], ["lone", 1, a / 2]], [["wave", a / 4, 3], ["plus", top / 2]], [["ramp", a / 64]],
        [["perm"], ["times", a]], [["two", a]], [["equal", a / 4, axis], ["plus", top / 2]],
        [["normal", a / 4], ["alternate", axis]],
    ]
    return options[int(rng.integers(len(options)))]


def profile_two_level(rng, case):
    a = amplitude(rng)
    background = float(rng.choice((0.0, 0.0, 0.0, amplitude(rng))))
    case["t"]["layers"] = [["perm", int(rng.integers(2))]] + ([["times", amplitude(rng)]] if rng.random() < 0.3 else [])
    case["x"]["layers"] = [
        ["const", background], ["copies", int(rng.choice((1, 1, 2, 4))), a, 0.0 if background == 0 else 1.0],
    ]
    if rng.random() < 0.5 and len(case["shape"]) == 2:
        side = int(rng.choice((8, 12, 16, 24, 31, 32, 33, 40)))
        case["template"] = [side, side if rng.random() < 0.7 else int(rng.integers(4, 64))]
        case["shape"] = [int(k + (rng.integers(0, 70) if rng.random() < 0.6 else 0)) for k in case["template"]]
    if rng.random() < 0.4:
        case["op"], case["method"], case["accuracy"] = "zncc", "direct", "promised"
    case["types"] = [str(rng.choice(("f32", "f32", "f32", "f64")))] * 2


def profile_constants(rng, case):
    a, b = amplitude(rng), amplitude(rng)
    if rng.random() < 0.5:
        case["op"] = str(rng.choice(("corr", "conv", "ncc", "nssd", "ssd", "sad")))
    case["t"]["layers"] = [["const", b]]
    case["x"]["layers"] = [["const", a]]
    r = rng.random()
    if r < 0.3:
        case["x"]["layers"] += [["patches", int(rng.integers(1, 6)), amplitude(rng)]]
    elif r < 0.45:
        case["x"]["layers"] += [["lone", 1, amplitude(rng)]]
    if rng.random() < 0.3:
        case["t"]["layers"] += [["noise", b * 10.0 ** -int(rng.integers(1, 8))]]
    if rng.random() < 0.3 and len(case["shape"]) == 2:
        case["template"] = [int(rng.choice(TAPS[:28])), int(rng.choice(TAPS[:28]))]
        case["shape"] = [int(k + rng.integers(0, 20)) for k in case["template"]]
    if rng.random() < 0.1:  # few panels, of many samples
        side = {1: 100_000, 2: 1100, 3: 100}[len(case["shape"])]
        case["template"] = [int(rng.integers(side // 5, side)) for _ in case["template"]]
        case["shape"] = [int(k + rng.integers(0, 3)) for k in case["template"]]
        case["mode"] = "valid"


def profile_patches(rng, case):
    case["x"]["layers"] = base_layers(rng, case["types"][0]) + [["patches", int(rng.integers(1, 8)), amplitude(rng)]]
    if rng.random() < 0.5:
        case["x"]["layers"][-1] = ["patches", int(rng.integers(1, 8))]


def profile_saturated(rng, case):
    top = {"u8": 255.0, "u16": 65535.0}.get(case["types"][0], amplitude(rng))
    case["x"]["layers"] = [["normal", top], ["plus", top / 2], ["clip", 0.0, top]]
    if rng.random() < 0.3:
        case["t"]["layers"] = [["normal", top], ["plus", top / 2], ["clip", 0.0, top]]


def profile_pattern(rng, case):
    a, axis = amplitude(rng) if case["types"][0][0] == "f" else 200.0, int(rng.integers(3))
    period = int(rng.choice((1, 2, 3, 8, 16, 32, 64, 128, 256, max(case["template"]), 2 * max(case["template"]))))
    kinds = [
        ["checker", a, period], ["stripes", a, period, axis], ["wave", a, 1], ["wave", a, 3], ["step", a, axis],
        ["ramp", a], ["equal", a, axis], ["squares", a / 500, axis], ["gauss", a], ["bits", a, 0.02],
        ["cosine", a, float(max(2, period)), axis],
    ]
    case["x"]["layers"] = [kinds[int(rng.integers(len(kinds)))]]
    r = rng.random()
    if r < 0.3:
        case["x"]["layers"] += [["noise", a * 10.0 ** -int(rng.integers(1, 8))]]
    elif r < 0.5:
        case["x"]["layers"] += [["alternate", axis]]
    elif r < 0.6:
        case["x"]["layers"] += [["times", amplitude(rng)], ["plus", amplitude(rng)]]
    if rng.random() < 0.4:
        case["t"]["layers"] = [["crop", 0.0]] if rng.random() < 0.6 else [kinds[int(rng.integers(len(kinds)))]]


def profile_bright(rng, case):
    a = amplitude(rng)
    first = [["const", a], ["normal", a], ["uniform", a], ["normal", 0.01 * a]][int(rng.integers(4))]
    bright = a * float(10.0 ** rng.uniform(2, 7))
    over = [
        ["lone", int(rng.integers(1, 4)), bright], ["line", bright, int(rng.integers(3))], ["specks", 0.002, bright],
        ["seam", 3, bright], ["lone", 1, -bright],
    ][int(rng.integers(5))]
    case["x"]["layers"] = [first, over]


def profile_beside(rng, case):
    """Sums under a mask, and a huge sample that it hardly looks at."""
    kind = str(rng.choice(("f32", "f64")))
    case["types"], case["op"] = [kind, kind], str(rng.choice(("ssd", "cc", "corr")))
    a, seed = amplitude(rng), int(rng.integers(1 << 30))
    case["x"]["layers"] = [["uniform", a], ["corner", a * float(10.0 ** rng.uniform(2, 12))]]
    case["mask"] = [["disc", seed], ["bits", seed, 0.5], ["decades", seed, 12.0]][int(rng.integers(3))]
    case.pop("channels", None)


def profile_lines(rng, case):
    """Squares under long windows, equal but for one: their roundings agree."""
    case["types"], case["op"], case["mode"] = ["f64", "f64"], str(rng.choice(("ssd", "corr"))), "valid"
    length, more = int(10.0 ** rng.uniform(1.5, 3.8)), int(rng.integers(0, 40))
    case["shape"], case["template"] = [
        ([length + more], [length]), ([length + more, 1], [length, 1]), ([2, length + more], [1, length]),
    ][int(rng.integers(3))]
    a = 1.0 + float(rng.random())
    case["x"]["layers"] = [["const", a], ["lone", 1, a * float(rng.choice((64.0, 1024.0, 4096.0)))]]
    case["t"]["layers"] = [[["delta", 1.0]], [["const", a]], [["normal", a]]][int(rng.integers(3))]
    case.pop("mask", None)
    case.pop("channels", None)


def profile_specks(rng, case):
    case["x"]["layers"] = [
        ["const", float(rng.choice((0.0, 0.0, amplitude(rng))))],
        ["specks", float(rng.choice((0.001, 0.01, 0.1))), amplitude(rng)],
    ]
    if rng.random() < 0.4:
        case["t"]["layers"] = [["const", 0.0], ["specks", 0.05, amplitude(rng)], ["lone", 1, amplitude(rng)]]
    if rng.random() < 0.3:
        case["x"]["layers"] += [["-0", 0.5]]


def profile_zeros(rng, case):
    """Results that are zeros of either sign: of such samples, and of products that are too small."""
    kind = str(rng.choice(("f32", "f32", "f64")))
    case["types"] = [kind, kind]
    case["op"] = str(rng.choice(("corr", "corr", "conv", "cc", "ncc", "zncc", "nssd")))
    case["method"] = str(rng.choice(("auto", "direct")))
    if rng.random() < 0.5:
        specks = ["specks", float(rng.choice((0.001, 0.02))), amplitude(rng)]
        case["x"]["layers"] = [["const", 0.0], specks, ["-0", float(rng.choice((0.5, 1.0)))]]
        case["t"]["layers"] = template_layers(rng, kind) + [["times", float(rng.choice((1.0, -1.0)))]]
        return
    least = -45.0 if kind == "f32" else -323.0
    for part in ("x", "t"):
        case[part]["layers"] = [["normal", 1.0], ["times", float(10.0 ** (least / 2 + rng.uniform(-3.0, 1.0)))]]


def profile_copies(rng, case):
    change = float(10.0 ** rng.uniform(-16, -1))
    case["x"]["layers"] = base_layers(rng, case["types"][0]) + [
        ["near", int(rng.integers(1, 4)), change, float(rng.choice((0.01, 0.2, 1.0)))]
    ]


def profile_blocks(rng, case):
    """Texture of two levels whose errors follow it where a transform adds it to what is the same everywhere."""
    dims = len(case["shape"])
    side = lambda least, most: int(rng.integers(least, most))
    if dims < 3:
        least, most = ((6, 40), (40, 1500))[dims == 1]
        case["template"] = [side(least, most) for _ in range(dims)]
        case["shape"] = [
            max(t, int(rng.choice((64, 128, 100, 130, 2 * t + 3))) * (1 if dims == 2 else 32)) for t in case["template"]
        ]
    case["op"], case["types"] = str(rng.choice(("zncc", "zncc", "ncc"))), [str(rng.choice(("f32", "f32", "f64")))] * 2
    level = float(rng.uniform(0.5, 1.5))
    case["t"]["layers"] = [["perm", int(rng.integers(2))], ["times", level]]
    if rng.random() < 0.3:
        case["t"]["layers"] += [["plus", level]]
    strong = level * float(10.0 ** rng.uniform(0.5, 3.5))
    case["x"]["layers"] = [["const", 0.0], ["blocks", strong, int(rng.integers(dims)), float(rng.uniform(0.5, 2.0))]]


def profile_squares(rng, case):
    """Differences beside squares that are more than the result holds."""
    kind = str(rng.choice(("f32", "f32", "f64")))
    case["types"], case["op"] = [kind, kind], "ssd"
    most = math.log10(LARGEST[kind])
    a = float(10.0 ** (most - rng.choice((0.3, 0.5, 1.0, 3.0, rng.uniform(0, most / 2), most / 2, most / 2 - 1))))
    case["x"]["layers"] = [[["uniform", a], ["normal", 0.15 * a], ["const", a]][int(rng.integers(3))]]
    if rng.random() < 0.5:
        lower = a * float(10.0 ** rng.uniform(-9, 0))
        case["x"]["layers"] += [["specks", float(rng.choice((0.002, 0.1, 0.5))), lower]]
    case["t"]["layers"] = [["crop", 0.0]] if rng.random() < 0.8 else [["uniform", a]]


def profile_offset(rng, case):
    mean = float(rng.choice((6e4, 1e6, 3e4, 1e3, 1e8, 1e12, 12345.678)))
    spread = float(rng.choice((1.0, 0.1, 30.0, 1e-3)))
    case["x"]["layers"] = [["normal", spread], ["plus", mean]]
    if rng.random() < 0.3:
        case["op"] = "ssd"
    r = rng.random()
    case["t"]["layers"] = (
        [["crop", 0.0]] if r < 0.3 else [["normal", spread], ["plus", mean]] if r < 0.6 else [["normal", spread]]
    )
    if rng.random() < 0.2:
        case["x"]["layers"] = [["const", mean], ["ulps", 2.0**-23 if case["types"][0] == "f32" else 2.0**-52]]


def profile_range(rng, case):
    """At the ends of the range of numbers, or over all of it."""
    kind = str(rng.choice(("f32", "f64")))
    case["types"] = [kind, kind if rng.random() < 0.8 else str(rng.choice(ORDER))]
    low, high = (-45.0, 38.5) if kind == "f32" else (-323.0, 308.2)
    ends = [low, high, low + 7, high - 1, low / 2, high / 2, 0.51 * low, 0.49 * high, 0.0]
    r = rng.random()
    if r < 0.35:
        case["x"]["layers"] = base_layers(rng, kind) + [["times", float(10.0 ** rng.choice(ends))]]
    elif r < 0.5:
        a, b = sorted(rng.choice(ends, 2))
        case["x"]["layers"] = [["exps", float(a), float(b)]]
    elif r < 0.8:  # small noise beside an ordinary sample
        e = float(rng.uniform(low, low / 3)) if rng.random() < 0.6 else float(rng.uniform(low / 2 - 4, low / 2 + 4))
        case["x"]["layers"] = [
            ["normal", float(10.0**e)], [str(rng.choice(("lone", "seam"))), int(rng.integers(1, 3)), amplitude(rng)],
        ]
        if rng.random() < 0.4:
            case["boundary"], case["cval"] = "constant", float(rng.choice((1.0, 1e6, 1e3, -7.0)))
            case["x"]["layers"] = case["x"]["layers"][:1]
    else:
        case["x"]["layers"] = base_layers(rng, kind) + [
            ["faint", float(10.0 ** rng.uniform(low, -3)), int(rng.integers(3))]
        ]
    if rng.random() < 0.15:
        case["x"]["layers"] = [
            ["two", LARGEST[kind] * float(rng.choice((1.0, 0.97, 0.5)))], ["specks", 0.3, 0.0], ["lone", 1, 1.0],
        ]
    if rng.random() < 0.4 and case["types"][1] in ("f32", "f64"):
        low, high = (-45.0, 38.5) if case["types"][1] == "f32" else (-323.0, 308.2)
        ends = [low, high, low + 7, high - 1, low / 2, high / 2, 0.0]
        with np.errstate(over="ignore"):
            case["t"]["layers"] = template_layers(rng, "f64") + [["times", float(10.0 ** rng.choice(ends))]]
    if rng.random() < 0.2:
        case["t"]["layers"] = [["crop", 0.0]]


def profile_nonfinite(rng, case):
    case["types"][0] = str(rng.choice(("f32", "f64")))
    case["x"]["layers"] = base_layers(rng, "f32") + [[str(rng.choice(("nan", "inf", "-inf"))), int(rng.integers(1, 5))]]
    if rng.random() < 0.2:
        case["x"]["layers"] += [["inf", 1]]
    if rng.random() < 0.1 and case["types"][1] in ("f32", "f64"):
        case["t"]["layers"] += [["nan", 1]]
        case.pop("mask", None)


def profile_faint(rng, case):
    case["x"]["layers"] = base_layers(rng, case["types"][0]) + [
        ["faint", float(10.0 ** rng.uniform(-12, 6)), int(rng.integers(3))]
    ]


def profile_repeated(rng, case):
    """Equal lines or planes, also of alternate sign, in image and template."""
    axis = int(rng.integers(3))
    for part, kind in (("x", case["types"][0]), ("t", case["types"][1])):
        case[part]["layers"] = base_layers(rng, kind) + [["repeat", axis]]
    if rng.random() < 0.4:
        case["x"]["layers"] += [["alternate", axis]]
        case["t"]["layers"] += [["alternate", axis]]


def profile_edge(rng, case):
    """What lies outside is unlike the image."""
    case["mode"] = str(rng.choice(("full", "same")))
    case["boundary"], case["cval"] = "constant", float(
        rng.choice((1e6, 1e3, -1e4, 0.1, 255.0, 1.0, 65535.0, 300.0, 0.5, -3.0, amplitude(rng)))
    )
    case["x"]["layers"] = base_layers(rng, case["types"][0])
    if case["types"][0] in ("f32", "f64") and rng.random() < 0.4:
        case["x"]["layers"] += [["times", float(10.0 ** rng.uniform(-9, 2))]]


def profile_rounded(rng, case):
    """A panel far from the offset of its tile, whose rounded differences are a pattern, and a template like it."""
    ground = float(np.float32(rng.uniform(1.0, 1.4)))
    if rng.random() < 0.6 and len(case["shape"]) == 2:
        side = int(rng.choice((12, 20, 32, 40, 64, 80, 100)))
        case["template"] = [side, int(side * rng.choice((1.0, 1.0, 0.4)))]
        case["shape"] = [int(k * rng.uniform(1.2, 3.0)) for k in case["template"]]
    if rng.random() < 0.8:
        case["op"], case["accuracy"] = "zncc", "promised"
    case["types"] = [str(rng.choice(("f32", "f32", "f64"))), "f32"]
    case["precision"] = "f32"
    case["mode"] = str(rng.choice(("valid", "valid", "same")))
    case["boundary"] = "replicate"
    case.pop("channels", None)
    spread = float(10.0 ** rng.uniform(0.6, 2.4) * U["f32"] / 0.8e-5 / math.sqrt(math.prod(case["template"])))
    levels = ["levels", ground, -float(rng.uniform(0.02, 0.32)), spread, int(rng.choice((3, 3, 5, 33)))]
    case["x"]["layers"] = [["const", ground], levels + case["template"]]
    case["t"]["layers"] = [["normal", 1.0], ["errors", ground]]


def profile_plain(rng, case):
    case["x"]["layers"] = base_layers(rng, case["types"][0])


def profile_any(rng, case):
    """Layers at random."""
    a, axis = amplitude(rng), int(rng.integers(3))
    more = [
        ["noise", a * 1e-4], ["patches", 2], ["patches", 2, a], ["lone", 1, 1e4 * a], ["line", 100 * a, axis],
        ["specks", 0.01, a], ["clip", -a, a], ["times", float(10.0 ** rng.uniform(-6, 6))],
        ["plus", float(10.0 ** rng.uniform(-3, 5))], ["faint", 1e-5, axis], ["alternate", axis], ["repeat", axis],
        ["round", 4.0], ["near", 1, 1e-6, 1.0], ["copies", 2, a, 0.5], ["seam", 2, 1e3 * a],
    ]
    layers = base_layers(rng, case["types"][0])
    for _ in range(int(rng.integers(0, 4))):
        layers.append(more[int(rng.integers(len(more)))])
    case["x"]["layers"] = layers


def profile_partial(rng, case):
    """Images of which not all is known: small ones, as the oracle is slow, with contents of other profiles."""
    if case.get("platform"):
        return profile_any(rng, case)
    if case["op"] == "conv":
        case["op"] = "zncc"
    profiles = [profile for profile, _ in PROFILES if profile not in (profile_partial, profile_wrong)]
    profiles[int(rng.integers(len(profiles)))](rng, case)
    if case["op"] == "conv":
        case["op"] = "corr"
    side = (60_000, 140, 26)[len(case["shape"]) - 1]
    case["shape"] = [min(s, side) for s in case["shape"]]
    while math.prod(case["template"]) * math.prod(case["shape"]) > 3e6:
        k = case["template"].index(max(case["template"]))
        case["template"][k] = max(1, case["template"][k] * 2 // 3)
        if max(case["template"]) == 1:
            break
    for key in ("roi", "kernel", "templates", "platform"):
        case.pop(key, None)
    case.update(method="auto", accuracy=str(rng.choice(("promised", "fast"), p=(0.9, 0.1))))
    seed = int(rng.integers(1 << 30))
    known = {
        "mask": [
            ["bits", seed, float(rng.choice((0.02, 0.5, 0.9, 1.0))), str(rng.choice(("u8", "f64")))], ["block", seed],
            ["decades", seed, float(rng.choice((0.5, 0.95))), float(rng.choice((2.0, 12.0, 80.0)))], None,
        ][int(rng.choice(4, p=(0.5, 0.2, 0.15, 0.15)))]
    }
    if case["mode"] != "valid" and (known["mask"] is None or rng.random() < 0.3):
        known["unknown"], case["boundary"] = True, "zero"
        case.pop("cval", None)
    if rng.random() < 0.3:
        known["overlap"] = float(rng.choice((1.0, 0.5, 0.25, rng.random())))
    if known["mask"] is None and not known.get("unknown"):
        known["mask"] = ["bits", seed, 0.7, "u8"]
    case["known"] = known
    return None


def profile_wrong(rng, case):
    """Calls that are errors."""
    kind = str(
        rng.choice(
            (
                "constant", "zero", "larger", "empty", "dims", "nonfinite", "mask_shape", "mask_zero",
                "mask_negative", "mask_nan", "roi", "conv",
            )
        )
    )
    case["wrong"] = kind
    case["shape"] = [min(s, 40) for s in case["shape"]]
    case["template"] = [min(s, 12) for s in case["template"]]
    if kind == "constant":
        case["op"], case["t"]["layers"] = "zncc", [["const", amplitude(rng)]]
    elif kind == "zero":
        case["op"], case["t"]["layers"] = str(rng.choice(("ncc", "nssd"))), [["const", 0.0]]
    elif kind == "larger":
        case["mode"], case["template"] = "valid", [s + 1 for s in case["shape"]]
    elif kind == "empty":
        case["shape" if rng.random() < 0.5 else "template"][int(rng.integers(len(case["shape"])))] = 0
        case.pop("mask", None)
    elif kind == "nonfinite":
        case["op"] = str(rng.choice(("ncc", "zncc", "ssd", "nssd", "sad")))
        case["types"][1] = str(rng.choice(("f32", "f64")))
        case["t"]["layers"] = [["normal", 1.0], [str(rng.choice(("nan", "inf"))), 1]]
        case.pop("mask", None)
    elif kind == "roi":
        far = [s + t - 1 for s, t in zip(case["shape"], case["template"])]
        case["roi"] = [far, [1] * len(far)] if rng.random() < 0.5 else [[0] * len(far), [k + 1 for k in far]]
    elif kind == "conv" or kind.startswith("mask"):
        case["op"] = "conv" if kind == "conv" else "zncc"
        case["mask"] = ["bits", int(rng.integers(1 << 30)), 0.7]


PROFILES = (
    (profile_two_level, 10), (profile_constants, 9), (profile_patches, 6), (profile_saturated, 3),
    (profile_pattern, 8), (profile_bright, 7), (profile_specks, 5), (profile_zeros, 4), (profile_copies, 5),
    (profile_squares, 3), (profile_blocks, 5),
    (profile_offset, 6), (profile_range, 12), (profile_nonfinite, 4), (profile_faint, 4), (profile_repeated, 4),
    (profile_edge, 4), (profile_plain, 5), (profile_any, 6), (profile_wrong, 2), (profile_rounded, 5),
    (profile_partial, 3), (profile_beside, 2), (profile_lines, 2),
)
WEIGHTS = np.array([weight for _, weight in PROFILES], float) / sum(weight for _, weight in PROFILES)


def options_of(rng, case):
    """How it is computed: method, accuracy and so on."""
    case["method"] = str(rng.choice(("auto", "direct", "fourier", "separable"), p=(0.48, 0.22, 0.2, 0.1)))
    case["accuracy"] = str(rng.choice(("promised", "exact", "fast"), p=(0.74, 0.15, 0.11)))
    case["precision"] = [None, "f32", "f64"][int(rng.choice(3, p=(0.76, 0.12, 0.12)))]
    case["threads"] = int(rng.choice((0, 1, 2), p=(0.2, 0.5, 0.3)))
    case["memory"] = str(rng.choice(("64K", "300K", "1M", "4M"))) if rng.random() < 0.06 else None


def fresh(rng, platform=None):
    """A random case."""
    dims = int(rng.choice((1, 2, 3), p=(0.2, 0.62, 0.18)))
    kinds = [str(rng.choice(ORDER, p=(0.17, 0.11, 0.48, 0.24)))] * 2
    if rng.random() < 0.15:
        kinds = [kinds[0], str(rng.choice(ORDER))]
    shape, template = sizes(rng, dims)
    case = {
        "op": str(
            rng.choice(
                ("conv", "corr", "cc", "ncc", "zncc", "ssd", "nssd", "sad"),
                p=(0.1, 0.12, 0.04, 0.16, 0.28, 0.1, 0.12, 0.08),
            )
        ),
        "types": kinds,
        "shape": shape,
        "template": template,
        "mode": str(rng.choice(("full", "same", "valid"), p=(0.25, 0.3, 0.45))),
        "boundary": str(rng.choice(BOUNDARIES, p=(0.4, 0.12, 0.12, 0.12, 0.12, 0.12))),
    }
    if case["boundary"] == "constant":
        case["cval"] = float(rng.choice((0.0, 1.0, -1.0, 128.0, 255.0, 1e3, 0.5, 1e-3, amplitude(rng))))
    if platform:
        case["platform"] = platform
    options_of(rng, case)
    seeds = [int(s) for s in rng.integers(0, 1 << 30, 4)]
    case["x"] = {"seed": seeds[0], "layers": base_layers(rng, kinds[0])}
    case["t"] = {"seed": seeds[1], "layers": template_layers(rng, kinds[1])}
    if rng.random() < 0.12 and case["op"] != "conv":
        case["mask"] = [
            ["bits", seeds[2], float(rng.choice((0.2, 0.5, 0.9)))], ["disc", seeds[2]],
            ["weights", seeds[2], float(rng.choice((1.0, 1.0, 10.0, 1e-3, 1e4))), str(rng.choice(("f32", "f64")))],
            ["decades", seeds[2], float(rng.choice((2.0, 6.0, 12.0, 20.0)))],
        ][int(rng.integers(4))]
    if rng.random() < 0.05 and dims > 1:
        case["channels"] = 3
    PROFILES[int(rng.choice(len(PROFILES), p=WEIGHTS))][0](rng, case)
    return trimmed(rng, case)


def trimmed(rng, case):
    """The case within what a fuzzer has time for, and without contradictions."""
    if case["op"] == "conv" and case.get("wrong") != "conv":
        case.pop("mask", None)
    if case.get("channels", 1) > 1 and (
        len(case["shape"]) == 1
        or (len(case["shape"]) == 3 and 1 in (case["shape"][0], case["template"][0]))
        or case.get("wrong")
    ):
        case.pop("channels")
    if case["mode"] == "valid" and not case.get("wrong"):
        case["template"] = [min(a, b) for a, b in zip(case["template"], case["shape"])]
    if case["op"] == "zncc" and math.prod(case["template"]) == 1 and not case.get("wrong"):
        case["template"][-1] = 2
        case["shape"][-1] = max(2, case["shape"][-1])
    limit = min(2e8 if rng.random() < 0.1 else 3e7, PRODUCTS[0])
    if case.get("isa") == "portable" or case.get("accuracy") == "exact":
        limit /= 4
    quick = case["op"] != "sad" and case["method"] in ("auto", "fourier")
    most = min(1e9 if case.get("mask") or case.get("channels") else 2e10, PRODUCTS[0])
    while True:
        work, outs = work_of(case)
        if outs <= 3e6 and (
            work <= limit or (quick and work <= most and math.prod(case["shape"]) * 4 ** len(case["shape"]) < 4e7)
        ):
            return case
        side = (
            case["template"]
            if max(case["template"]) > 0.4 * max(case["shape"]) and not (quick and outs > 3e6)
            else case["shape"]
        )
        k = side.index(max(side))
        side[k] = max(1, side[k] * 2 // 3)
        if case["mode"] == "valid" and case.get("wrong") != "larger":
            case["template"] = [min(a, b) for a, b in zip(case["template"], case["shape"])]
        if case.get("wrong") == "larger" and case["mode"] == "valid":
            case["template"] = [s + 1 for s in case["shape"]]


def changed(rng, case):
    """A case near one that came near its tolerance."""
    case = copy.deepcopy(case)
    for key in ("kernel", "templates", "frames", "bench"):
        case.pop(key, None)
    for _ in range(int(rng.integers(1, 4))):
        r = rng.random()
        if r < 0.3:
            case[str(rng.choice(("x", "t")))]["seed"] = int(rng.integers(1 << 30))
        elif r < 0.55:
            layers = [layer for part in ("x", "t") for layer in case[part]["layers"] if len(layer) > 1]
            if layers:
                layer = layers[int(rng.integers(len(layers)))]
                k = int(rng.integers(1, len(layer)))
                if isinstance(layer[k], float):
                    layer[k] = float(layer[k] * rng.uniform(0.5, 2.0)) if rng.random() < 0.8 else amplitude(rng)
        elif r < 0.75:
            side = case[str(rng.choice(("shape", "template")))]
            k = int(rng.integers(len(side)))
            side[k] = max(1, int(side[k] * rng.uniform(0.6, 1.6)) + int(rng.integers(-1, 2)))
        elif r < 0.85:
            options_of(rng, case)
        elif r < 0.92:
            case["mode"] = str(rng.choice(("full", "same", "valid")))
        else:
            case["op"] = str(rng.choice(("conv", "corr", "ncc", "zncc", "ssd", "nssd", "sad")))
    case.pop("roi", None)
    return trimmed(rng, case)


def part_of(rng, problem):
    """A random region of the result, in coordinates of the full one."""
    shape = [int(rng.integers(1, n + 1)) for n in problem.shape]
    if rng.random() < 0.4:
        shape[int(rng.integers(len(shape)))] = 1
    at = [int(rng.integers(0, n - k + 1)) for n, k in zip(problem.shape, shape)]
    return [[a + b for a, b in zip(at, problem.origin)], shape]


def variants(rng, case, problem, result, named):
    """The same problem otherwise: a region, other threads, another kernel. Under one kernel bits must not differ."""
    more = []
    r = rng.random()
    if case.get("known"):
        return more
    if r < 0.15:
        same = {"kernel": result.kernel} if named and r < 0.12 else {}
        more.append(dict(case, roi=part_of(rng, problem), **same))
    elif r < 0.22:
        more.append(dict(case, threads=3 - (case.get("threads") or 2), **({"kernel": result.kernel} if named else {})))
    elif r < 0.55 and named:
        others = [kernel for kernel in result.kernels if kernel != result.kernel and not kernel.startswith("cuda ")]
        if others:
            more.append(dict(case, kernel=others[int(rng.integers(len(others)))]))
    elif r < 0.57 and not case.get("wrong"):
        more.append(dict(case, templates=int(rng.integers(2, 5))))
    elif r < 0.59 and named and not case.get("wrong"):
        several = frames_of(rng, case, problem, result)
        more += [several] if several else []
    elif r < 0.62 and not case.get("wrong"):
        more.append(bench_of(rng, case))
    return more


def frames_of(rng, case, problem, result):
    """The case with several images, or None: a stream tells each score in words, so there may not be many, and none
    that is too large for its type."""
    several = dict(case, frames=int(rng.integers(2, 6)), kernel=result.kernel)
    if rng.random() < 0.4:
        several["templates"] = int(rng.integers(2, 4))
    several.pop("memory", None)
    count = several["frames"] * several.get("templates", 1)
    if case["op"] == "conv" or not problem.small or problem.outputs * count > 20_000:
        return None
    # JSON has no infinity, and samples of other seeds may be larger.
    each = [Problem(one) for one in Runner.several(several)]
    # Another seed may make a template that is none, of equal samples.
    if any(one.mistakes for one in each):
        return None
    return several if max(max(one.most) for one in each) <= 1e15 else None


def spec_text(spec, canonical, rng=None):
    """The text of a spec, as it is always written, or otherwise: what needs not be said, and options in any order."""
    def said(needed):
        return needed or (not canonical and rng.random() < 0.3)

    op = spec["op"] if spec["op"] != "cc" or not canonical else "corr"
    image, template = spec["types"]
    plain = "f64" if "f64" in (image, template) else "f32"
    types = image + ("/" + template if said(template != image) else "")
    types += ">" + spec["out"] if said(spec["out"] != plain) else ""
    sides = [f"{n}@" * said(n != 1) + "x".join(map(str, a)) for n, a in (
        (spec["images"], spec["shape"]), (spec["templates"], spec["template"])
    )]
    options = []
    boundary = spec["boundary"]
    if boundary == "constant":  # a constant of 0 is zeros
        value = spec["cval"] if canonical or rng.random() < 0.5 else f"{spec['cval']:g}"
        boundary = "zero" if canonical and not spec["cval"] else f"constant({value})"
    if said(boundary != "zero" and not (canonical and spec["mode"] == "valid")):
        options.append(boundary)
    options += ["mask01" if spec["mask"] == "binary" else "maskw"] if spec["mask"] else []
    options += ["roi=" + region_text(spec["roi"])] if spec["roi"] else []
    options += ["acc=" + spec["accuracy"]] if said(spec["accuracy"] != "promised") else []
    options += [f"rank={spec['rank']}"] if spec["rank"] is not None else []
    options += ["pairs"] if spec["pairs"] else []
    options += [f"channels={spec['channels']}"] if said(spec["channels"] != 1) else []
    if not canonical:
        options = [options[k] for k in rng.permutation(len(options))]
    return ":".join([op, types, "*".join(sides), ",".join([spec["mode"]] + options)])


def bench_of(rng, case):
    """What the text of a spec says and bench alone computes: pairs, a known rank, channels, several images. Its data is
    noise that it makes up."""
    dims, op = len(case["shape"]), "corr" if case["op"] == "cc" else case["op"]
    work = joined(case)
    whole = work in ("u8", "u16")
    out = case.get("precision") or ("f64" if work == "f64" else "f32")
    shape = [min(n, (4000, 90, 24)[dims - 1]) for n in case["shape"]]
    template = [min(n, (100, 24, 9)[dims - 1]) for n in case["template"]]
    while math.prod(template) < 12:  # not constant, nor all of it under the mask
        template[int(rng.integers(dims))] += 1
    shape = [max(s, t + 3) for s, t in zip(shape, template)]
    while math.prod(shape) < 100:
        shape[int(rng.integers(dims))] += 1
    spec = {
        "op": case["op"], "types": case["types"], "out": out, "shape": shape, "template": template,
        "mode": case["mode"], "boundary": case["boundary"], "accuracy": case.get("accuracy") or "promised",
        "images": int(rng.choice((0, 1, 2, 3, 7))), "templates": int(rng.choice((1, 1, 2, 5))), "pairs": False,
        "rank": int(rng.integers(1, 6)) if rng.random() < 0.6 else None, "mask": None, "roi": None,
        "channels": int(rng.choice((1, 1, 1, 2, 3, 5))),
    }
    if rng.random() < 0.5:
        spec["pairs"], spec["templates"] = True, 1
    if case["boundary"] == "constant":
        spec["cval"] = float(rng.choice((0, 1, 2, 128, 255) if whole else (0, 1, 0.5, -1, 2.5)))
    if case.get("mask") and op != "conv":
        binary = case["mask"][0] in ("bits", "disc") or (whole and spec["accuracy"] == "exact")
        spec["mask"] = "binary" if binary else "weights"
    lengths = shape if case["mode"] == "same" else [a + b - 1 for a, b in zip(shape, template)]
    if case["mode"] == "valid":
        lengths = [a - b + 1 for a, b in zip(shape, template)]
    exact = whole and op in SUMS and spec["accuracy"] != "fast" and spec["mask"] != "weights"
    exact &= case["method"] in ("auto", "direct") or spec["accuracy"] == "exact"
    if rng.random() < 0.3 and (exact or op in NORMALISED):
        first = {"full": lambda t: 0, "same": lambda t: (t - 1) // 2, "valid": lambda t: t - 1}[case["mode"]]
        part = [int(rng.integers(1, n)) if n > 1 else 1 for n in lengths]  # less than the whole, which is not written
        at = [int(rng.integers(0, n - k + 1)) + first(t) for n, k, t in zip(lengths, part, template)]
        if part != lengths:
            spec["roi"], lengths = [at, part], part
    count = math.prod(template) * spec["channels"]
    k, u = 16 + math.sqrt(count), U[out]
    # bench divides the error of a sum by the largest value. Beside the norms that a tolerance is in proportion to that
    # is as 1 to sqrt(N) for products of noise around 0, and of their size for all else.
    rounded = 4 * k * u * (1 if whole or op not in ("conv", "corr") else math.sqrt(count))
    if op in NORMALISED:
        # At accuracy fast panels are computed again where 3 standard deviations reach ten times the promise.
        rounded = PROMISE[out] * (30 if spec["accuracy"] == "fast" else 1)
    due = {"exact": bool(exact), "tolerance": u if exact else rounded, "rounded": rounded}
    due["few"] = bool(spec["rank"] is not None and case["types"][1] in ("u8", "u16"))
    results = max(1, spec["images"]) * spec["templates"]
    due["checked"] = results * math.prod(lengths)
    due["products"] = due["checked"] * count
    if rng.random() < 0.06:
        due["error"] = str(rng.choice(("pairs", "rank", "templates")))
        wrong = {"pairs": {"pairs": True, "templates": 2}, "rank": {"rank": 0}, "templates": {"templates": 0}}
        spec.update(wrong[due["error"]])
        spec["pairs"] = due["error"] == "pairs"
    specs = [spec]
    if spec["rank"] is not None and spec["rank"] >= min(template) and not due.get("error"):
        specs.append(dict(spec, rank=None))  # a rank that restricts nothing: the same data, so the same result
    due["texts"] = [spec_text(each, False, rng) for each in specs]
    due["canonical"] = [spec_text(each, True) for each in specs]
    due["kinds"] = [name for name in ("pairs", "rank") if spec[name] and not due.get("error")]
    due["kinds"] += ["several images"] if spec["images"] > 1 else []
    keys = ("op", "types", "shape", "template", "mode", "boundary", "cval", "x", "t", "mask", "accuracy", "precision")
    kept = {key: case[key] for key in keys + ("method", "threads", "platform", "isa") if case.get(key) is not None}
    return dict(kept, bench=due)


def cropped(case, way):
    """A case of a part of the image, whose result has another shape, so that no region of the whole's is asked for."""
    return dict({k: v for k, v in copy.deepcopy(case).items() if k != "roi"}, crop=way)


def beside(case):
    """The case whose bits a variant must have: the whole for a region, one image for several, else other threads."""
    if case.get("roi") or case.get("frames"):
        return {k: v for k, v in case.items() if k not in ("roi", "frames", "templates")}
    return dict(case, threads=3 - (case.get("threads") or 2))


# Kernels whose transforms are cuFFT's.
CUFFT = re.compile(r"_cufft_|^whole_")


def same_bits(case, base, result):
    """What differs from the base of a variant, where nothing may."""
    problem, first = base
    if result.status or result.kernel != first.kernel or case.get("bench"):
        return None
    # A plan that is short of memory has fewer ways for what is in doubt; several images are never given a limit.
    if case.get("memory") or problem.case.get("memory"):
        return None
    # Other ways may be taken for several templates than for one.
    if case.get("templates"):
        return None
    # cuFFT's last bits depend on how many transforms it makes together; what emulates it makes one after another.
    if CUFFT.search(result.kernel) and "FLCC_EMULATED_DEVICES" not in os.environ:
        return None
    due = first.got
    if case.get("roi"):
        due = due[tuple(slice(a - o, a - o + n) for a, o, n in zip(case["roi"][0], problem.origin, case["roi"][1]))]
    if due.shape != result.got.shape:
        return None
    same = equal_bits(due, result.got)
    if case.get("frames"):  # a stream tells no infinity, nor what is NaN
        same |= ~np.isfinite(due) & np.isnan(result.got)
    if same.all():
        return None
    at = np.argwhere(~same)[0].tolist()
    what = (
        "a region differs from the slice of the whole"
        if case.get("roi")
        else "the first of several images differs from it alone"
        if case.get("frames")
        else "another number of threads gives other bits"
    )
    signs = "" if (due != result.got)[~same].any() else " (the sign of zeros alone)"
    return {
        "what": f"{what} under one kernel, {result.kernel}, {int((~same).sum())} outputs{signs}", "at": at,
        "got": float(result.got[tuple(at)]), "expected": float(due[tuple(at)]),
    }


# ------------------------------------------------------------------ fuzzing ----------------------


def family(kernel):
    """The name of a kernel without sizes and instruction set."""
    name = re.sub(r"_(avx512vnni|avx512|avx2|neondot|neon|portable|amx)", "", kernel or "none")
    return re.sub(r"_[twn]?\d[\dx]*(?![\da-z])|(?<=[a-z])\d+x[\dx]+", "", name)


KINDS = (
    "regions", "images of which not all is known", "several templates", "several images by a stream",
    "several images by bench", "pairs by bench", "rank by bench",
)


def kinds_of(case):
    """The rarer kinds that a case is of, which are counted."""
    said = [name + " by bench" for name in case.get("bench", {}).get("kinds", ())]
    for key, kind in zip(("roi", "known", "templates", "frames"), KINDS):
        said += [kind] if case.get(key) else []
    return said


class Fuzzer:
    def __init__(self, runner, options):
        self.runner, self.options = runner, options
        self.rng = np.random.default_rng(options.seed)
        self.near = collections.defaultdict(list)  # cases that came near their tolerance
        self.worst = {}  # by operation, types and kernel
        self.known = collections.Counter()  # violations by class
        self.count = collections.Counter()
        self.shown = []

    def judge(self, case, problem, result, base=None):
        self.count["cases"] += 1
        for kind in kinds_of(case):
            self.count[kind] += 1
        ratio, found = judged(case, problem, result)
        if base is not None and (ratio is None or ratio <= 1):
            differs = same_bits(case, base, result)
            if differs:
                ratio, found = math.inf, differs
        if ratio is None:
            self.count["refusals and errors"] += 1
            return ratio, found
        if ratio <= 1:
            key = (case["op"], problem.work + ">" + problem.out, problem.accuracy, family(result.kernel))
            if ratio > self.worst.get(key, (-1,))[0]:
                self.worst[key] = (ratio, result.kernel, case)
            if ratio > 0.02 and not any(key in case for key in ("roi", "known", "frames", "bench")):
                kept = self.near[key]
                kept.append((ratio, self.count["cases"], case))
                kept.sort(key=lambda row: (row[0], row[1]), reverse=True)
                del kept[4:]
        return ratio, found

    def violation(self, case, problem, result, ratio, found, base=None):
        size = next((f"up to {top:g}" for top in (3, 100, 1e4) if ratio <= top), "wrong")
        kind = (
            "other bits"
            if "under one kernel" in found["what"]
            else size if math.isfinite(ratio) else found["what"][:40]
        )
        op = "corr" if case["op"] == "cc" else case["op"]
        key = (op, problem.work + ">" + problem.out, result.method() if result.kernel else "-", problem.accuracy, kind)
        self.known[key] += 1
        self.count["violations"] += 1
        if self.known[key] > 1 or len(self.shown) >= self.options.most:
            return
        if base is None and self.options.shrink:
            case, problem, result, ratio, found = self.smaller(case, problem, result, ratio, found)
        self.show(case, problem, result, ratio, found, base)

    def smaller(self, case, problem, result, ratio, found):
        """The case made smaller as long as it stays a violation."""
        until = time.time() + 10
        current = (case, problem, result, ratio, found)
        for _ in range(12):
            tried = []
            for other in self.simpler(current[0], current[1], current[4]):
                try:
                    tried.append((other, Problem(other)))
                except (ValueError, IndexError, MemoryError):
                    continue
            tried = [(c, p) for c, p in tried if bool(p.mistakes) == bool(current[1].mistakes)]
            if not tried or time.time() > until:
                break
            groups = collections.defaultdict(list)
            for pair in tried:
                groups[pair[0].get("isa")].append(pair)
            better = None
            for pairs in groups.values():
                for (c, p), r in zip(pairs, self.runner.all(pairs)):
                    q, f = judged(c, p, r)
                    # What fails otherwise, as where a kernel does not serve the smaller case, is another violation.
                    alike = r.status == current[2].status and (math.isfinite(q or 0) or not math.isfinite(current[3]))
                    if alike and q is not None and q > 1:
                        better = better or (c, p, r, q, f)
            if better is None:
                break
            current = better
        return current

    def simpler(self, case, problem, found):
        """Cases with one thing less, the most telling first."""
        if case.get("bench"):
            return
        for key, plain in (
            ("roi", None), ("frames", None), ("templates", None), ("memory", None), ("threads", 1), ("isa", None),
            ("precision", None), ("channels", None), ("mask", None), ("accuracy", None), ("known", None),
        ):
            if case.get(key) not in (None, plain) and not (key == "mask" and case.get("wrong")):
                other = copy.deepcopy(case)
                other.pop(key)
                if plain is not None:
                    other[key] = plain
                yield other
        if case.get("wrong") or problem.mistakes:
            return
        at = found.get("at")
        sides = problem.x.shape[: problem.dims]
        offset = [a for a, _ in case["crop"]] if case.get("crop") else [0] * problem.dims
        if at is not None and not case.get("roi"):
            first = [i + o - (t - 1) for i, o, t in zip(at, problem.origin, problem.tshape)]
            for margin in (0, 3, 16):  # the panel with a margin, as one dimension after the other
                cut = [
                    (max(0, min(b - margin, n - 1)), max(1, min(n, b + t + margin)))
                    for b, t, n in zip(first, problem.tshape, sides)
                ]
                cut = [(a, b) if b > a else (0, n) for (a, b), n in zip(cut, sides)]
                ways = [cut] + [
                    [c if k == axis else (0, n) for k, (c, n) in enumerate(zip(cut, sides))]
                    for axis in range(problem.dims)
                ]
                for way in ways:
                    if math.prod(b - a for a, b in way) < 0.9 * math.prod(sides):
                        yield cropped(case, [[a + o, b + o] for (a, b), o in zip(way, offset)])
        for axis, n in enumerate(sides):
            if n > 3:
                for a, b in ((0, n // 2), (n // 2, n), (0, n - n // 4)):
                    way = [[o, o + m] for o, m in zip(offset, sides)]
                    way[axis] = [offset[axis] + a, offset[axis] + b]
                    yield cropped(case, way)
        for part in ("x", "t"):
            for k in range(1, len(case[part]["layers"])):
                other = copy.deepcopy(case)
                del other[part]["layers"][k]
                yield other
        if case["boundary"] != "zero":
            yield dict({k: v for k, v in copy.deepcopy(case).items() if k != "cval"}, boundary="zero")
        if case["mode"] != "valid":
            yield dict(copy.deepcopy(case), mode="valid")

    def show(self, case, problem, result, ratio, found, base=None):
        """Prints a violation with its command; its files are kept."""
        number = len(self.shown) + 1
        folder = os.path.join(self.options.keep, f"{number:03d}-{case['op']}-{problem.work}")
        os.makedirs(folder, exist_ok=True)
        files = self.runner.files(case, problem, folder, "")
        with open(os.path.join(folder, "case.json"), "w") as f:
            json.dump(case, f)
        shell = f"FLCC_ISA={case['isa']} " if case.get("isa") else ""
        if case.get("bench"):
            words = self.runner.bench_command(case)
        elif case.get("frames"):
            problems = [problem] + [Problem(each) for each in self.runner.several(case)[1:]]
            words = self.runner.stream_command(case, problems, folder)
        elif case.get("kernel"):
            with open(os.path.join(folder, "index.json"), "w") as f:
                json.dump({"cases": [self.runner.entry(case, files, "got")]}, f)
            words = [self.runner.flcc, "conformance", folder, "--results", folder, "--json"]
            words += ["--platform", case["platform"]] if case.get("platform") else []
        else:
            later = [other[0] if isinstance(other, tuple) else other for other in result.later]
            words = self.runner.command(case, files, folder, os.path.join(folder, "out.npy"), later)
        command = shell + shlex.join(words)
        if base is not None:
            other = beside(case)
            with open(os.path.join(folder, "index.json"), "w") as f:
                entries = [(other, "beside")] if case.get("frames") else [(case, "got"), (other, "beside")]
                json.dump({"cases": [self.runner.entry(each, files, name) for each, name in entries]}, f)
            if case.get("frames"):
                words = [self.runner.flcc, "conformance", folder, "--results", folder, "--json"]
                command += "\n    beside " + shell + shlex.join(words)
            elif not case.get("kernel"):
                words = self.runner.command(other, files, folder, os.path.join(folder, "beside.npy"))
                command += "\n    beside " + shell + shlex.join(words)
        value = {key: found[key] for key in ("at", "got", "expected", "tolerance") if key in found}
        if result.got is not None:
            np.save(os.path.join(folder, "got.npy"), result.got)
        text = [
            f"VIOLATION {number}: {case['op']} {'/'.join(case['types'])}>{problem.out} "
            f"{problem.x.shape}*{problem.t.shape} {case['mode']} {problem.accuracy}, kernel {result.kernel}",
            f"    {found['what'] + ' ' if found['what'] else ''}error / tolerance {ratio:.4g}  "
            + "  ".join(f"{key} {v if isinstance(v, list) else repr(v)}" for key, v in value.items()),
            f"    {command}",
            f"    --case {shlex.quote(json.dumps(case))}",
        ]
        print("\n".join(text), flush=True)
        with open(os.path.join(folder, "violation.txt"), "w") as f:
            f.write("\n".join(text) + "\n")
        self.shown.append(text[0])

    def batch(self, sets):
        """Cases of one environment: new ones, and some near those that came near."""
        isa = sets[int(self.rng.integers(len(sets)))]
        cases = []
        size = self.options.batch if self.runner.batches else 16
        keys = list(self.near)
        for _ in range(size):
            if keys and self.rng.random() < 0.35:
                kept = self.near[keys[int(self.rng.integers(len(keys)))]]
                case = changed(self.rng, kept[int(self.rng.integers(len(kept)))][2])
                case.pop("isa", None)
            else:
                case = fresh(self.rng, self.options.platform)
            if isa:
                case["isa"] = isa
            cases.append(case)
        return cases

    def run(self, sets):
        """Fuzzes until the time is up. While one batch is computed, the next is made and the one before judged."""
        began = told = time.time()
        pending, waiting = None, []
        ready = []  # variants of cases that came out, with their base
        while True:
            late = time.time() - began > self.options.seconds
            if not late:
                cases = [(case, Problem(case), None) for case in self.batch(sets)]
                mine = [row for row in ready if row[0].get("isa") == cases[0][0].get("isa")]
                ready = [row for row in ready if row[0].get("isa") != cases[0][0].get("isa")][-500:]
                cases += mine
                pairs = [row[:2] for row in cases]
                begun = (cases, self.runner.begin(pairs) if self.runner.batches else None)
            if pending is not None:
                waiting = list(
                    zip(
                        pending[0],
                        (
                            self.runner.end([row[:2] for row in pending[0]], pending[1])
                            if self.runner.batches
                            else [self.runner.one(*row[:2]) for row in pending[0]]
                        ),
                    )
                )
            else:
                waiting = []
            pending = None if late else begun
            for (case, problem, base), result in waiting:
                ratio, found = self.judge(case, problem, result, base)
                if ratio is not None and ratio > 1:
                    bits = base if "under one kernel" in found["what"] else None
                    self.violation(case, problem, result, ratio, found, bits)
                elif base is None and result.status == 0 and not late and "roi" not in case:
                    for other in variants(self.rng, case, problem, result, self.runner.batches):
                        twin = copy.copy(problem)
                        twin.case = other
                        ready.append((other, twin, (problem, result)))
            if time.time() - told > 15:
                told = time.time()
                top = max((row[0] for row in self.worst.values()), default=0)
                rate = self.count["cases"] / (told - began)
                print(
                    f"{told - began:5.0f} s: {self.count['cases']} cases, {rate:.0f} a second, violations: "
                    f"{self.count['violations']} of {len(self.known)} classes, else at most {top:.3g} of the tolerance",
                    flush=True,
                )
            if pending is None:
                break
        return time.time() - began

    def summary(self, seconds):
        print(f"\n{'operation and types':26s} {'accuracy':9s} {'kernel':38s} largest error / tolerance")
        for key in sorted(self.worst):
            if self.worst[key][0] > 0.05 or self.options.verbose:
                print(f"{key[0] + ' ' + key[1]:26s} {key[2]:9s} {key[3]:38s} {self.worst[key][0]:.3g}")
        for text in self.runner.incidents:
            print("VIOLATION: " + text)
        if self.known:
            print("\nviolations by class")
            for key, count in sorted(self.known.items()):
                print(f"{count:6d}  {' '.join(key)}")
        rate = self.count["cases"] / max(seconds, 1e-9)
        print(
            f"\n{self.count['cases']} cases in {seconds:.0f} s, {rate:.0f} a second, "
            f"{self.count['refusals and errors']} of them refusals and errors that were due; seed {self.options.seed}; "
            f"violations {self.count['violations']}"
            + (f", files in {self.options.keep}" if self.count["violations"] else "")
        )
        print("of them " + ", ".join(f"{self.count[kind]} {kind}" for kind in KINDS))


def instruction_sets(flcc):
    said = subprocess.run([flcc, "devices"], stdout=subprocess.PIPE).stdout.decode()
    line = re.search(r"^instruction sets: (.*)$", said, re.M)
    return line.group(1).split(", ") if line else []


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    built = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "target", "release", "flcc")
    ap.add_argument(
        "--flcc", default=built, metavar="PATH", help="the program [default: target/release/flcc of this checkout]"
    )
    ap.add_argument("--seconds", type=float, default=60.0)
    ap.add_argument("--seed", type=int, help="[default: a fresh one, which is printed]")
    ap.add_argument(
        "--isa", help="only this instruction set (FLCC_ISA) [default: all that the processor has, in turns]"
    )
    ap.add_argument("--platform", choices=("cpu", "cuda"))
    ap.add_argument("--case", metavar="JSON", help="only this case; a file's name behind @")
    ap.add_argument("--keep", metavar="DIR", help="where the files of violations go [default: a new folder]")
    ap.add_argument("--batch", type=int, help="cases to a process [default: 64; 256 on a GPU]")
    ap.add_argument("--products", type=float, default=2e10, help="of a case, at most [default: 2e10]")
    ap.add_argument("--most", type=int, default=40, help="violations to print")
    ap.add_argument("--no-shrink", dest="shrink", action="store_false", help="print violations as they were found")
    ap.add_argument("--verbose", action="store_true", help="tell every kernel's worst")
    a = ap.parse_args()
    if np.finfo(LD).nmant < 63:
        raise SystemExit(
            "fuzz.py: expected a long double of 64 bits of mantissa at least, which this platform does not have"
        )
    if not os.path.exists(a.flcc):
        raise SystemExit(f"fuzz.py: expected the program at {a.flcc} (cargo build --release --bin flcc), got nothing")
    PRODUCTS[0] = max(a.products, 1.0)
    if a.seed is None:
        a.seed = int.from_bytes(os.urandom(4), "little")
    a.batch = a.batch or (256 if a.platform == "cuda" else 64)
    if a.platform == "cuda":
        asked = [a.flcc, "plan", "corr:f32:9*3:valid", "--platform", "cuda"]
        done = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise SystemExit("fuzz.py: expected a GPU for --platform cuda, got: " + done.stdout.decode().strip())
    runner = Runner(a.flcc)
    if a.keep is None:
        a.keep = tempfile.mkdtemp(prefix="flcc-fuzz-")
    os.makedirs(a.keep, exist_ok=True)
    fuzzer = Fuzzer(runner, a)
    np.seterr(all="ignore")
    if a.case:
        text = open(a.case[1:]).read() if a.case.startswith("@") else a.case
        case = json.loads(text)
        problem = Problem(case)
        result = runner.one(case, problem)
        ratio, found = judged(case, problem, result)
        base = None
        if (ratio is None or ratio <= 1) and result.status == 0 and not (case.get("known") or case.get("bench")):
            other = beside(dict(case, kernel=result.kernel) if runner.batches else case)
            base = (problem, runner.one(other, problem))
            differs = same_bits(case, base, result)
            ratio, found = (math.inf, differs) if differs else (ratio, found)
            base = base if differs else None
        if ratio is not None and ratio > 1:
            fuzzer.show(case, problem, result, ratio, found, base)
            return 1
        print(f"ratio {ratio}  kernel {result.kernel}  {found}")
        return 0
    sets = [None] if a.platform == "cuda" else [a.isa] if a.isa else instruction_sets(a.flcc)
    where = "on " + a.platform if a.platform else "instruction sets " + ", ".join(map(str, sets))
    print(f"seed {a.seed}; {a.flcc}; {where}; {'batches' if runner.batches else 'one command a case'}", flush=True)
    fuzzer.summary(fuzzer.run(sets))
    return 1 if fuzzer.count["violations"] or runner.incidents else 0


if __name__ == "__main__":
    sys.exit(main())
