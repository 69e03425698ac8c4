"""The losses that a plan's weights, tokens and optimiser give: a small Llama in NumPy, in double precision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from llmperf import architecture_problems, initial_normal, is_norm, learning_rate, open_batches
from llmperf.types import Model, Optimizer, Plan, RunSpec
from numpy.typing import NDArray

from llmperf_testing.drawn_case import LateTokens
from llmperf_testing.observations import Trajectory

Floats = NDArray[np.float64]
Back = Callable[[Floats], Floats]
Passed = tuple[Floats, Back]

DEFAULT_THETA = 10000.0


def covers(spec: RunSpec) -> bool:
    """Check whether the model is a Llama without any of the facts that later families added."""
    model = spec.model
    plain = model.family == "llama" and model.position_encoding == "rope" and not model.normalized_head
    return plain and not any(architecture_problems("reference", spec))


def trajectory(plan: Plan, steps: int, late: LateTokens | None = None) -> Trajectory:
    """The first steps of a plan, with the kit's own tokens from a step on, all weights trained."""
    contract = plan.spec.contract
    llama, losses, norms = Llama(plan.spec.model, seed=contract.seed), [], []
    adamw = AdamW(llama.weights, contract.optimizer, contract.steps)
    sequences: dict[int, tuple[float, ...]] = {}
    for step, drawn in enumerate(micro_batches(plan, steps, late)):
        micro_losses = []
        for rank, rows in drawn:
            micro_losses.append(llama.learn(rows))
            if step == 0:
                sequences[rank] = (*sequences.get(rank, ()), *llama.row_losses)
        losses.append(float(np.mean(micro_losses)))
        norms.append(adamw.update({name: total / len(micro_losses) for name, total in llama.gradients.items()}))
        llama.gradients.clear()
    return Trajectory(losses=tuple(losses), grad_norms=tuple(norms), sequences=tuple(sequences.values()))


def micro_batches(plan: Plan, steps: int, late: LateTokens | None) -> Iterator[list[tuple[int, NDArray[np.int64]]]]:
    """The micro batches of each step, with their data-parallel ranks."""
    micro_steps = plan.batch.gradient_accumulation
    ranks = [open_batches(plan, rank) for rank in range(plan.batch.data_parallel)]
    for step in range(steps):
        drawn = []
        for rank, batches in enumerate(ranks):
            for index in range(step * micro_steps, (step + 1) * micro_steps):
                rows = batches.next_micro_batch()
                drawn.append((rank, rows if late is None else late.micro_batch(plan, rank, index, rows)))
        yield drawn
    for batches in ranks:
        batches.close()


def weight_shapes(model: Model) -> dict[str, tuple[int, ...]]:
    """The shape of each weight by its name in published checkpoints; [out, in] for a matrix."""
    hidden, inner = model.hidden_size, model.intermediate_size
    key_value = model.kv_heads * (hidden // model.attention_heads)
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (model.vocab_size, hidden)}
    for layer in (f"model.layers.{number}" for number in range(model.layers)):
        shapes |= {
            f"{layer}.input_layernorm.weight": (hidden,),
            f"{layer}.self_attn.q_proj.weight": (hidden, hidden),
            f"{layer}.self_attn.k_proj.weight": (key_value, hidden),
            f"{layer}.self_attn.v_proj.weight": (key_value, hidden),
            f"{layer}.self_attn.o_proj.weight": (hidden, hidden),
            f"{layer}.post_attention_layernorm.weight": (hidden,),
            f"{layer}.mlp.gate_proj.weight": (inner, hidden),
            f"{layer}.mlp.up_proj.weight": (inner, hidden),
            f"{layer}.mlp.down_proj.weight": (hidden, inner),
        }
    shapes["model.norm.weight"] = (hidden,)
    return shapes if model.tied_embeddings else shapes | {"lm_head.weight": (model.vocab_size, hidden)}


class AdamW:
    """As torch has it: the norm of all gradients is clipped, matrices decay and weights of norms do not."""

    def __init__(self, weights: Mapping[str, Floats], settings: Optimizer, steps: int) -> None:
        self._weights = weights
        self._settings = settings
        self._steps = steps
        self._step = 0
        self._means: dict[str, Any] = defaultdict(float)
        self._squares: dict[str, Any] = defaultdict(float)

    def update(self, gradients: Mapping[str, Floats]) -> float:
        """One step, in place; the norm of the gradients before clipping."""
        settings = self._settings
        norm = np.sqrt(sum(float(np.square(one).sum()) for one in gradients.values()))
        clip = 1.0 if settings.clip_norm is None else min(1.0, settings.clip_norm / (norm + 1e-6))
        self._step += 1
        rate = learning_rate(settings, self._step, self._steps)
        for name, gradient in gradients.items():
            self._update(name, clip * gradient, rate)
        return float(norm)

    def _update(self, name: str, gradient: Floats, rate: float) -> None:
        settings, weight = self._settings, self._weights[name]
        self._means[name] = settings.beta1 * self._means[name] + (1 - settings.beta1) * gradient
        self._squares[name] = settings.beta2 * self._squares[name] + (1 - settings.beta2) * np.square(gradient)
        mean = self._means[name] / (1 - settings.beta1**self._step)
        square = self._squares[name] / (1 - settings.beta2**self._step)
        if not is_norm(name):
            weight *= 1 - rate * settings.weight_decay
        weight -= rate * mean / (np.sqrt(square) + settings.eps)


class Llama:
    """A model with its initial weights, by their names in checkpoints, and its accumulated gradients."""

    def __init__(self, model: Model, seed: int) -> None:
        self._model = model
        self._width = model.hidden_size // model.attention_heads
        self.weights: dict[str, Floats] = {}
        for name, shape in weight_shapes(model).items():
            drawn = np.ones(shape) if is_norm(name) else initial_normal(seed, name, shape, model.initializer_std)
            self.weights[name] = drawn.astype(np.float64)
        self.gradients: dict[str, Any] = defaultdict(float)
        """Sums over the micro batches."""
        self.row_losses: tuple[float, ...] = ()
        """The mean loss of each row of the last micro batch."""

    def learn(self, rows: NDArray[np.int64]) -> float:
        """The mean loss of a micro batch [rows, seq_len + 1]; its gradients are added."""
        model = self._model
        states, into_embedding = self._embedded(rows[:, :-1])
        backs = []
        for layer in range(model.layers):
            for part, norm in ((self._attention, "input"), (self._mlp, "post_attention")):
                normed, into_norm = self._normed(f"model.layers.{layer}.{norm}_layernorm", states)
                change, into_part = part(f"model.layers.{layer}", normed)
                states = states + change
                backs.append((into_norm, into_part))
        normed, into_norm = self._normed("model.norm", states)
        head = "model.embed_tokens" if model.tied_embeddings else "lm_head"
        logits, into_head = self._linear(head, normed)
        losses, wrong = _cross_entropy(logits, rows[:, 1:])
        self.row_losses = tuple(losses.mean(axis=-1).tolist())
        gradient = into_norm(into_head(wrong))
        for into_norm, into_part in reversed(backs):
            gradient = gradient + into_norm(into_part(gradient))
        into_embedding(gradient)
        return float(losses.mean())

    def _embedded(self, ids: NDArray[np.int64]) -> Passed:
        name = "model.embed_tokens.weight"
        weight = self.weights[name]

        def back(gradient: Floats) -> Floats:
            change = np.zeros_like(weight)
            np.add.at(change, ids, gradient)
            self.gradients[name] += change
            return change

        return weight[ids], back

    def _linear(self, name: str, states: Floats) -> Passed:
        name = f"{name}.weight"
        weight = self.weights[name]

        def back(gradient: Floats) -> Floats:
            self.gradients[name] += gradient.reshape(-1, weight.shape[0]).T @ states.reshape(-1, states.shape[-1])
            into: Floats = gradient @ weight
            return into

        return states @ weight.T, back

    def _normed(self, name: str, states: Floats) -> Passed:
        name = f"{name}.weight"
        weight = self.weights[name]
        scale = 1 / np.sqrt(np.square(states).mean(axis=-1, keepdims=True) + self._model.norm_eps)
        scaled = states * scale

        def back(gradient: Floats) -> Floats:
            self.gradients[name] += (gradient * scaled).sum(axis=(0, 1))
            inner = gradient * weight
            into: Floats = scale * (inner - scaled * (inner * scaled).mean(axis=-1, keepdims=True))
            return into

        return scaled * weight, back

    def _mlp(self, layer: str, states: Floats) -> Passed:
        gate, into_gate = self._linear(f"{layer}.mlp.gate_proj", states)
        up, into_up = self._linear(f"{layer}.mlp.up_proj", states)
        share = 1 / (1 + np.exp(-gate))
        down, into_down = self._linear(f"{layer}.mlp.down_proj", gate * share * up)

        def back(gradient: Floats) -> Floats:
            product = into_down(gradient)
            return into_gate(product * up * share * (1 + gate * (1 - share))) + into_up(product * gate * share)

        return down, back

    def _attention(self, layer: str, states: Floats) -> Passed:
        heads, shared = self._model.attention_heads, self._model.kv_heads
        queries, into_queries = self._heads(f"{layer}.self_attn.q_proj", states, heads, turned=True)
        keys, into_keys = self._heads(f"{layer}.self_attn.k_proj", states, shared, turned=True)
        values, into_values = self._heads(f"{layer}.self_attn.v_proj", states, shared, turned=False)
        mixed, into_mixed = _attended(queries, keys, values)
        joined = mixed.swapaxes(1, 2).reshape(*states.shape[:2], -1)
        out, into_out = self._linear(f"{layer}.self_attn.o_proj", joined)

        def back(gradient: Floats) -> Floats:
            parted = into_out(gradient).reshape(*states.shape[:2], heads, -1).swapaxes(1, 2)
            of_queries, of_keys, of_values = into_mixed(parted)
            return into_queries(of_queries) + into_keys(of_keys) + into_values(of_values)

        return out, back

    def _heads(self, name: str, states: Floats, count: int, *, turned: bool) -> Passed:
        """[batch, heads, seq_len, width], turned by their positions."""
        projected, into = self._linear(name, states)
        split = projected.reshape(*states.shape[:2], count, self._width).swapaxes(1, 2)
        theta = self._model.rope_theta or DEFAULT_THETA

        def back(gradient: Floats) -> Floats:
            straight = _turned(gradient, theta, -1) if turned else gradient
            return into(straight.swapaxes(1, 2).reshape(projected.shape))

        return _turned(split, theta, 1) if turned else split, back


def _attended(queries: Floats, keys: Floats, values: Floats) -> tuple[Floats, Callable[[Floats], tuple[Floats, ...]]]:
    """Causal attention; each key and value serves several queries where there are fewer of them."""
    times, scale = queries.shape[1] // keys.shape[1], 1 / np.sqrt(queries.shape[-1])
    each_key, each_value = keys.repeat(times, axis=1), values.repeat(times, axis=1)
    scores = queries @ each_key.swapaxes(-1, -2) * scale
    later = np.triu(np.ones(scores.shape[-2:], dtype=bool), k=1)
    shares = _softmax(np.where(later, -np.inf, scores))

    def back(gradient: Floats) -> tuple[Floats, ...]:
        of_shares = gradient @ each_value.swapaxes(-1, -2)
        of_scores = shares * (of_shares - (of_shares * shares).sum(axis=-1, keepdims=True)) * scale
        of_keys, of_values = of_scores.swapaxes(-1, -2) @ queries, shares.swapaxes(-1, -2) @ gradient
        return of_scores @ each_key, _together(of_keys, times), _together(of_values, times)

    return shares @ each_value, back


def _together(gradient: Floats, times: int) -> Floats:
    batch, heads, *rest = gradient.shape
    summed: Floats = gradient.reshape(batch, heads // times, times, *rest).sum(axis=2)
    return summed


def _turned(states: Floats, theta: float, way: int) -> Floats:
    """Rotary positions, halves rotated as in LLaMA checkpoints; `way` is -1 to turn back."""
    width = states.shape[-1]
    frequencies = 1.0 / theta ** (np.arange(0, width, 2) / width)
    angles = np.tile(np.arange(states.shape[2])[:, None] * frequencies, 2) * way
    low, high = np.split(states, 2, axis=-1)
    turned: Floats = states * np.cos(angles) + np.concatenate([-high, low], axis=-1) * np.sin(angles)
    return turned


def _softmax(scores: Floats) -> Floats:
    exponents = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: Floats = exponents / exponents.sum(axis=-1, keepdims=True)
    return shares


def _cross_entropy(logits: Floats, labels: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """That of each token in nats, [rows, seq_len], and the gradient of their mean."""
    chances = _softmax(logits)
    losses: Floats = -np.log(np.take_along_axis(chances, labels[..., None], axis=-1))[..., 0]
    hits = np.zeros_like(chances)
    np.put_along_axis(hits, labels[..., None], 1.0, axis=-1)
    return losses, (chances - hits) / labels.size
