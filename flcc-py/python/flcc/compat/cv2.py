"""``cv2.matchTemplate``.

How results differ from OpenCV's:

- TM_CCOEFF_NORMED of a constant template raises ``ValueError``, where OpenCV gives 1 everywhere; the same holds for a
  template of zeros and the other normalised measures.
- A flat place is 0 (TM_SQDIFF_NORMED of zeros: 1), where OpenCV gives up to 1 in images of floats, and NaN with a mask.
- A place that touches NaN is NaN, where OpenCV gives numbers.
- TM_SQDIFF_NORMED is at most 1 also with a mask.
- TM_CCOEFF_NORMED with a mask of other weights than one raises ``ValueError``: OpenCV takes the weights for the means
  and their squares for the sums.
- ``result`` gets its values and is returned; OpenCV makes another array where it does not fit, this raises.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _flcc
from ._sums import Array, numbers

__all__ = [
    "TM_CCOEFF",
    "TM_CCOEFF_NORMED",
    "TM_CCORR",
    "TM_CCORR_NORMED",
    "TM_SQDIFF",
    "TM_SQDIFF_NORMED",
    "matchTemplate",
]

TM_SQDIFF, TM_SQDIFF_NORMED, TM_CCORR, TM_CCORR_NORMED, TM_CCOEFF, TM_CCOEFF_NORMED = range(6)

_MEASURES = {
    TM_SQDIFF: "ssd",
    TM_SQDIFF_NORMED: "nssd",
    TM_CCORR: "cc",
    TM_CCORR_NORMED: "ncc",
    TM_CCOEFF: "cc",
    TM_CCOEFF_NORMED: "zncc",
}


def matchTemplate(image: Any, templ: Any, method: int, result: Array | None = None, mask: Any = None) -> Array:
    """``cv2.matchTemplate``.

    Examples
    --------
    >>> import flcc, numpy as np
    >>> image = np.array([[0, 9, 1, 0], [2, 4, 7, 3], [1, 0, 5, 8]], np.uint8)
    >>> flcc.compat.cv2.matchTemplate(image, image[1:, 1:3], flcc.compat.cv2.TM_SQDIFF)
    array([[ 25.,  81., 111.],
           [ 39.,   0.,  59.]], dtype=float32)
    >>> flcc.compat.cv2.matchTemplate(image, image[1:, 1:3], flcc.compat.cv2.TM_CCOEFF_NORMED).round(2)
    array([[ 0.67, -0.19, -0.91],
           [ 0.53,  1.  , -0.15]], dtype=float32)
    """
    image, templ = numbers("image", image), numbers("templ", templ)
    for name, array in (("image", image), ("templ", templ)):
        if array.dtype not in (np.uint8, np.float32) or array.ndim not in (2, 3):
            got = f"{array.dtype} with {array.ndim} axes"
            raise ValueError(f"{name}: expected uint8 or float32 of 2 axes, or 3 with channels, got {got}")
    if image.dtype != templ.dtype or image.ndim != templ.ndim or image.shape[2:] != templ.shape[2:]:
        raise ValueError("templ: expected the type and the channels of the image, got others")
    if method not in _MEASURES:
        raise ValueError(f"method: expected TM_SQDIFF to TM_CCOEFF_NORMED (0 to 5), got {method}")
    smaller = image.shape[0] <= templ.shape[0] and image.shape[1] <= templ.shape[1]
    # The other way round, too, as there, but for masks.
    if mask is None and smaller and image.shape[:2] != templ.shape[:2]:
        image, templ = templ, image
    axis = None if image.ndim == 2 else -1
    weights = _weights(mask, templ, method)
    template: Array = templ
    if method == TM_CCOEFF:
        # sum w (P - mean P)(t - mean t) = sum P w (t - mean t)
        w = np.ones(templ.shape[:2]) if weights is None else weights
        w = w if axis is None else w[..., np.newaxis]
        mean = (templ * w).sum(axis=(0, 1)) / (w.sum(axis=(0, 1)))
        template, weights = w * (templ - mean), None
    measure: Any = _MEASURES[method]
    scores = _flcc.match_template(
        image, template, measure=measure, mask=weights, channel_axis=axis, dtype=np.float32
    )
    if result is None:
        return scores
    if not isinstance(result, np.ndarray) or result.shape != scores.shape or result.dtype != np.float32:
        got = f"{result.dtype} of {result.shape}" if isinstance(result, np.ndarray) else type(result).__name__
        raise ValueError(f"result: expected float32 of {scores.shape}, got {got}")
    result[...] = scores
    return result


def _weights(mask: Any, templ: Array, method: int) -> Array | None:
    """The mask as weights of the sums."""
    if mask is None:
        return None
    mask = numbers("mask", mask)
    if mask.ndim == 3:
        if (mask != mask[..., :1]).any():
            raise ValueError("mask: expected the same weights in every channel, got others")
        mask = mask[..., 0]
    if mask.shape != templ.shape[:2]:
        raise ValueError(f"mask: expected the shape of the template, {templ.shape[:2]}, got {mask.shape}")
    if not (mask != 0).any():
        raise ValueError("mask: expected at least one weight that is not 0, got none")
    if mask.dtype == np.uint8:
        binary: Array = (mask != 0).astype(np.float32)
        return binary
    values = np.unique(mask)
    if method in (TM_CCOEFF, TM_CCOEFF_NORMED) and not np.isin(values, (0, values[-1])).all():
        raise ValueError("mask: expected one weight and 0 for TM_CCOEFF and TM_CCOEFF_NORMED, got several")
    squared: Array = mask.astype(np.float64) ** 2
    return squared
