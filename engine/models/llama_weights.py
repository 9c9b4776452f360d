"""Builds a Llama from a checkpoint, fusing the matrices that are always applied together."""

import torch

from engine.errors import ModelUnusable
from engine.models.linear import Linear
from engine.models.llama import Llama, LlamaLayer
from engine.models.llama_config import LlamaConfig, parse_llama_config
from engine.models.rope import cos_sin_table, inverse_frequencies
from engine.weights.checkpoint import Checkpoint


def load_llama(checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype) -> Llama:
    """Raises ModelUnusable if a weight is missing or of another shape than the config says."""
    config = parse_llama_config(checkpoint.config)
    loader = _Loader(checkpoint, device=device, dtype=dtype)
    outer = (config.vocab_size, config.hidden_size)
    embedding = loader.load("model.embed_tokens", *outer)
    return Llama(
        config,
        [_layer(loader, config, f"model.layers.{i}") for i in range(config.num_layers)],
        embedding=embedding,
        final_norm=loader.load("model.norm", config.hidden_size),
        head=Linear(embedding if config.tied_head else loader.load("lm_head", *outer)),
        cos_sin=_cos_sin(checkpoint, config).to(device),
    )


class _Loader:
    """Reads weights one at a time, checked, straight to their device and type."""

    def __init__(self, checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype) -> None:
        self._checkpoint = checkpoint
        self._device = device
        self._dtype = dtype

    def load(self, name: str, *shape: int) -> torch.Tensor:
        full_name = f"{name}.weight"
        if full_name not in self._checkpoint.names:
            raise ModelUnusable(f"{self._checkpoint.source} has no weight {full_name}")
        weight = self._checkpoint.tensor(full_name)
        if tuple(weight.shape) != shape:
            raise ModelUnusable(
                f"{self._checkpoint.source}: {full_name} is {tuple(weight.shape)}, "
                f"but the config says {shape}"
            )
        return weight.to(self._device, self._dtype)

    def linear(self, parts: dict[str, int], columns: int) -> Linear:
        """Stack the rows of matrices that read the same input.  parts: name to number of rows."""
        return Linear(torch.cat([self.load(name, rows, columns) for name, rows in parts.items()]))


def _layer(loader: _Loader, config: LlamaConfig, prefix: str) -> LlamaLayer:
    hidden = config.hidden_size
    attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
    return LlamaLayer(
        input_norm=loader.load(f"{prefix}.input_layernorm", hidden),
        qkv=loader.linear(
            {
                f"{attention}.q_proj": config.q_size,
                f"{attention}.k_proj": config.kv_size,
                f"{attention}.v_proj": config.kv_size,
            },
            hidden,
        ),
        output=loader.linear({f"{attention}.o_proj": hidden}, config.q_size),
        post_attention_norm=loader.load(f"{prefix}.post_attention_layernorm", hidden),
        gate_up=loader.linear(
            {
                f"{mlp}.gate_proj": config.intermediate_size,
                f"{mlp}.up_proj": config.intermediate_size,
            },
            hidden,
        ),
        down=loader.linear({f"{mlp}.down_proj": hidden}, config.intermediate_size),
    )


def _cos_sin(checkpoint: Checkpoint, config: LlamaConfig) -> torch.Tensor:
    frequencies = inverse_frequencies(config.rope, config.head_dim)
    if "rope_freqs.weight" in checkpoint.names:
        # A GGUF brings the result of Llama 3's scaling instead of its parameters.
        frequencies = frequencies / checkpoint.tensor("rope_freqs.weight")
    return cos_sin_table(frequencies, config.max_position_embeddings)
