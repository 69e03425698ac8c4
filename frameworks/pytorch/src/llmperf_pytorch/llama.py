"""LLaMA as Hugging Face transformers defines it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from transformers.modeling_utils import AttentionInterface
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaForCausalLM,
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
)

from llmperf_pytorch.attention import ATTENTION
from llmperf_pytorch.kernels.choice import Kernels
from llmperf_pytorch.kernels.cross_entropy import linear_cross_entropy
from llmperf_pytorch.losses import head_loss
from llmperf_pytorch.norms import rms_norm
from llmperf_pytorch.rotary import inverse_frequencies

if TYPE_CHECKING:
    from llmperf.types import Model

DEFAULT_THETA = 10000.0
REGISTERED = "llmperf"
"""The attention by a name of our own: with those that transformers knows, it looks for packed sequences at every
forward, and the host waits for the device."""


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


class SelfAttention(LlamaAttention):
    """transformers' projections around one of `ATTENTION`, with `Kernels.rotate`."""

    attention: str
    kernels: Kernels

    def forward(
        self, hidden_states: torch.Tensor, position_embeddings: tuple[torch.Tensor, torch.Tensor], **_: Any
    ) -> tuple[torch.Tensor, None]:
        """[batch, seq_len, width] to the same; cosines and sines are [1, seq_len, head width]."""
        shape = hidden_states.shape[:-1]
        projections = (self.q_proj, self.k_proj, self.v_proj)
        query, key, value = (
            project(hidden_states).view(*shape, -1, self.head_dim).transpose(1, 2) for project in projections
        )
        cosines, sines = (part.squeeze(0) for part in position_embeddings)
        query, key = (self.kernels.rotate(states, cosines, sines) for states in (query, key))
        attended = ATTENTION[self.attention](query, key, value, None)
        return self.o_proj(attended.transpose(1, 2).reshape(*shape, -1)), None


class FeedForward(LlamaMLP):
    """transformers' projections around `Kernels.swiglu`."""

    kernels: Kernels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, seq_len, width] to the same."""
        output: torch.Tensor = self.down_proj(self.kernels.swiglu(self.gate_proj(x), self.up_proj(x)))
        return output


class LossHead(torch.nn.Linear):
    """The output projection, with the loss in the same operation."""

    fuses_loss = True

    def forward(self, states: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Logits of states [batch, seq_len, width]; with labels [batch, seq_len] their mean cross entropy."""
        return super().forward(states) if labels is None else linear_cross_entropy(states, self.weight, labels)


class Llama(LlamaForCausalLM):
    """`LlamaForCausalLM` from facts, without its slow initialisation, with kernels of choice."""

    def __init__(self, facts: Model, attention: str, kernels: Kernels) -> None:
        with _no_initialisation():
            super().__init__(llama_config(facts))
        for module in self.modules():
            if type(module) is LlamaRMSNorm and "rms_norm" in kernels.fused:
                module.__class__ = FusedRmsNorm
            elif type(module) is LlamaAttention:
                module.__class__ = SelfAttention
                module.attention, module.kernels = attention, kernels
            elif type(module) is LlamaMLP:
                module.__class__ = FeedForward
                module.kernels = kernels
        if kernels.cross_entropy:
            self.lm_head.__class__ = LossHead
        self.model.rotary_emb.__class__ = ExactRotary
        self.model.rotary_emb.set_buffers()
        if facts.tied_embeddings:
            self.tie_weights()

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Logits [batch, seq_len, vocab_size] of ids [batch, seq_len]; with labels their mean cross entropy."""
        # by name, since tensor-parallel ranks may embed a part of the sequence only
        positions = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        decoded = self.model(input_ids=input_ids, position_ids=positions, use_cache=False)
        states: torch.Tensor = decoded.last_hidden_state
        return self.lm_head(states) if labels is None else head_loss(self.lm_head, states, labels)


def llama_config(facts: Model, attention: str = REGISTERED) -> LlamaConfig:
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
        attn_implementation=attention,
    )


def _unused(*_: Any, **__: Any) -> tuple[torch.Tensor, None]:
    raise AssertionError("SelfAttention computes")


AttentionInterface.register(REGISTERED, _unused)


def _no_initialisation() -> AbstractContextManager[None]:
    try:
        from transformers.initialization import no_init_weights
    except ImportError:  # transformers 4
        from transformers.modeling_utils import no_init_weights
    context: AbstractContextManager[None] = no_init_weights()
    return context
