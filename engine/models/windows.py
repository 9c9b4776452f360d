"""Which layers see only a window, and how far."""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import ModelUnusable

SLIDING, FULL = "sliding_attention", "full_attention"


def layer_kinds(config: Mapping[str, Any], default: Sequence[str]) -> Sequence[str]:
    """What each layer is called, SLIDING or FULL; `default` for a config that does not say.

    Raises ModelUnusable for any other name, or a list of another length.
    """
    kinds = config.get("layer_types") or default
    unknown = sorted(set(kinds) - {SLIDING, FULL})
    if unknown:
        raise ModelUnusable(f"layer_types {unknown[0]!r} is none of {SLIDING}, {FULL}")
    if len(kinds) != len(default):
        raise ModelUnusable(f"config.json has {len(kinds)} layer_types for {len(default)} layers")
    return kinds


def widest(windows: Sequence[int | None]) -> int | None:
    """What all layers together see; None if one of them sees everything."""
    seen = [window for window in windows if window is not None]
    return max(seen) if len(seen) == len(windows) else None


def optional_windows(config: Mapping[str, Any], num_layers: int) -> list[int | None]:
    """As Qwen says it: `use_sliding_window`, and then from layer `max_window_layers` on."""
    window = config.get("sliding_window") if config.get("use_sliding_window") else None
    first = config.get("max_window_layers", num_layers)
    kinds = layer_kinds(config, [SLIDING if i >= first else FULL for i in range(num_layers)])
    return [window if kind == SLIDING else None for kind in kinds]
