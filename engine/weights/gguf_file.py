"""The `gguf` library, imported only where a GGUF is really opened."""

from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import ModelUnusable

_ROWS_AT_ONCE = 4096


class GgufFile:
    """Metadata and raw tensors of one file.  Raises ModelUnusable if it cannot be read."""

    def __init__(self, path: Path) -> None:
        try:
            import gguf
        except ImportError as error:
            raise ModelUnusable(f"{path} needs the package gguf: pip install gguf") from error
        try:
            reader = gguf.GGUFReader(path)
        except (ValueError, IndexError, KeyError, OSError) as error:
            raise ModelUnusable(f"{path} is truncated or not a GGUF file ({error})") from error
        self.path = path
        self._dequantize = gguf.quants.dequantize
        self._fields = reader.fields
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self._fields)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._tensors)

    def get(self, key: str, default: Any = None) -> Any:
        field = self._fields.get(key)
        return default if field is None else field.contents()

    def require(self, key: str) -> Any:
        if key not in self._fields:
            raise ModelUnusable(f"{self.path} has no {key}")
        return self._fields[key].contents()

    def forget(self, prefix: str) -> None:
        """Give back the memory of the keys that begin so.  They are gone for good."""
        for key in [key for key in self._fields if key.startswith(prefix)]:
            del self._fields[key]

    def num_rows(self, name: str) -> int:
        return int(self._tensors[name].data.shape[0])

    def quantization(self, name: str) -> str:
        return str(self._tensors[name].tensor_type.name)

    def array(self, name: str) -> Any:
        """The tensor as an fp32 numpy array, rows first."""
        tensor = self._tensors[name]
        data, kind = tensor.data, tensor.tensor_type
        if len(data) <= _ROWS_AT_ONCE:
            return self._dequantize(data, kind)
        # By parts: on its way from one type to the other a matrix is in memory three times.
        parts = range(0, len(data), _ROWS_AT_ONCE)
        first = self._dequantize(data[:_ROWS_AT_ONCE], kind)
        whole = np.empty((len(data), *first.shape[1:]), dtype=np.float32)
        for start in parts:
            stop = start + _ROWS_AT_ONCE
            whole[start:stop] = self._dequantize(data[start:stop], kind)
        return whole
