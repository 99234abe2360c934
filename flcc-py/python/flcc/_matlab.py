"""MATLAB's function, by its order of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._flcc import match_template

__all__ = ["normxcorr2"]


def normxcorr2(template: ArrayLike, image: ArrayLike) -> NDArray[Any]:
    """The coefficients of a template at every place where it touches the image, as ``normxcorr2(template, A)``.

    The template comes first. Outside of the image lie zeros. A constant template raises ``ValueError``, as there, and
    so does one that is larger than the image: the arguments may have changed places.

    Examples
    --------
    >>> import flcc, numpy as np
    >>> image = np.random.default_rng(1).random((30, 40))
    >>> scores = flcc.normxcorr2(image[5:9, 7:12], image)
    >>> scores.shape, [int(at) for at in np.unravel_index(scores.argmax(), scores.shape)]
    ((33, 44), [8, 11])
    """
    shapes = np.shape(template), np.shape(image)
    if len(shapes[0]) == len(shapes[1]) and any(t > n for t, n in zip(*shapes)):
        raise ValueError(f"template: expected one that is no larger than the image, {shapes[1]}, got {shapes[0]}")
    return match_template(image, template, mode="full", dtype=np.float64)
