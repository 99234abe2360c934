"""The functions of other packages by their signatures and index conventions, computed by flcc.

Each module says how results differ from the original's.
"""

from . import cv2, scipy, skimage

__all__ = ["cv2", "scipy", "skimage"]
