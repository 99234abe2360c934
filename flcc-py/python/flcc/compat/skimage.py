"""``skimage.feature.match_template``.

How results differ from scikit-image's:

- Coefficients are exact to 1e-5 (float32) or 1e-11 (float64), where scikit-image gives values of 1000 for images of a
  large mean, and 0 for all amplitudes of 1e-8 and below.
- A flat place of the image is 0, where scikit-image gives noise of up to 0.015.
- A constant template raises ``ValueError``, where scikit-image gives zeros.
- Images may have one axis.
- Of numpy's ways to pad, ``constant``, ``edge``, ``reflect``, ``symmetric`` and ``wrap`` are taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _flcc
from ._sums import Array, numbers

__all__ = ["match_template"]

_MODES = {
    "constant": "constant",
    "edge": "replicate",
    "reflect": "numpy:reflect",
    "symmetric": "numpy:symmetric",
    "wrap": "wrap",
}


def match_template(
    image: Any, template: Any, pad_input: bool = False, mode: str = "constant", constant_values: float = 0
) -> Array:
    """``skimage.feature.match_template``.

    Examples
    --------
    >>> import flcc, numpy as np
    >>> image = np.array([[0, 9, 1, 0], [2, 4, 7, 3], [1, 0, 5, 8]], np.uint8)
    >>> flcc.compat.skimage.match_template(image, image[1:, 1:3]).round(2)
    array([[ 0.67, -0.19, -0.91],
           [ 0.53,  1.  , -0.15]])
    >>> flcc.compat.skimage.match_template(image, image[1:, 1:3], pad_input=True).shape
    (3, 4)
    """
    image, template = numbers("image", image), numbers("template", template)
    for name, array in (("image", image), ("template", template)):
        if array.dtype.kind == "c":
            raise ValueError(f"{name}: expected real numbers, got {array.dtype}")
    if mode not in _MODES:
        raise ValueError(f"mode: expected {', '.join(_MODES)}, got {mode}")
    # Both in the type of the image, as there.
    dtype = np.float32 if image.dtype in (np.float32, np.float16) else np.float64
    image, template = image.astype(dtype, copy=False), template.astype(dtype, copy=False)
    if any(n < t for n, t in zip(image.shape, template.shape)):
        raise ValueError(f"Image must be larger than template, got {image.shape} and {template.shape}")
    if pad_input:
        value = float(constant_values) if mode == "constant" else 0.0
        return _flcc.match_template(image, template, mode="same", boundary=_MODES[mode], cval=value)
    return _flcc.match_template(image, template)
