"""FLCC finds templates in images, volumes and signals."""

from . import compat
from ._flcc import (
    Matcher,
    Plan,
    Queue,
    Stream,
    convolve,
    correlate,
    correlation_lags,
    export_wisdom,
    find,
    find_posed,
    fine_angle,
    forget_wisdom,
    import_wisdom,
    match_template,
    peaks,
    plan,
)
from ._flcc import __version__ as __version__
from ._matlab import normxcorr2

__all__ = [
    "compat",
    "Matcher",
    "Plan",
    "Queue",
    "Stream",
    "convolve",
    "correlate",
    "correlation_lags",
    "export_wisdom",
    "find",
    "find_posed",
    "fine_angle",
    "forget_wisdom",
    "import_wisdom",
    "match_template",
    "normxcorr2",
    "peaks",
    "plan",
]
