"""Which model and case of the library a document means. Only what its text says counts; near is not enough."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from llmperf.cases.library import Library
from llmperf.types.spec import Case

from llmperf_published.reading.cell_text import normal
from llmperf_published.reading.sections import Contents
from llmperf_published.types.document import Entry

BESIDE = re.compile(
    r"\b(?:deepspeed|megatron|paddle(?:nlp)?|pytorch|torch|flagscale|huggingface|hf|pretrain(?:ing)?|finetun(?:e|ing)"
    r"|lora|chat|instruct|zero\d?|sft|base|standard|meta|baichuan[- ]?inc)\b"
)
"""Words beside a model's name that do not make it another model, and beside settings that do not make them prose."""
_UNUSED = re.compile(r"(?:\b(?:no|not|without)|不使用|未使用|未采用|无|不)\s*$")
"""Before a technique."""
_NOT_USED = re.compile(
    r"\s*[:=(]?\s*(?:(?:is |was )?not (?:used|applied|enabled)|none|no|off|false|disabled|unused|n/a|[-/*]+"
    r"|无|否|未使用|不使用|未采用|关闭)[\s).]*$"
)
"""After it, to the end of the line."""
_SIZE = re.compile(r"(?<![\w.])(\d{1,4}(?:\.\d)?)\s?b(?![a-z])")


@dataclass(frozen=True, slots=True)
class Known:
    """What the library has, read once for many documents."""

    models: Mapping[str, str]
    """A model's name or title, squeezed, to its name."""
    cases: tuple[Case, ...]

    @classmethod
    def of(cls, library: Library) -> Known:
        """Read every model and case; UserError if one cannot be read."""
        names = library.paths("models")
        titles = {_key(library.model(name).title): name for name in names}
        cases = tuple(library.case(name) for name in library.paths("cases"))
        return cls({**titles, **{_key(name): name for name in names}}, cases)


def model_name(text: str | None, group: str | None, known: Known) -> str | None:
    """The library's name of the model; `group`, a heading among the rows, may add the size or name it in full."""
    size = _SIZE.search(_words(group or ""))
    sized = f"{text} {size[0]}" if text and size and not _SIZE.search(_words(text)) else text
    for one in (group, sized):
        if one and (found := known.models.get(_key(one))):
            return found
    return None


def _words(text: str) -> str:
    return re.sub(r"[_\-/]+", " ", normal(text[:200]).lower())


def _key(text: str) -> str:
    return re.sub(r"[\s.()]+", "", BESIDE.sub(" ", _words(text)))


def framework_name(told: Contents) -> str | None:
    """The framework plugin that strategy and software point to; None where they point to none."""
    trained = _texts(told, "parallelism") + _texts(told, "software", "framework", "dependencies", "docker")
    trained += (told.text("general", "model") or "").lower()
    if any(_uses_lora(f"{one.label}: {one.text}") for one in _entries(told, "optimisation")):
        return "lora"
    if "megatron" in trained:  # alone it is another framework, for which there is no plugin
        return "megatron_deepspeed" if "deepspeed" in trained else None
    if "paddle" in trained:
        return "paddle"
    if "deepspeed" in trained or re.search(r"(?<![a-z])zero[- ]?(?:dp|[0-3])", trained):
        return "zero"
    return "pytorch" if re.search(r"(?<![a-z])ddp(?![a-z])", trained) else None


def _uses_lora(text: str) -> bool:
    """Whether a line names LoRA and does not say that it was not used."""
    before, found, after = (normal(text).lower() + " ").partition("lora")
    part_of_a_word = any(one.isascii() and one.isalpha() for one in (before[-1:], after[:1]))
    return bool(found) and not part_of_a_word and not _UNUSED.search(before) and not _NOT_USED.match(after)


def _entries(told: Contents, kind: str) -> list[Entry]:
    return [entry for one in told.sections if one.kind == kind for entry in one.entries]


def _texts(told: Contents, kind: str, *names: str) -> str:
    entries = _entries(told, kind)
    return " ".join(one.text for one in entries if not names or one.name in names).lower()


def case_of(model: str | None, framework: str | None, known: Known) -> Case | None:
    """The one case on this model with this framework; None where there is none, or more than one."""
    if model is None or framework is None:
        return None
    found = [one for one in known.cases if one.contract.model == model and one.tuning.framework == framework]
    return found[0] if len(found) == 1 else None


def dataset_name(text: str, known: Known) -> str | None:
    """The name by which cases know a data set; None where they do not."""
    key = _dataset_key(text)
    names = {one.contract.dataset for one in known.cases}
    return next((name for name in sorted(names) if _dataset_key(name) == key), None)


def _dataset_key(text: str) -> str:
    return re.sub(r"data(?:set)?|1t|[\s_\-.]", "", normal(text[:200]).lower())
