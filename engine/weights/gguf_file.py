"""The `gguf` library, imported only where a GGUF is really opened."""

from pathlib import Path
from typing import Any

from engine.errors import ModelUnusable


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

    def num_rows(self, name: str) -> int:
        return int(self._tensors[name].data.shape[0])

    def quantization(self, name: str) -> str:
        return str(self._tensors[name].tensor_type.name)

    def array(self, name: str) -> Any:
        """The tensor as an fp32 numpy array, rows first."""
        tensor = self._tensors[name]
        return self._dequantize(tensor.data, tensor.tensor_type)
