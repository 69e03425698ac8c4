"""The same model, files and tokenizer through lm-evaluation-harness and through this plugin: `... FOLDER RESULT.json`.

FOLDER has MMLU's layout and a `tokenizer.json`. Nothing is fetched: the harness's own task files are used, with local
files in the place of its data set.
"""

import csv
import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"

import lm_eval
import torch
import yaml
from llmperf.files.json_files import convert
from llmperf.types import Model
from llmperf_huggingface.export import huggingface_config
from llmperf_lora.mmlu.prompts import read_prompts
from llmperf_lora.mmlu_evaluation import Ranks, answers, figures
from llmperf_lora.options import Options
from llmperf_pytorch.decoder.model import LanguageModel
from llmperf_pytorch.kernels.choice import Kernels
from llmperf_torchkit.weights import fill_weights
from lm_eval.models.huggingface import HFLM
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TASKS = Path(lm_eval.__file__).parent / "tasks" / "mmlu" / "default"
LETTERS = "ABCD"
SHOTS = 5


def harness_task(folder, subject, scratch):
    """The harness's own configuration of a subject, reading our files."""
    template = yaml.safe_load((TASKS / "_default_template_yaml").read_text())
    own = yaml.safe_load((TASKS / f"mmlu_{subject}.yaml").read_text())
    files = {}
    for split in ("dev", "test"):
        with (folder / split / f"{subject}_{split}.csv").open(newline="") as file:
            rows = [
                {"question": row[0], "choices": row[1:5], "answer": LETTERS.index(row[5])} for row in csv.reader(file)
            ]
        files[split] = str(scratch / f"{subject}_{split}.json")
        Path(files[split]).write_text(json.dumps(rows))
    here = {"dataset_path": "json", "dataset_name": None, "dataset_kwargs": {"data_files": files}}
    kept = {key: value for key, value in own.items() if key not in ("include", "tag", "dataset_name")}
    return {**template, **kept, **here}


def models(facts):
    """Ours and transformers' own class with the same weights, large enough for answers to differ."""
    ours = LanguageModel(facts, "sdpa", Kernels())
    fill_weights(ours, facts, seed=3)
    theirs = LlamaForCausalLM(LlamaConfig(**huggingface_config(facts), attn_implementation="sdpa"))
    theirs.load_state_dict(ours.state_dict())
    return ours.eval(), theirs.eval()


def main():
    folder, result = Path(sys.argv[1]), Path(sys.argv[2])
    facts = convert(json.loads((folder / "model.json").read_text()), Model, "model")
    ours, theirs = models(facts)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), bos_token="<s>", eos_token="</s>"
    )
    subjects = sorted(path.name.removesuffix("_test.csv") for path in (folder / "test").iterdir())
    judged = lm_eval.simple_evaluate(
        model=HFLM(pretrained=theirs, tokenizer=tokenizer, device="cpu", batch_size=4, max_length=facts.max_positions),
        tasks=[harness_task(folder, subject, result.parent) for subject in subjects],
        num_fewshot=SHOTS,
        bootstrap_iters=0,
    )
    told, prompts = {}, {}
    for subject in subjects:
        samples = sorted(judged["samples"][f"mmlu_{subject}"], key=lambda one: one["doc_id"])
        told[subject] = [max(range(4), key=lambda letter, one=one: one["resps"][letter][0][0]) for one in samples]
        prompts[subject] = [one["arguments"][0][0] for one in samples]
    options = Options(mmlu=str(folder), mmlu_shots=SHOTS)
    asked = read_prompts(options, str(folder / "tokenizer.json"), facts)
    given = finish(answers(ours, asked, 4, torch.device("cpu"), Ranks(0, 1)))
    mine = {subject: [] for subject in subjects}
    for prompt, answer in zip(asked, given, strict=True):
        mine[prompt.subject].append(answer)
    cut = sum(len(one.ids) == facts.max_positions for one in asked)
    harness = {subject: judged["results"][f"mmlu_{subject}"]["acc,none"] for subject in subjects}
    found = {
        "theirs": told,
        "ours": mine,
        "prompts": prompts,
        "accuracy": harness,
        "figures": figures("mmlu", asked, given),
        "cut": cut,
    }
    result.write_text(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)


def finish(generator):
    """What a generator returns."""
    try:
        while True:
            next(generator)
    except StopIteration as end:
        return end.value


if __name__ == "__main__":
    main()
