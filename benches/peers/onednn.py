"""oneDNN's convolution (a correlation in our words) of one channel, by ctypes to its C interface, version 3."""

import ctypes
from ctypes import byref, c_int, c_int64, c_void_p

import numpy as np

from environment import library

CPU, IN_ORDER, FLOAT, ANY_LAYOUT = 1, 1, 3, 1
FORWARD_INFERENCE, DIRECT = 96, 1
SOURCE, TARGET, WEIGHTS = 1, 17, 33
QUERY_NAME, QUERY_SOURCE, QUERY_WEIGHTS, QUERY_TARGET = 8, 129, 131, 133
ALLOCATE = c_void_p(-1)


class Argument(ctypes.Structure):
    _fields_ = [("index", c_int), ("memory", c_void_p)]


def ok(status):
    if status != 0:
        raise RuntimeError(f"oneDNN status {status}")


def sizes(values):
    """What its interface calls dims: always twelve."""
    return (c_int64 * 12)(*values)


class OneDnn:
    """The library with an engine and a stream."""

    def __init__(self):
        self.dnnl = library("libdnnl.so.3")
        # Its threads are those of GCC's OpenMP; where MKL's was loaded first, that answers to the same names.
        self.openmp = ctypes.CDLL("libgomp.so.1")
        self.dnnl.dnnl_version.restype = ctypes.POINTER(c_int * 3)
        self.version = ".".join(map(str, self.dnnl.dnnl_version().contents))
        self.engine = self.made("engine_create", c_int(CPU), ctypes.c_size_t(0))
        self.stream = self.made("stream_create", self.engine, c_int(IN_ORDER))

    def name(self, description):
        """Of an implementation."""
        text = ctypes.c_char_p()
        ok(self.dnnl.dnnl_primitive_desc_query(description, c_int(QUERY_NAME), c_int(0), byref(text)))
        return text.value.decode()

    def made(self, name, *arguments):
        handle = c_void_p()
        ok(getattr(self.dnnl, "dnnl_" + name)(byref(handle), *arguments))
        return handle

    def correlate(self, image, template, threads):
        """Its first choice in the layout of the arrays, or else in a layout of its own with the copies that takes."""
        self.openmp.omp_set_num_threads(c_int(threads))
        for own_layout in (False, True):
            made = Convolution.of(self, image, template, own_layout)
            if made is not None:
                return made.run
        raise RuntimeError("oneDNN has only its reference for this")


class Convolution:
    """One implementation with its memory, freed with it."""

    def __init__(self, onednn, description, plain, arrays):
        self.onednn, self.owned = onednn, []
        self.arrays, self.before, self.after = arrays, [], []
        self.arguments = (Argument * 3)()
        queries = (QUERY_SOURCE, QUERY_WEIGHTS, QUERY_TARGET)
        dnnl = onednn.dnnl
        dnnl.dnnl_primitive_desc_query_md.restype = c_void_p
        for slot, (index, query, layout, array) in enumerate(zip((SOURCE, WEIGHTS, TARGET), queries, plain, arrays)):
            wanted = c_void_p(dnnl.dnnl_primitive_desc_query_md(description, c_int(query), c_int(0)))
            here = self.memory(layout, c_void_p(array.ctypes.data))
            used = here
            if not dnnl.dnnl_memory_desc_equal(layout, wanted):
                used = self.memory(wanted, ALLOCATE)
                ends = (used, wanted, here, layout) if index == TARGET else (here, layout, used, wanted)
                copy = self.reorder(*ends)
                if index == WEIGHTS:
                    self.execute(*copy)
                else:
                    (self.after if index == TARGET else self.before).append(copy)
            self.arguments[slot] = Argument(index, used)
        self.primitive = self.own("primitive", onednn.made("primitive_create", description))
        self.wait()

    @classmethod
    def of(cls, onednn, image, template, own_layout):
        """The one that the library puts first; none where that is its slow reference."""
        made, dnnl = onednn.made, onednn.dnnl
        out = np.empty([whole - part + 1 for whole, part in zip(image.shape, template.shape)], np.float32)
        arrays, count = (image, template, out), image.ndim
        plain, asked, temporary = [], [], []
        for array in arrays:
            shape, steps = (1, 1, *array.shape), [stride // array.itemsize for stride in array.strides]
            steps = (array.size, array.size, *steps)
            plain.append(
                made("memory_desc_create_with_strides", c_int(count + 2), sizes(shape), c_int(FLOAT), sizes(steps))
            )
            free = made("memory_desc_create_with_tag", c_int(count + 2), sizes(shape), c_int(FLOAT), c_int(ANY_LAYOUT))
            temporary.append(free)
            asked.append(free if own_layout or array is template else plain[-1])
        description = c_void_p()
        ones, zeros = sizes([1] * count), sizes([])
        create = dnnl.dnnl_convolution_forward_primitive_desc_create
        kinds = c_int(FORWARD_INFERENCE), c_int(DIRECT)
        try:
            layouts = *asked[:2], None, asked[2]
            status = create(byref(description), onednn.engine, *kinds, *layouts, ones, zeros, zeros, zeros, None)
            fast = status == 0 and not onednn.name(description).startswith("ref")
            return cls(onednn, description, plain, arrays) if fast else None
        finally:
            if description:
                dnnl.dnnl_primitive_desc_destroy(description)
            for layout in plain + temporary:
                dnnl.dnnl_memory_desc_destroy(layout)

    def own(self, kind, handle):
        self.owned.append((kind, handle))
        return handle

    def memory(self, layout, place):
        return self.own("memory", self.onednn.made("memory_create", layout, self.onednn.engine, place))

    def reorder(self, source, source_layout, target, target_layout):
        """A copy between layouts: the primitive with its arguments."""
        engine = self.onednn.engine
        description = self.onednn.made(
            "reorder_primitive_desc_create", source_layout, engine, target_layout, engine, None
        )
        primitive = self.own("primitive", self.onednn.made("primitive_create", description))
        self.onednn.dnnl.dnnl_primitive_desc_destroy(description)
        return primitive, (Argument * 2)(Argument(SOURCE, source), Argument(TARGET, target))

    def execute(self, primitive, arguments):
        ok(self.onednn.dnnl.dnnl_primitive_execute(primitive, self.onednn.stream, c_int(len(arguments)), arguments))

    def wait(self):
        ok(self.onednn.dnnl.dnnl_stream_wait(self.onednn.stream))

    def run(self):
        for step in (*self.before, (self.primitive, self.arguments), *self.after):
            self.execute(*step)
        self.wait()
        return self.arrays[2]

    def __del__(self):
        for kind, handle in reversed(self.owned):
            getattr(self.onednn.dnnl, f"dnnl_{kind}_destroy")(handle)
