"""What torch, CuPy and NPP take on a GPU for specs of FLCC, as lines of JSON: answers are checked, then timed.

A spec a line comes in on standard input, or all are arguments. A line goes out for each peer, and one with `done`
behind a spec's last. numpy alone is needed: torch, CuPy and NPP, which needs CuPy's arrays, are named where they are
missing. With `--check` answers are checked and nothing is timed, on the CPU where torch has no GPU.

Images, results and what a template is made into lie on the device. Copies of the image, with results of their own, take
turns, so that caches are cold. A CUDA graph of some calls is timed by events around it; a peer that no graph takes is
timed by as many calls in a row. TF32 is off."""

import ctypes
import json
import math
import re
import statistics
import sys

ROTATED = 256 << 20  # bytes of all copies together: more than the caches hold
COPIES = 16
BATCH_MS, BATCH_CALLS, BATCHES = 3.0, 64, 7
SLOWEST_MS = 400.0  # a call that takes longer is timed once
MOST_PRODUCTS = 4e12  # products of a direct sum: above it takes seconds
SPOTS = 128
ALLOWED = {"corr": 1e-3, "zncc": 1e-2}

SPEC = re.compile(
    r"(?P<op>corr|zncc):(?P<dtype>f32|u8):(?:(?P<images>\d+)@)?(?P<image>[\dx]+)\*(?:(?P<templates>\d+)@)?"
    r"(?P<template>[\dx]+):(?P<mode>full|valid)(?P<pairs>,pairs)?"
)


def tell(**line):
    print(json.dumps(line), flush=True)


def optional(name):
    """A module, or None where it is missing, which is told with the reason."""
    try:
        return __import__(name)
    except Exception as error:  # a library below it may be what is missing
        tell(missing=name, reason=f"{type(error).__name__}: {error}".splitlines()[0][:200])
        return None


class Skipped(Exception):
    """A peer that does not take part, and why."""


class Case:
    """The problem of a spec, with made-up data on the host."""

    def __init__(self, spec):
        found = SPEC.fullmatch(spec)
        if not found:
            raise ValueError(f"expected a spec of corr or zncc in f32 or u8, mode full or valid, got {spec!r}")
        shape = lambda text: tuple(int(side) for side in text.split("x"))
        self.spec, self.op, self.dtype, self.mode = spec, found["op"], found["dtype"], found["mode"]
        self.image, self.template = shape(found["image"]), shape(found["template"])
        self.pairs = found["pairs"] is not None
        self.images = int(found["images"] or 1)
        # Of pairs each image has a template of its own.
        self.templates = self.images if self.pairs else int(found["templates"] or 1)
        if len(self.image) != len(self.template) or (self.images > 1 and not self.pairs):
            raise ValueError(f"expected one image, or pairs, and a template of as many axes, got {spec!r}")
        self.axes = len(self.image)
        step = 1 if self.mode == "full" else -1
        self.out = tuple(n + step * (k - 1) for n, k in zip(self.image, self.template))
        # Where the first result's window begins.
        self.begin = tuple(1 - k if self.mode == "full" else 0 for k in self.template)
        self.taps = math.prod(self.template)
        self.products = math.prod(self.out) * self.taps * self.templates
        self.full_lengths = tuple(n + k - 1 for n, k in zip(self.image, self.template))
        self.random = np.random.default_rng(5)
        self.host_templates = self.made(self.templates, self.template)
        size = np.dtype(self.sample).itemsize
        results = math.prod(self.out) * self.templates * 4
        each = self.images * math.prod(self.image) * size + results
        self.copies = max(1, min(COPIES, -(-ROTATED // each), (8 << 30) // each))

    @property
    def sample(self):
        return np.float32 if self.dtype == "f32" else np.uint8

    def made(self, count, shape):
        if self.dtype == "u8":
            return self.random.integers(0, 256, (count, *shape), np.uint8)
        return self.random.standard_normal((count, *shape), np.float32)

    def scaled_templates(self):
        """Templates in f64, for zncc without their mean and of norm 1."""
        values = self.host_templates.astype(np.float64)
        if self.op == "zncc":
            axes = tuple(range(1, values.ndim))
            values -= values.mean(axes, keepdims=True)
            values /= np.sqrt((values**2).sum(axes, keepdims=True))
        return values

    def spots(self, images):
        """Positions [result, axis...] with their exact answers."""
        random = np.random.default_rng(9)
        weights = self.scaled_templates()
        places, answers = [], []
        for number in range(SPOTS):
            result = int(random.integers(self.templates))
            at = [int(random.integers(side)) for side in self.out]
            if number < 2:
                at = [number * (side - 1) for side in self.out]
            window = np.zeros(self.template)
            source, target = [], []
            for place, begin, k, n in zip(at, self.begin, self.template, self.image):
                first = place + begin
                source.append(slice(max(first, 0), min(first + k, n)))
                target.append(slice(max(-first, 0), min(n - first, k)))
            image = images[result if self.pairs else 0]
            window[tuple(target)] = image[tuple(source)]
            answer = (window * weights[result]).sum()
            if self.op == "zncc":
                energy = ((window - window.mean()) ** 2).sum()
                answer = answer / math.sqrt(energy) if energy > 0 else 0.0
            places.append((result, *at))
            answers.append(answer)
        return places, np.array(answers)


def lengths_of(case, most=3):
    """Lengths of transforms that may be fast: the next without prime factors above 7, and the next multiples of 32 and
    64 among these."""

    def smooth(number):
        for prime in (2, 3, 5, 7):
            while number % prime == 0:
                number //= prime
        return number == 1

    def next_smooth(side, step):
        side = -(-side // step) * step
        while not smooth(side):
            side += step
        return side

    sides = case.full_lengths if case.mode == "full" else case.image
    choices = []
    for step in (2, 32, 64):
        choice = tuple(next_smooth(side, step) for side in sides)
        if choice not in choices:
            choices.append(choice)
    # Large ones are not tried thrice.
    return choices[: 1 if math.prod(choices[0]) > 3e7 else most]


def cut(case, result):
    """The part of a circular result that is the answer: it begins at the template's last tap, as those of transforms
    of turned templates do."""
    first = [0 if case.mode == "full" else k - 1 for k in case.template]
    return result[(..., *(slice(begin, begin + side) for begin, side in zip(first, case.out)))]


def turned(case):
    """Templates turned about, as products of spectra correlate by them."""
    return np.ascontiguousarray(case.scaled_templates()[(slice(None), *(slice(None, None, -1),) * case.axes)])


# ---- torch: every maker gives a call of the number of an image, whose result is [template or pair, axis...]
class Torch:
    def __init__(self, case, torch, device):
        self.case, self.torch = case, torch
        self.images = [torch.from_numpy(image).to(device) for image in case.host_images]
        self.device = device

    def put(self, values):
        return self.torch.from_numpy(values.astype(np.float32)).to(self.device)

    def convolve(self, image, weights, padding, groups=1):
        convolution = getattr(self.torch.nn.functional, f"conv{self.case.axes}d")
        return convolution(image[None], weights, padding=padding, groups=groups)[0]

    def padding(self):
        return tuple(k - 1 if self.case.mode == "full" else 0 for k in self.case.template)

    def floats(self, number):
        image = self.images[number]
        return image if self.case.dtype == "f32" else image.float()

    def ends(self):
        """What a result is multiplied by for zncc: 1 over the norm of its window."""
        if self.case.op == "corr":
            return [("", None)]
        return [(" + box convolutions", self.boxes), (" + sums in f64", self.running)]

    def norms(self, sums, squares):
        return self.torch.rsqrt((squares - sums * sums / self.case.taps).clamp_min_(1e-12))

    def boxes(self, image):
        """By convolutions with ones, axis by axis."""
        case, torch = self.case, self.torch
        both = torch.cat((image, image * image))
        count = both.shape[0]
        for axis, k in enumerate(case.template):
            shape = [1] * case.axes
            shape[axis] = k
            padding = [0] * case.axes
            padding[axis] = self.padding()[axis]
            ones = torch.ones((1, 1, *shape), device=both.device)
            convolution = getattr(torch.nn.functional, f"conv{case.axes}d")
            both = convolution(both[:, None], ones, padding=tuple(padding))[:, 0]
        return self.norms(both[: count // 2], both[count // 2 :])

    def running(self, image):
        """By running sums in f64."""
        case, torch = self.case, self.torch
        pads = [side for k, pad in zip(case.template[::-1], self.padding()[::-1]) for side in (pad + 1, pad)]
        wide = torch.nn.functional.pad(image, pads).double()

        def sums(values):
            for axis, k in enumerate(case.template, 1):
                total = values.cumsum(axis)
                length = total.shape[axis] - k
                values = total.narrow(axis, k, length) - total.narrow(axis, 0, length)
            return values

        return self.norms(sums(wide), sums(wide * wide)).float()

    def direct(self, end):
        case = self.case
        if case.products > MOST_PRODUCTS:
            raise Skipped(f"{case.products:.1e} products")
        weights = self.put(case.scaled_templates())[:, None]
        groups = case.images if case.pairs else 1

        def call(number):
            image = self.floats(number)
            result = self.convolve(image, weights, self.padding(), groups)
            return result if end is None else result * end(image)

        return call

    def fourier(self, lengths, end):
        case, torch = self.case, self.torch
        axes = tuple(range(1, case.axes + 1))
        spectra = torch.fft.rfftn(self.put(turned(case)), s=lengths, dim=axes)

        def call(number):
            image = self.floats(number)
            product = torch.fft.rfftn(image, s=lengths, dim=axes) * spectra
            result = cut(case, torch.fft.irfftn(product, s=lengths, dim=axes))
            return result.contiguous() if end is None else result * end(image)

        return call

    def makers(self):
        for name, end in self.ends():
            yield f"torch conv{self.case.axes}d{name}", "torch conv", lambda end=end: self.direct(end)
            for lengths in lengths_of(self.case):
                kind = f"torch.fft{name}"
                text = "x".join(map(str, lengths))
                yield f"{kind} {text}", kind, lambda lengths=lengths, end=end: self.fourier(lengths, end)

    def picked(self, result, places):
        index = tuple(self.torch.tensor(axis, device=result.device) for axis in zip(*places))
        return result[index].double().cpu().numpy()

    def timed(self, call):
        torch, copies = self.torch, len(self.images)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

            def took(work):
                begin.record(stream)
                work()
                end.record(stream)
                end.synchronize()
                return begin.elapsed_time(end)

            # Libraries choose their ways in the first call.
            took(lambda: call(0))
            once = max(took(lambda: call(1 % copies)), 1e-3)
            if once > SLOWEST_MS:
                return [once], 1, False
            calls = calls_of(once, copies)
            kept = [None] * copies

            def row():
                for number in range(calls):
                    kept[number % copies] = call(number % copies)

            graph = None
            try:
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    row()
                work = graph.replay
                took(work)
            except RuntimeError:
                graph, work = None, row
                torch.cuda.synchronize()
                took(work)
            times = [took(work) / calls for _ in range(BATCHES)]
            return times, calls, graph is not None


def calls_of(once, copies):
    calls = max(1, min(BATCH_CALLS, int(BATCH_MS / once)))
    return calls if calls < copies else calls // copies * copies


# ---- CuPy
class Cupy:
    def __init__(self, case, cupy):
        self.case, self.cupy = case, cupy
        self.images = [cupy.asarray(image) for image in case.host_images]

    def put(self, values):
        return self.cupy.asarray(values.astype(np.float32))

    def cufft(self, lengths):
        """Pad, R2C, multiply, C2R and crop, in memory that is taken before."""
        from cupyx.scipy.fft import get_fft_plan

        case, cupy = self.case, self.cupy
        if case.templates > 1 and not case.pairs:
            raise Skipped("one template alone")
        axes = tuple(range(1, case.axes + 1))
        forward, inverse = cupy.cuda.cufft.CUFFT_FORWARD, cupy.cuda.cufft.CUFFT_INVERSE
        count = case.images
        padded = cupy.zeros((count, *lengths), cupy.float32)
        half = (count, *lengths[:-1], lengths[-1] // 2 + 1)
        spectrum = cupy.empty(half, cupy.complex64)
        there = get_fft_plan(padded, shape=lengths, axes=axes, value_type="R2C")
        back = get_fft_plan(spectrum, shape=lengths, axes=axes, value_type="C2R")
        weights = self.put(turned(case))
        room = cupy.zeros((count, *lengths), cupy.float32)
        room[(slice(None), *(slice(0, k) for k in case.template))] = weights
        of_templates = cupy.empty(half, cupy.complex64)
        there.fft(room, of_templates, forward)
        # The inverse does not divide by the number of samples.
        of_templates *= np.float32(1 / math.prod(lengths))
        multiply = cupy.ElementwiseKernel("complex64 b", "complex64 a", "a = a * b", "gpu_bench_multiply")
        outs = [cupy.empty((count, *case.out), cupy.float32) for _ in self.images]
        inside = (slice(None), *(slice(0, n) for n in case.image))

        def call(number):
            # The inverse writes where the image was padded.
            padded.fill(0)
            padded[inside] = self.images[number]
            there.fft(padded, spectrum, forward)
            multiply(of_templates, spectrum)
            back.fft(spectrum, padded, inverse)
            outs[number][...] = cut(case, padded)
            return outs[number]

        return call

    def signal(self, name):
        import cupyx.scipy.signal as signal

        case = self.case
        if case.templates > 1:
            raise Skipped("one template alone")
        if name == "direct" and (case.products > MOST_PRODUCTS / 20 or case.axes == 1 and case.taps > 1000):
            raise Skipped(f"{case.products:.1e} products")
        weights, over = self.put(turned(case)), self.put(case.scaled_templates())

        def call(number):
            image = self.images[number][0]
            if name == "direct":
                return signal.correlate(image, over[0], case.mode, "direct")[None]
            return getattr(signal, name)(image, weights[0], case.mode)[None]

        return call

    def makers(self):
        if self.case.op != "corr" or self.case.dtype != "f32":
            return
        for lengths in lengths_of(self.case):
            text = "x".join(map(str, lengths))
            yield f"cuFFT by CuPy {text}", "cuFFT by CuPy", lambda lengths=lengths: self.cufft(lengths)
        for name in ("fftconvolve", "oaconvolve", "direct"):
            kind = f"cupyx {'correlate direct' if name == 'direct' else name}"
            yield kind, kind, lambda name=name: self.signal(name)

    def picked(self, result, places):
        index = tuple(self.cupy.asarray(axis) for axis in zip(*places))
        return self.cupy.asnumpy(result[index]).astype(np.float64)

    def timed(self, call):
        cupy, copies = self.cupy, len(self.images)
        stream = cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Device().synchronize()
        with stream:
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()

            def took(work):
                begin.record(stream)
                work()
                end.record(stream)
                end.synchronize()
                return cupy.cuda.get_elapsed_time(begin, end)

            took(lambda: call(0))
            once = max(took(lambda: call(1 % copies)), 1e-3)
            if once > SLOWEST_MS:
                return [once], 1, False
            calls = calls_of(once, copies)
            kept = [None] * copies

            def row():
                for number in range(calls):
                    kept[number % copies] = call(number % copies)

            # Memory of a graph is not taken while it is recorded: these calls leave it in the pool.
            row()
            stream.synchronize()
            graph = None
            try:
                stream.begin_capture()
                try:
                    row()
                finally:
                    graph = stream.end_capture()
                work = lambda: graph.launch(stream)
                took(work)
            except Exception:  # whatever a library says to a stream that records
                graph, work = None, row
                cupy.cuda.Device().synchronize()
                took(work)
            times = [took(work) / calls for _ in range(BATCHES)]
            return times, calls, graph is not None


# ---- NPP
class NppContext(ctypes.Structure):
    """NppStreamContext: where its functions run."""

    _fields_ = [
        ("stream", ctypes.c_void_p),
        ("device", ctypes.c_int),
        ("multiprocessors", ctypes.c_int),
        ("threads_of_multiprocessor", ctypes.c_int),
        ("threads_of_block", ctypes.c_int),
        ("shared_of_block", ctypes.c_size_t),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("reserved", ctypes.c_int),
    ]


class NppPair(ctypes.Structure):
    """NppiSize, width and height, and NppiPoint, x and y."""

    _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_int)]


class NppLibraries:
    """The parts of NPP that hold its filters and its correlations."""

    def __init__(self):
        self.version = self.part("nppc", ctypes.RTLD_GLOBAL)
        self.filters, self.statistics = self.part("nppif"), self.part("nppist")

    def part(self, name, mode=ctypes.DEFAULT_MODE):
        failed = None
        for folder in ("", "/usr/local/cuda/lib64/"):
            for end in ("so.13", "so.12", "so"):
                try:
                    return ctypes.CDLL(f"{folder}lib{name}.{end}", mode=mode)
                except OSError as error:
                    failed = failed or error
        raise failed

    def number(self):
        """Its version: major, minor and build."""
        get = self.version.nppGetLibVersion
        get.restype = ctypes.POINTER(ctypes.c_int * 3)
        return ".".join(map(str, get().contents))


class Npp(Cupy):
    """Its functions have no results beyond an image. Zeros were laid around each before, which is not counted."""

    @staticmethod
    def serves(case):
        """Images of one template, whose sums it adds up one by one."""
        one = case.axes == 2 and case.images == 1 and case.templates == 1
        return one and (case.op == "zncc" or case.dtype == "f32") and case.products <= MOST_PRODUCTS / 20

    def __init__(self, case, cupy, npp):
        self.case, self.cupy, self.npp = case, cupy, npp
        # A filter of 3x3 or 5x5 is wrong at the edge of what it is asked for: it is asked for more.
        self.frame = [k // 2 if case.op == "corr" and case.template in ((3, 3), (5, 5)) else 0 for k in case.template]
        beyond = [k - 1 if case.mode == "full" else 0 for k in case.template]
        around = [(0, 0)] + [(more + frame,) * 2 for more, frame in zip(beyond, self.frame)]
        self.images = []
        for image in case.host_images:
            padded = np.pad(image, around)
            self.images.append(self.room(padded.shape, padded.dtype))
            self.images[-1][...] = cupy.asarray(padded)
        of = cupy.cuda.runtime.getDeviceProperties(0)
        counts = ("multiProcessorCount", "maxThreadsPerMultiProcessor", "maxThreadsPerBlock", "sharedMemPerBlock")
        self.device = (0, *(of[count] for count in counts), of["major"], of["minor"], 1, 0)

    def room(self, shape, dtype):
        """Rows begin at multiples of 256 bytes, as those of memory that NPP gives: it is faster so."""
        step = 256 // np.dtype(dtype).itemsize
        return self.cupy.empty((*shape[:-1], -(-shape[-1] // step) * step), dtype)[..., : shape[-1]]

    def context(self):
        return NppContext(self.cupy.cuda.get_current_stream().ptr, *self.device)

    def address(self, array):
        return ctypes.c_void_p(array.data.ptr)

    def outs(self):
        shape = [side + 2 * frame for side, frame in zip(self.case.out, self.frame)]
        return [self.room((1, *shape), np.float32) for _ in self.images]

    def done(self, status):
        if status != 0:
            raise ValueError(f"status {status}")

    def filter(self):
        """A convolution with the turned template."""
        outs, run = self.outs(), self.npp.filters.nppiFilter_32f_C1R_Ctx
        taps = self.put(turned(self.case))[0]
        down, across = self.case.template
        shown = (slice(None), *(slice(frame, frame + side) for frame, side in zip(self.frame, self.case.out)))

        def call(number):
            image, out = self.images[number], outs[number]
            source, to = (self.address(image), image.strides[1]), (self.address(out), out.strides[1])
            size, anchor = NppPair(*out.shape[:0:-1]), NppPair(across - 1, down - 1)
            self.done(run(*source, *to, size, self.address(taps), NppPair(across, down), anchor, self.context()))
            return out[shown]

        return call

    def coefficients(self, advanced):
        case, cupy, outs = self.case, self.cupy, self.outs()
        kind = "32f" if case.dtype == "f32" else "8u32f"
        taps = cupy.asarray(case.host_templates[0])
        _, height, width = self.images[0].shape
        size, sides, bytes_ = NppPair(width, height), NppPair(*case.template[::-1]), ctypes.c_size_t(0)
        asked = getattr(self.npp.statistics, f"nppiValidNormLevelGetBufferHostSize_{kind}_C1R_Ctx")
        self.done(asked(size, ctypes.byref(bytes_), self.context()))
        rooms = [cupy.empty(bytes_.value + 4096, cupy.uint8)]
        if advanced:
            asked = self.npp.statistics.nppiCrossCorrValid_NormLevel_GetAdvancedScratchBufferSize
            self.done(asked(size, sides, 4, 1, ctypes.byref(bytes_)))
            rooms.append(cupy.empty(bytes_.value + 4096, cupy.uint8))
        name = "Advanced" if advanced else ""
        run = getattr(self.npp.statistics, f"nppiCrossCorrValid_NormLevel{name}_{kind}_C1R_Ctx")

        def call(number):
            image, out = self.images[number], outs[number]
            source, to = (self.address(image), image.strides[1], size), (self.address(out), out.strides[1])
            template = (self.address(taps), taps.strides[0], sides)
            self.done(run(*source, *template, *to, *map(self.address, rooms), self.context()))
            return out

        return call

    def makers(self):
        case = self.case
        if case.op == "corr":
            yield "NPP Filter", "NPP", self.filter
        else:
            for advanced in (False, True):
                name = f"NPP CrossCorrValid_NormLevel{'Advanced' if advanced else ''}"
                yield name, "NPP", lambda advanced=advanced: self.coefficients(advanced)


def judged(case, library, call, spots):
    """The largest error at the spots: of a correlation relative to the largest value there."""
    places, answers = spots
    error = np.abs(library.picked(call(0), places) - answers).max()
    if case.op == "corr":
        error /= np.abs(answers).max()
    if not error <= ALLOWED[case.op]:
        raise ValueError(f"the answer is off by {error:.1e}")
    return float(error)


def bench(spec, torch, cupy, npp, check):
    case = Case(spec)
    case.host_images = [case.made(case.images, case.image)]
    case.host_images += case.host_images * (0 if check else case.copies - 1)
    spots = case.spots(case.host_images[0])
    libraries = []
    gpu = torch is not None and torch.cuda.is_available()
    if torch is not None and (gpu or check):
        libraries.append(lambda: Torch(case, torch, "cuda" if gpu else "cpu"))
    if cupy is not None:
        libraries.append(lambda: Cupy(case, cupy))
    if npp is not None and Npp.serves(case):
        libraries.append(lambda: Npp(case, cupy, npp))
    for make_library in libraries:
        library = make_library()
        best = {}
        for name, kind, make in library.makers():
            try:
                call = make()
                error = judged(case, library, call, spots)
                line = {"spec": spec, "peer": name, "error": error}
                if not check:
                    times, calls, graph = library.timed(call)
                    line |= {"ns": statistics.median(times) * 1e6, "min_ns": min(times) * 1e6}
                    line |= {"calls": calls, "graph": graph, "copies": len(case.host_images)}
                if kind not in best or line.get("ns", 0) < best[kind].get("ns", 0):
                    best[kind] = line
            except Skipped as reason:
                tell(spec=spec, peer=name, skipped=str(reason))
            except Exception as error:  # one peer that fails keeps no other from being timed
                tell(spec=spec, peer=name, failed=f"{type(error).__name__}: {error}".splitlines()[0][:300])
            call = None
            freed(torch if gpu else None, cupy)
        # Of lengths of transforms the fastest counts.
        for line in best.values():
            tell(**line)
        del library
        freed(torch if gpu else None, cupy)


def freed(torch, cupy):
    if torch is not None:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    if cupy is not None:
        cupy.fft.config.get_plan_cache().clear()
        cupy.get_default_memory_pool().free_all_blocks()


def about(torch, cupy, npp):
    """The machine's line: versions, and what a copy on the device reaches."""
    line = {"python": sys.version.split()[0], "numpy": np.__version__}
    if cupy is not None:
        line |= {"cupy": cupy.__version__, "runtime": cupy.cuda.runtime.runtimeGetVersion()}
    if npp is not None:
        line["npp"] = npp.number()
    if torch is not None:
        line["torch"] = torch.__version__
        if torch.cuda.is_available():
            line |= {"gpu": torch.cuda.get_device_name(), "copy_gb_s": round(copied(torch), 1)}
    tell(about=line)


def copied(torch):
    """Bytes read and written by a copy of half a gigabyte, in billions a second."""
    source, target = (torch.zeros(1 << 27, device="cuda") for _ in range(2))
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(9):
        begin.record()
        target.copy_(source)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return 2 * source.nbytes / statistics.median(times) / 1e6


def working(cupy):
    """CuPy, if it has a GPU."""
    try:
        cupy.zeros(1).sum().item()
        return cupy
    except Exception as error:  # a driver or a library that is missing
        tell(missing="cupy", reason=f"{type(error).__name__}: {error}".splitlines()[0][:200])
        return None


def found(cupy):
    """NPP, whose images are arrays of CuPy."""
    try:
        if cupy is None:
            raise RuntimeError("it is asked with arrays of CuPy, which is missing")
        return NppLibraries()
    except Exception as error:
        tell(missing="npp", reason=f"{type(error).__name__}: {error}".splitlines()[0][:200])
        return None


def main():
    words = sys.argv[1:]
    check = "--check" in words
    specs = [word for word in words if word != "--check"]
    torch, cupy = optional("torch"), optional("cupy")
    if torch is not None:
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        if not torch.cuda.is_available() and not check:
            tell(missing="torch", reason="it has no GPU")
    if cupy is not None:
        cupy = working(cupy)
    npp = found(cupy)
    about(torch, cupy, npp)
    for spec in specs or map(str.strip, sys.stdin):
        try:
            bench(spec, torch, cupy, npp, check)
        except Exception as error:  # the next spec may be fine
            tell(spec=spec, peer="all", failed=f"{type(error).__name__}: {error}".splitlines()[0][:300])
        tell(done=spec)


np = optional("numpy")
if __name__ == "__main__":
    if np is None:
        sys.exit(1)
    main()
