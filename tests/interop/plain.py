"""Values as JSON has them, for what was sent and for what a parser made of it alike."""

import enum
import hashlib
from datetime import datetime

import numpy as np
from pydantic import BaseModel


def plain(value):
    """Of an array shape, type and a digest of its elements; a model is an object that says what it `is`."""
    if isinstance(value, BaseModel):
        return {"is": type(value).__name__} | plain(dict(value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        digest = hashlib.sha1(value.tobytes()).hexdigest()
        return {"shape": list(value.shape), "dtype": str(value.dtype), "sha1": digest}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, enum.Enum):
        return value.value
    return value.isoformat() if isinstance(value, datetime) else value
