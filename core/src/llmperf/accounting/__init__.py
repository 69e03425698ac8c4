"""Arithmetic of models: parameters, FLOPs, precisions, layouts and batches. The names below are for plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.lazy import lazily

if TYPE_CHECKING:
    from llmperf.accounting.counting import Convention as Convention
    from llmperf.accounting.counting import flops_by as flops_by
    from llmperf.accounting.counting import forward_flops as forward_flops
    from llmperf.accounting.counting import known_conventions as known_conventions
    from llmperf.accounting.flops import flops_of as flops_of
    from llmperf.accounting.flops import utilisation as utilisation
    from llmperf.accounting.parameters import attention_parameters as attention_parameters
    from llmperf.accounting.parameters import attention_shapes as attention_shapes
    from llmperf.accounting.parameters import count_parameters as count_parameters
    from llmperf.accounting.parameters import lora_parameters as lora_parameters
    from llmperf.accounting.parameters import mixture_layers as mixture_layers
    from llmperf.accounting.parameters import shared_width as shared_width
    from llmperf.accounting.parameters import stage_experts as stage_experts
    from llmperf.accounting.parameters import stage_parameters as stage_parameters
    from llmperf.accounting.precisions import precision_recipe as precision_recipe
    from llmperf.accounting.precisions import products_dtype as products_dtype
    from llmperf.accounting.precisions import weighted_peak as weighted_peak
    from llmperf.accounting.precisions import weighted_peaks as weighted_peaks
    from llmperf.accounting.precisions import work_shares as work_shares
    from llmperf.accounting.rank_layout import DEGREES as DEGREES
    from llmperf.accounting.rank_layout import layout_text as layout_text
    from llmperf.accounting.rank_layout import sharding_degree_of as sharding_degree_of
    from llmperf.accounting.routing import MOST_EXPERTS as MOST_EXPERTS
    from llmperf.accounting.routing import MOST_SKEW as MOST_SKEW

__all__, __getattr__ = lazily(globals())
