"""The machine, the instruction sets that may be used, and where libraries lie. Imports no peer: it sets what they
read when they load."""

import ctypes
import os
import platform
import sys
import time
from concurrent.futures import ThreadPoolExecutor

# Each is read once, when its library is loaded.
AVX2 = {
    "OPENCV_CPU_DISABLE": "AVX512-SKX",
    "OPENCV_IPP": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "DNNL_MAX_CPU_ISA": "AVX2",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
}
NO_SWITCH = ("FFTW", "scipy", "scikit-image", "ducc0", "SimpleITK", "Rust programs")

FOLDERS = [os.path.join(sys.prefix, "lib")]


def restrict(isa):
    """Keeps peers from AVX-512 where they have a switch, IPP's being a call, in ipp.py; tells which have none."""
    if isa != "avx2":
        return []
    os.environ.update(AVX2)
    return list(NO_SWITCH)


def prepare(folders):
    """Names more folders of libraries and spares peers that allocate their results the page faults of fresh memory."""
    FOLDERS.extend(folder for folder in folders if folder)
    # Threads of OpenMP that wait for work would take a core from the next peer: they sleep after so many milliseconds.
    os.environ["KMP_BLOCKTIME"] = "20"
    trim_threshold, top_pad, most_maps = -1, -2, -4
    libc = ctypes.CDLL(None)
    for option, value in ((most_maps, 0), (trim_threshold, 2**31 - 1), (top_pad, 1 << 26)):
        libc.mallopt(option, value)


def library(name):
    """A shared library of the first folder that has it."""
    paths = [os.path.join(folder, name) for folder in FOLDERS]
    path = next((path for path in paths if os.path.exists(path)), None)
    if path is None:
        raise ImportError(f"{name} is in none of {', '.join(FOLDERS)}")
    return ctypes.CDLL(path, ctypes.RTLD_GLOBAL)


def machine():
    """The processor as Linux tells it, and the ceiling of memory: GB read and written a second."""
    lines = {}
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            key, _, value = line.partition(":")
            lines.setdefault(key.strip(), value.strip())
    wanted = ("avx", "fma", "amx", "f16c")
    flags = [flag for flag in lines.get("flags", "").split() if flag.startswith(wanted)]
    copies = {threads: copy_rate(threads) for threads in (1, 2)}
    return {
        "cpu": lines.get("model name", platform.machine()),
        "cores": os.cpu_count(),
        "flags": " ".join(flags),
        "copy_16mb_gb_s": copies,
    }


def copy_rate(threads):
    """A 16 MB copy by numpy, the best of 20, counted both ways."""
    import numpy as np

    source, target = np.ones(4_000_000, np.float32), np.zeros(4_000_000, np.float32)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads)))
    times = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(20):
            began = time.perf_counter()
            list(pool.map(lambda part: np.copyto(*part), parts))
            times.append(time.perf_counter() - began)
    return round(2 * source.nbytes / min(times) / 1e9, 1)
