"""LLaMA as Hugging Face transformers defines it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from transformers.modeling_utils import AttentionInterface
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM, LlamaRMSNorm, LlamaRotaryEmbedding

from llmperf_pytorch.attention import ATTENTION, Attention
from llmperf_pytorch.norms import rms_norm
from llmperf_pytorch.rotary import inverse_frequencies

if TYPE_CHECKING:
    from llmperf.types import Model

DEFAULT_THETA = 10000.0
REGISTERED = {name: f"llmperf_{index}" for index, name in enumerate(ATTENTION)}
"""Names of our own, without `flash` or `flex`: transformers fetches a kernel or compiles for those."""


class FusedRmsNorm(LlamaRMSNorm):
    """transformers' norm by `rms_norm`."""

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Any shape [..., width] to the same."""
        return rms_norm(hidden_states, self.weight, self.variance_epsilon)


class ExactRotary(LlamaRotaryEmbedding):
    """transformers' rotary positions with the frequencies of `inverse_frequencies`."""

    def set_buffers(self) -> None:
        """The frequencies anew, in float32: `deepspeed.zero.Init` has rounded them if it is at work."""
        config = self.config
        theta = config.rope_parameters["rope_theta"] if hasattr(config, "rope_parameters") else config.rope_theta
        for name in ("inv_freq", "original_inv_freq"):
            exact = inverse_frequencies(config.hidden_size // config.num_attention_heads, theta)
            setattr(self, name, exact)


class Llama(LlamaForCausalLM):
    """`LlamaForCausalLM` from facts, without its slow initialisation, with fused norms, giving logits alone."""

    def __init__(self, facts: Model, attention: str) -> None:
        with _no_initialisation():
            super().__init__(llama_config(facts, attention))
        for module in self.modules():
            if type(module) is LlamaRMSNorm:
                module.__class__ = FusedRmsNorm
        self.model.rotary_emb.__class__ = ExactRotary
        self.model.rotary_emb.set_buffers()
        if facts.tied_embeddings:
            self.tie_weights()

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Logits [batch, seq_len, vocab_size] of ids [batch, seq_len]."""
        # by name, since tensor-parallel ranks may embed a part of the sequence only
        positions = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        logits: torch.Tensor = super().forward(input_ids=input_ids, position_ids=positions, use_cache=False).logits
        return logits


def llama_config(facts: Model, attention: str) -> LlamaConfig:
    """The transformers configuration of a model's facts."""
    return LlamaConfig(
        vocab_size=facts.vocab_size,
        hidden_size=facts.hidden_size,
        intermediate_size=facts.intermediate_size,
        num_hidden_layers=facts.layers,
        num_attention_heads=facts.attention_heads,
        num_key_value_heads=facts.kv_heads,
        max_position_embeddings=facts.max_positions,
        rms_norm_eps=facts.norm_eps,
        rope_theta=facts.rope_theta or DEFAULT_THETA,
        tie_word_embeddings=facts.tied_embeddings,
        initializer_range=facts.initializer_std,
        attention_dropout=0.0,
        use_cache=False,
        attn_implementation=REGISTERED[attention],
    )


def _register(name: str, attend: Attention) -> None:
    """Make an attention known to transformers under a name of our own.

    Under its own names transformers looks for packed sequences at every forward, and the host waits for the device.
    """

    def forward(
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **settings: Any,
    ) -> tuple[torch.Tensor, None]:
        return attend(query, key, value, None).transpose(1, 2).contiguous(), None

    AttentionInterface.register(name, forward)


for _way, _name in REGISTERED.items():
    _register(_name, ATTENTION[_way])


def _no_initialisation() -> AbstractContextManager[None]:
    try:
        from transformers.initialization import no_init_weights
    except ImportError:  # transformers 4
        from transformers.modeling_utils import no_init_weights
    context: AbstractContextManager[None] = no_init_weights()
    return context
