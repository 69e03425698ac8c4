"""The meaning of headings, labels, columns and parameter names in published documents, Chinese and English.

Each meaning has a list of names in lower case without spaces, underscores and hyphens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Literal

from llmperf_published.reading.markdown import normal, plain
from llmperf_published.reading.throughput_scope import throughput_words

HeadingKind = Literal[
    "title", "environment", "hardware", "software", "parallelism", "optimisation", "running", "batch", "general",
    "performance", "notes",
]  # fmt: skip

HEADINGS: tuple[tuple[HeadingKind, str], ...] = (
    ("notes", r"补充|附表|附录|说明$|^注|备注|下载|checkpoint|supplement|remark|^notes?$|download|appendix"),
    ("title", r"配置与运行|configuration and (?:running|results)|running information"),
    ("hardware", r"硬件环境|硬件配置|hardware"),
    ("software", r"软件环境|软件配置|依赖环境|software|dependencies"),
    ("environment", r"环境配置|环境信息|environment"),
    ("parallelism", r"并行策略|parallel\w* strateg|^parallelism"),
    ("optimisation", r"优化策略|优化方案|optimi[sz]ation"),
    ("batch", r"批尺寸|批大小|batch\s?-?size|^input batch|^batch"),
    ("general", r"通用指标|general|common (?:metrics|indicators)"),
    ("performance", r"性能指标|性能结果|performance"),
    ("running", r"运行情况|运行结果|running|^results?$|^runs?$"),
)
"""The kind of a heading is that of the first pattern that matches."""

BULLET_HEADINGS = re.compile(
    r"(?:输入批尺寸|通用指标|性能指标|补充说明|运行情况|并行策略|优化策略|.{0,20}[硬软]件环境|环境配置"
    r"|input batch(?: size)?s?|batch(?: size)?s?|general (?:metrics|indicators)|general"
    r"|performance(?: (?:metrics|indicators))?|(?:supplementary )?notes|.{0,20}(?:hard|soft)ware environment"
    r"|environment|parallel(?:ism)? strategy|optimi[sz]ation strategy)"
)
"""Bullets that are headings consist of these words alone."""

LABELS: dict[str, str] = {
    # hardware
    "machine": "机器型号 服务器型号 机器 machine machinemodel servermodel server host system platform",
    "accelerator": "gpu gputype 机器,加速卡型号 加速卡型号 加速卡 芯片型号 gpu型号 accelerator acceleratormodel "
    "acceleratorcard gpumodel devicemodel 显卡 显卡型号",
    "cpu": "cpu型号 处理器型号 cpu cpumodel processor",
    "interconnect": "多机网络类型,带宽 多机网络类型 网络类型 带宽 interconnect network networktype "
    "networktype,bandwidth interconnecttype,bandwidth multinodenetwork multimachinenetworktype,bandwidth",
    "host_memory": "内存 主机内存 内存容量 memorycapacity hostmemory",
    # software
    "os": "os版本 操作系统版本 操作系统 os osversion operatingsystem",
    "kernel": "oskernel版本 内核版本 kernel oskernelversion kernelversion oskernel",
    "driver": "加速卡驱动版本 驱动版本 driver driverversion acceleratordriverversion",
    "docker": "docker版本 docker镜像和版本 docker镜像 镜像 docker dockerversion dockerimage dockerimageandversion",
    "framework": "训练框架版本 训练框架 框架版本 framework frameworkversion trainingframework trainingframeworkversion",
    "dependencies": "依赖软件版本 依赖软件 依赖 dependencies dependencyversion dependentsoftware dependencyversions",
    "python": "python版本 python pythonversion",
    "compiler": "训练编译器版本 编译器版本 compiler compilerversion",
    "toolkit": "cuda cuda版本 cudaversion rocm cann toolkit toolkitversion",
    # parallelism and optimisation
    "technique": "并行技术 technique paralleltechnique paralleltechnology paralleltechniques",
    "implementer": "实施者 implementer implementor implementedby",
    "details": "实施细节 方案细节 details detail implementationdetails schemedetails",
    "scheme": "优化方案 scheme optimizationscheme optimisationscheme",
    # general
    "task": "任务类别 任务 task taskcategory tasktype",
    "model": "模型 模型名称 model modelname modelid modelsize 模型规模 模型大小 参数规模",
    "dataset": "数据集 dataset data",
    "configuration_file": "配置文件 configurationfile configfile",
    "precision": "数据精度 精度 precision dataprecision dtype datatype",
    "changes": "超参修改 修改 changes modifications hyperparameterchanges hyperparametermodification "
    "hyperparametermodifications changedhyperparameters modifiedhyperparameters overrides",
    "parallel": "并行策略 分布式策略 并行配置 并行 parallel parallelstrategy parallelism parallelconfiguration",
    "device": "硬件设备简称 设备简称 device deviceshortname devicename hardwaredevice",
    "memory": "硬件存储使用 显存 显存占用 mem memory memoryusage devicememory memoryactual/total gpumemory gpumem "
    "peakmem peakmemory peakgpumemory peakdevicememory peakmemoryusage gpumemoryusage maxmemory maxmem memused "
    "usedmemory maxcudamem maxcudamemory maxgpuram gpuram peakmemorypergpu peakmemory/gpu peakmem/gpu memory/gpu "
    "memorypergpu 显存峰值 峰值显存",
    "throughput": "吞吐量 吞吐 token/p/s tokens/p/s token/s/p tokens/s/p tps throughput token/gpu/s tokens/gpu/s "
    "token/s/gpu tokens/s/gpu tokens/s/device token/device/s tokens/p/sec tgs tokens/s token/s tokens/sec "
    "tokens/sec/gpu tokens/second tokens/second/gpu tok/s tok/s/gpu tok/sec tps/gpu t/s t/s/gpu "
    "tokens/card/sec tokens/card/s token/card/s 速度 训练速度",
    "loss": "损失值 损失 loss trainingloss finalloss lmloss lmlossvalue",
    "mfu": "计算使用率 计算卡使用率 mfu mfu% modelflopsutilization modelflopsutilisation",
    "hfu": "hfu hfu% hardwareflopsutilization hardwareflopsutilisation",
    "flops": "tflops tflop/s tflops/gpu tflop/s/gpu tflop/sec/gpu tflops/s/gpu tflop/sec/chip tflop/s/chip tflops/chip "
    "modeltflops modeltflop/s/gpu modeltflop/sec/gpu modeltflops/gpu modeltflops/s/gpu tflops/device tflop/s/device "
    "tflops/sec/gpu tflops/sec/chip modeltflops/sec/gpu tflops/卡 单卡tflops",
    "aligned": "是否精度对齐 精度对齐 aligned lossaligned accuracyaligned precisionaligned alignment",
    # tables
    "item": "指标名称 指标 item metric metricname name indicator",
    "value": "指标值 值 value metricvalue",
    "remark": "特殊说明 说明 备注 remark remarks specialnote note notes description",
    "configuration": "配置 机器配置 configuration setup hardware machines",
    "config_name": "config 配置名 configname",
    "fix_hp": "fixhp 特殊超参 超参 hyperparameters changedhp",
    # settings
    "micro_batch": "localbatchsize lbs microbatchsize microbatch mbs perdevicebs perdevicebatchsize localbs "
    "perdevicetrainbatchsize batchsizetraining microbs micbs microbsz localbatch microbatch(lbs) "
    "trainmicrobatchsizepergpu",
    "seq_len": "seqlength seqlen mpe maxpositionembedding maxpositionembeddings sequencelength maxseqlen maxseqlength "
    "maxlength sequencelength(mpe) sequence 序列长度 序列",
    "gradient_accumulation": "gradientaccumulatesteps gas gradientaccumulationsteps gradientaccumulation accumulate "
    "accumulatesteps accumulationsteps gradaccum gradaccumsteps gradacc gradaccsteps ga micronum "
    "gradientaccumulation(gas) 梯度累加步数 梯度累积步数",
    "global_batch": "globalbatchsize gbs globalbs globalbsz globalbatch globalbatch(gbs) globbs",
    "tensor_parallel": "tensorparallel tp tensorparalleldegree tensormodelparallelsize tensorparallelsize tpsize mp "
    "tpdegree tensormodelparalleldegree modelparallel modelparallelsize 张量并行",
    "pipeline_parallel": "pipelineparallel pp pipelineparalleldegree piplineparalleldegree pipelinemodelparallelsize "
    "pipelineparallelsize ppsize ppdegree piplineparallel 流水线并行 流水并行",
    "context_parallel": "cp contextparallel contextparallelsize cpsize cpdegree contextparalleldegree 上下文并行",
    "expert_parallel": "ep expertparallel expertparallelsize epsize epdegree expertmodelparallelsize 专家并行",
    "virtual_pipeline": "vp vpp virtualpipeline virtualpipelineparallel virtualpipelineparallelsize vpsize",
    "data_parallel": "dataparallel dp dataparalleldegree dataparallelsize dpsize dpdegree 数据并行",
    "world_size": "worldsize ranks 总卡数 totalgpus totaldevices totalcards gpustotal",
    "nodes": "nodes numnodes nnodes nodecount numberofnodes 节点数 机器数 机数",
    "devices_per_node": "gpuspernode gpus/node cardspernode cards/node devicespernode devices/node 每机卡数 单机卡数 "
    "每节点卡数 单节点卡数 每台卡数 #gpus/node #cards/node #devices/node gpupernode cardpernode gpu/node devicepernode",
    "device_count": "卡数 #gpus #devices #cards gpus cards devices npus numgpus ngpus gpunum gpunumber gpu数 gpu数量 "
    "numberofchips numchips chips #chips gpusnumber npusnumber npu "
    "cardnumber #ofgpus numofgpus numberofcards gpucount numberofgpus numdevices devicecount",
    "sharding_stage": "sharding shardingstage sh zerostage zero",
    "sharding_degree": "fsdp fsdpsize fsdpdegree shardingdegree shardingparalleldegree",
    "gradient_checkpointing": "recompute gradientcheckpointing activationcheckpointing activationckpt recomputation "
    "重计算",
    "attention": "flashattention useflashattention flashattn useflashattn flashattention2 flashattention2",
    "fused_rms_norm": "usefusedrmsnorm fusedrmsnorm",
    "steps": "steps trainsteps maxsteps iterations 训练步数",
    "seed": "seed 随机种子",
}
"""Meaning to its names."""

SETTINGS = frozenset(
    [
        "micro_batch", "seq_len", "gradient_accumulation", "global_batch", "tensor_parallel", "pipeline_parallel",
        "data_parallel", "world_size", "sharding_stage", "sharding_degree", "gradient_checkpointing", "attention",
        "fused_rms_norm", "steps", "seed", "precision", "dataset",
    ]
)  # fmt: skip
"""Meanings that a row can set."""

OTHER_DEGREES = {"context_parallel": "CP", "expert_parallel": "EP", "virtual_pipeline": "VP"}
"""Degrees that a layout holds by their short names."""

COUNTS = ("nodes", "devices_per_node", "device_count", "world_size")
"""Columns of counts: nodes, accelerators per node, accelerators (per node or in all), accelerators in all."""

_EVALUATION = re.compile(
    r"(?<!grad )(?<!gradient )(?<!grad[_-])\bacc(?![a-z])|accuracy|准确率|mmlu|ceval|cmmlu|gsm8k|bleu|rouge"
    r"|\bppl\b|perplexity|\bscore|得分|评测|mmmu|humaneval"
    r"|(?:训练|验证|测试)结果"
)

_ENGINES = re.compile(
    r"(?<![a-z])(?:vllm|sglang|llama\.cpp|lmdeploy|exllama\w*|ollama|tensorrt-llm|trt-llm|tgi)(?![a-z])"
)
_INFERENCE = re.compile(
    r"inf[eé]ren|(?<![a-z])(?:serving|decod(?:e|ing)|prefill|ttft|tpot|text generation)(?![a-z])|推理|推論|推论|解码"
)
_TEST = re.compile(r"(?:pp\d{3,6}|tg\d{1,6})(?:\s?\+\s?tg\s?\d{1,6})?(?:\s?@\s?d\s?\d{1,6})?")
"""Prompt processing and text generation, as llama-bench names its tests: `pp512`, `tg128`, `pp512+tg128`.
`PP 8` and `pp16` are pipeline parallelism."""
_SERVED = re.compile(
    r"(?<![a-z])(?:ttft|tpot|itl|time to first token|concurrency|output (?:tokens?|length))(?![a-z])|输出长度|并发数"
)
"""Columns that only tables of inference have."""
_TRAINING = re.compile(r"train|fine-?tun|训练|微调")


@cache
def _names() -> dict[str, str]:
    return {name: meaning for meaning, names in LABELS.items() for name in names.split()}


def squeezed(text: str) -> str:
    """A label as it is looked up: ASCII signs, lower case, without spaces, underscores, hyphens and emphasis."""
    return re.sub(r"[\s_\-*`'\"]+", "", normal(plain(text[:400])).lower()).strip(":.,")


def meaning(label: str) -> str | None:
    """The meaning of a label or header; None if unknown.

    The whole label is looked up first, then the part before a bracket, the text in brackets, and the first words.
    """
    names, text = _names(), squeezed(label)
    bare, inside = re.sub(r"\(.*", "", text), re.findall(r"\(([^()]*)\)", text)
    beginning = re.split(r"[,:(]", text)[0]
    return next((names[key] for key in (text, bare, *inside, beginning) if key in names), None)


def column_meaning(header: str) -> str | None:
    """The meaning of a column; `evaluation` for accuracies and other scores."""
    known = meaning(header)
    if known == "throughput" and names_inference(header):
        return None
    if known is None and throughput_words(header).named:
        return "throughput"
    if known is None and _EVALUATION.search(normal(plain(header[:400])).lower()):
        return "evaluation"
    return known


def setting(name: str) -> str | None:
    """The setting that a parameter of this name sets; None if unknown."""
    known = _names().get(squeezed(name))
    return known if known in SETTINGS else None


def is_bullet_heading(text: str) -> bool:
    """Check whether a bullet is a heading: one of the known words and nothing else."""
    return len(text) <= 80 and BULLET_HEADINGS.fullmatch(normal(plain(text)).lower().strip(" :.")) is not None


def names_inference(text: str) -> bool:
    """Check whether a heading or header is on inference and not also on training."""
    words = normal(plain(text[:400])).lower()
    return _INFERENCE.search(words) is not None and _TRAINING.search(words) is None


def header_names_inference(header: str) -> bool:
    """Check whether a column is one that only tables of inference have, such as the time to the first token."""
    return _SERVED.search(normal(plain(header[:400])).lower()) is not None


def row_names_inference(cells: Sequence[str]) -> bool:
    """Check whether a cell of a row names inference, a program that does nothing else, or a test such as `pp512`."""
    texts = [normal(plain(cell[:400])).lower() for cell in cells]
    return any(_TEST.fullmatch(text) or names_inference(text) or _ENGINES.search(text) for text in texts)


def heading_kind(text: str) -> HeadingKind | None:
    """The kind of a heading; None if unknown."""
    words = normal(plain(text[:400])).lower().strip(" :.")
    return next((kind for kind, pattern in _headings() if pattern.search(words)), None)


@cache
def _headings() -> tuple[tuple[HeadingKind, re.Pattern[str]], ...]:
    return tuple((kind, re.compile(pattern)) for kind, pattern in HEADINGS)
