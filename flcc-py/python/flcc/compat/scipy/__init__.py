"""SciPy's functions: :mod:`flcc.compat.scipy.signal` and :mod:`flcc.compat.scipy.ndimage`."""

from . import ndimage, signal

__all__ = ["ndimage", "signal"]
