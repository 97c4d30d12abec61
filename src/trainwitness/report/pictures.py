"""Examples in results as pictures that a page carries in itself."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainwitness.report.picture import Pixels, png

MAX_PIXELS = 1 << 16


def png_uri(picture: Pixels) -> str:
    """The picture [height, width, 1 or 3] as a data URI."""
    return "data:image/png;base64," + base64.b64encode(png(picture)).decode()


def picture_of(example: Mapping[str, Any]) -> Pixels | None:
    """The picture in an example of a result (`shape` and base64 `pixels`); None where it is none, or a wrong one."""
    shape = example.get("shape") or []
    try:
        pixels = base64.b64decode(example.get("pixels") or "", validate=True)
        channels, height, width = (1, *shape) if len(shape) == 2 else shape
        planes = np.frombuffer(pixels, np.uint8).reshape(channels, height, width)
    except (TypeError, ValueError, binascii.Error):
        return None
    return planes.transpose(1, 2, 0) if channels in (1, 3) and 0 < planes.size <= MAX_PIXELS else None
