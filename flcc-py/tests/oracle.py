"""What results must be, by the formulas of the conventions and nothing else: slow, in long double."""

import numpy as np

WIDE = np.longdouble


def fold(i, n, boundary):
    """The source index of index i of an axis of n samples; -1 where a value stands instead."""
    if 0 <= i < n:
        return i
    if boundary in ("zero", "constant"):
        return -1
    if boundary == "replicate":
        return min(max(i, 0), n - 1)
    if boundary == "reflect":
        j = i % (2 * n)
        return min(j, 2 * n - 1 - j)
    if boundary == "mirror":
        j = i % (2 * n - 2) if n > 1 else 0
        return min(j, 2 * n - 2 - j) if n > 1 else 0
    assert boundary == "wrap"
    return i % n


def extended(image, template_shape, boundary, cval):
    """The image with T - 1 samples more at each end of every axis."""
    value = cval if boundary == "constant" else 0
    for axis, (n, t) in enumerate(zip(image.shape, template_shape)):
        source = np.array([fold(i, n, boundary) for i in range(1 - t, n + t - 1)])
        taken = np.take(image, np.maximum(source, 0), axis=axis)
        outside = (source < 0).reshape([-1 if a == axis else 1 for a in range(image.ndim)])
        image = np.where(outside, WIDE(value), taken)
    return image


def region(image_shape, template_shape, mode):
    """The slices of the full result that a mode asks for."""
    if mode == "full":
        return tuple(slice(None) for _ in image_shape)
    if mode == "same":
        return tuple(slice((t - 1) // 2, (t - 1) // 2 + n) for n, t in zip(image_shape, template_shape))
    return tuple(slice(t - 1, n) for n, t in zip(image_shape, template_shape))


def result(image, template, op, mode="valid", boundary="zero", cval=0.0, mask=None):
    """The result of conv, corr or a measure; images and templates without channels."""
    image, template = np.asarray(image).astype(WIDE), np.asarray(template).astype(WIDE)
    if op == "conv":
        template = np.flip(template)
    w = np.ones(template.shape, WIDE) if mask is None else np.asarray(mask).astype(WIDE)
    axes = tuple(range(-template.ndim, 0))
    panels = np.lib.stride_tricks.sliding_window_view(
        extended(image, template.shape, boundary, cval), template.shape
    )[region(image.shape, template.shape, mode)]

    def total(values):
        # What has no weight does not count, whatever it is.
        return np.where(w > 0, values * w, 0).sum(axis=axes)

    with np.errstate(all="ignore"):
        if op in ("conv", "corr", "cc"):
            return total(panels * template)
        if op == "ssd":
            return total((panels - template) ** 2)
        if op == "sad":
            return total(abs(panels - template))
        if op in ("zncc", "lcc"):
            first = panels[(...,) + tuple(np.argwhere(w > 0)[0])][(...,) + (None,) * template.ndim]
            constant = (np.where(w > 0, panels, first) == first).all(axis=axes)
            panels = panels - (total(panels) / w.sum())[(...,) + (None,) * template.ndim]
            template = template - (template * w).sum() / w.sum()
            score = total(panels * template) / np.sqrt(total(panels**2) * (w * template**2).sum())
            return np.where(constant, 0, np.clip(score, -1, 1))
        root = np.sqrt(total(panels**2) * (w * template**2).sum())
        if op == "ncc":
            return np.where(root == 0, 0, np.clip(total(panels * template) / root, -1, 1))
        assert op == "nssd"
        return np.where(root == 0, 1, np.minimum(1, total((panels - template) ** 2) / root))


def tolerance(image, template, op, dtype, mask=None):
    """How far from the oracle a result may be; sums by their condition, normalised scores as promised."""
    if op in ("zncc", "lcc", "ncc", "nssd"):
        return 1e-5 if dtype == np.float32 else 1e-11
    u = 2.0**-24 if dtype == np.float32 else 2.0**-53
    image, template = np.asarray(image, float), np.asarray(template, float)
    n = template.size
    largest, norm = np.sqrt(n) * abs(image[np.isfinite(image)]).max(initial=0), np.sqrt((template**2).sum())
    scale = {"ssd": (largest + norm) ** 2, "sad": np.sqrt(n) * (largest + norm)}.get(op, largest * norm)
    return (16 + np.sqrt(n)) * u * scale * max(1.0, 1.0 if mask is None else float(np.max(mask)))
