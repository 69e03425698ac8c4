"""Tables with one row: what is read from their cells, and what is not understood."""

import pytest
from published_tables import A100, X1, table, value

MACHINE = "hardware.device hardware.nodes hardware.devices_per_node"
LAYOUT = "parallelism.tensor_parallel parallelism.pipeline_parallel parallelism.data_parallel"
CONFIGURATION = " ".join(f"configuration_name.{name}" for name in (
    "device", "memory", "nodes", "devices_per_node", "degrees"))  # fmt: skip
SPEEDS = "metrics.tokens_per_second_per_device metrics.tokens_per_second"
H100_SXM, A100_SXM = "NVIDIA H100-SXM5-80GB", "NVIDIA A100-SXM4-80GB"
ON = "# NVIDIA results\n## Hardware environment\n- Accelerator: {}\n## Performance metrics"
UNKNOWN_DEVICE = "which it was stays unknown: "
NO_GRID = "expected nodes x devices such as (1x8): "
A100_40 = A100.replace("80GB", "40GB")
BATCH = f"{X1}* 输入批尺寸\n  1. MPE, default is 4096\n  2. LBS, default is 2\n  3. GAS, default is 4\n* 性能指标"

TABLES = {
    # name: (text above, header, row, paths of values, [(cell, *values), ...]). The cell replaces {} in each text; of
    # `head => cell`, the head does so in the text above and the header. ` ;; ` separates the cells of several rows.
    "devices of each node": ("# Results", "nodes | {} | tokens/s/GPU", "2 | 8 | 3000",
                             f"{MACHINE} hardware.world_size", [
        (header, None, 2, 8, 16)
        for header in ("每节点卡数", "单节点卡数", "# GPUs/node", "每台卡数", "GPUs per node")]),
    "nodes are devices by those of each": (
        "# Results", "GPUs | GPUs per node | tokens/s/GPU", "{} | 8 | 3000", f"{MACHINE} hardware.devices",
        [("16", None, 2, 8, 16)]),
    "machines by one cell": ("# Results", "GPU | tokens/s/GPU", "{} | 100", f"{MACHINE} hardware.devices", [
        ("8x A100", "A100", None, None, 8), ("8 NVIDIA H100 GPUs", "H100", None, None, 8),
        ("H100-80GB * 8", "H100", None, None, 8), ("A800 80G x8卡", "A800", None, None, 8),
        ("8*910B", "910B", None, None, 8), ("2x8 H100", "H100", 2, 8, None), ("2 x 8 x H100", "H100", 2, 8, None),
        ("64 H800", "H800", None, None, 64), ("A100-SXM4-80GB", "A100 SXM4", None, None, None)]),
    "machines of a vendor that nobody knows": (X1, "配置 | parallel | token/p/s", "{} | PP1DP8TP1 | 100", MACHINE, [
        ("X1004机32卡（4x8）", "X100", 4, 8), ("X100四机32卡（4x8）", "X100", 4, 8),
        ("X100-55机440卡（55x8）", "X100", 55, 8), ("X100二机16卡（2x8）", "X100", 2, 8),
        ("X14机32卡（4x8）", "X1", 4, 8), ("X4 机器 (4x8)", "X4", 4, 8), ("\\*单机8卡（1x8）", None, 1, 8),
        ("X1单机8卡（1x8）（pretrain）", "X1", 1, 8), ("Atlas 800T A2单机8卡（1x8）", "Atlas 800T A2", 1, 8),
        ("X1 2 nodes x 8 GPUs", "X1", 2, 8), ("X1 4 nodes × 8 GPUs", "X1", 4, 8), ("X1 2机×8卡", "X1", 2, 8),
        ("X1 2 nodes, 8 GPUs each", "X1", 2, None), ("X1 2 nodes 16 gpus", "X1", 2, None), ("X1单机8卡", "X1", 1, 8),
        ("BI-V150两机32卡", "BI-V150", 2, 16), ("X1 4 nodes, 32 GPUs (4x8)", "X1", 4, 8),
        ("X1 8 GPUs, single node", "X1", 1, 8)]),
    "names of devices are read whole": (ON.format("NVIDIA A100-SXM4-40GB"), "configuration | token/p/s", "{} | 2868",
                                        MACHINE, [
        ("MLU单机8卡（1x8）", "MLU", 1, 8), ("MLU370-X8 (1x8)", "MLU370-X8", 1, 8), ("910 1*8p", "910", 1, 8),
        ("TPU v5p (4x4)", "TPU v5p", 4, 4), ("英伟达 A100 (1x8)", "A100", 1, 8),
        ("AMD Instinct MI300X (1x8)", "MI300X", 1, 8), ("Moore Threads S4000 (2x8)", "S4000", 2, 8),
        ("Ascend 910B (2x8)", "910B", 2, 8), ("Atlas 800T A2单机8卡（1x8）（finetune）", "Atlas 800T A2", 1, 8),
        ("GPU 1x8", None, 1, 8)]),
    "systems and machines": ("# Results", "System | GPUs | tok/s/GPU", "{} | 256 | 6304",
                             "hardware.device hardware.devices vendor unread", [
        ("DGX-GB300", "GB300", 256, "nvidia", []),
        ("H200", "H200", 256, "nvidia", []), ("H100 SXM", "H100 SXM", 256, "nvidia", []),
        ("Megatron-LM 3", None, 256, None, ["expected a machine such as DGX-H100 or (1x8): Megatron-LM 3"])]),
    "a machine that names devices with their number is the device": (
        "# Results", "Machine | seq len | tokens/s/GPU", "{} | 512 | 3000", "hardware.device hardware.devices",
        [("4xA10G", "A10G", 4), ("ABCI-3", None, None)]),
    "devices that are counted or named are understood": (
        "# Results", "Hardware | Model | precision | tokens/s/GPU | MFU", "{} | llama2_7b | bf16 | 9000 | 38.2%",
        "unread outcomes devices", [
        ("8x H200 SXM", [], ["agrees"], ["NVIDIA H200"]),
        ("H200", [], ["agrees"], ["NVIDIA H200", "NVIDIA H200 NVL"])]),
    "a column of devices may have a product or their name": (
        "# Results", "Model | GPUs | precision | tokens/s", "Llama 2 7B | {} | bf16 | 29 911", "hardware.world_size",
        [("2x4", 8), ("2x4 H100-SXM5-80GB", 8), ("8x H100", 8), ("8", 8)]),
    "a cell that names no device, or two": ("# Results", "GPU | tokens/s/GPU", "{} | 100", f"{MACHINE} unread", [
        ("1x 4090", None, None, None, UNKNOWN_DEVICE), ("H100/H200 SXM", None, None, None, UNKNOWN_DEVICE),
        ("NVIDIA A100 or A800", None, None, None, UNKNOWN_DEVICE),
        ("V100/A100 (1x8)", None, 1, 8, UNKNOWN_DEVICE)]),
    "devices beside their name may be those of one node or of all": (
        "# Results", "GPU | Nodes | tokens/s/GPU", "{} | 2 | 100", f"{MACHINE} hardware.devices unread",
        [("8x A100", "A100", 2, None, None, NO_GRID)]),
    "models, numbered configurations and devices": ("# Results", "Configuration | TGS", "{} | 100", "hardware.device", [
        *((text, None) for text in ("Config 2", "LLaMA2 7B", "GPT-3", "Qwen2.5-72B", "zero3", "bfloat16, eager",
                                    "Baseline 1", "P1 baseline (AC=on)", "OLMo 3 32B", "P2 (AC=off, native)")),
        ("Z1 (1x8)", "Z1"), ("NVIDIA L4 server", "L4"), ("TPU v3 slice", "TPU v3"), ("Gaudi 2 pod", "Gaudi 2")]),
    "numbered configurations are listed": ("# Results", "Configuration | tokens/s/GPU", "{} | 3000", "unread", [
        (text, NO_GRID) for text in ("P1 baseline (AC=on)", "OLMo 3 32B", "P2 (AC=off, native)")]),
    "a device that one vendor publishes settles the vendor": (
        "# Results", "Hardware | Model | tokens/s/GPU", "{} | Llama 2 7B | 3700", "vendor",
        [("8x A100-SXM4-80GB", "nvidia"), ("4x NVIDIA H200 (141 GB) per node", "nvidia"), ("8x MI300X", "rocm"),
         ("8x Z9000", None), ("8 GPUs", None)]),
    "the vendor of rows without an accelerator": (
        "# Results", "configuration | token/p/s", "{} | 3000", "vendor",
        [("英伟达 A100 (1x8)", "nvidia"), ("MLU370 (1x8)", "cambricon"), ("Atlas 800T A2 (1x8)", "ascend"),
         ("8x A100-SXM4-80GB", "nvidia"), ("X9000 (1x8)", None), ("GPU 1x8", None)]),
    "a family without form factors in its names is found": (
        "# AMD Instinct results", "configuration | tokens/s/GPU", "{} | 3000", "hardware.device devices",
        [("MI300X OAM (1x8)", "MI300X OAM", ["AMD Instinct MI300X"])]),
    "a column of accelerators beside one of hardware": (
        ON.format(A100_SXM), "Hardware | Accelerator | tokens/s/GPU", "2 nodes x 8 GPUs | {} | 3000",
        f"{MACHINE} hardware.device_model devices errors",
        [("H100 PCIe", "H100 PCIe", 2, 8, None, ["NVIDIA H100 PCIe"], [])]),
    "degrees have columns of their own": (
        "# Results", "GPUs | TP | PP | CP | VP | EP | FSDP | TGS", "64 | 2 | 4 | 2 | {} | 8 | 0 | 100",
        f"{LAYOUT} parallelism.other parallelism.sharding_degree", [("n/a", 2, 4, None, {"CP": 2, "EP": 8}, None)]),
    "context parallel divides data parallel": (
        "# Results", "configuration | TP | PP | CP | TGS", "A100 (2x8) | 2 | 1 | {} | 100",
        "batch.data_parallel batch.origins.data_parallel", [("4", 2, "nodes x devices / (TP x PP x CP)")]),
    "a version of FSDP is no degree": (
        "# Results", "Parallelism | TPS/GPU", "{} | 3890", "parallelism.sharding_degree parallelism.other.CP unread",
        [("FSDP 8, CP 1", 8, 1, []), ("FSDP=4", 4, None, []), ("FSDP 2, CP 4", 2, 4, []),
         ("FSDP2", None, None, "FSDP2"), ("FSDP 2", None, None, "FSDP 2"), ("TP=4+FSDP=2", 2, None, []),
         ("fsdp: 16", 16, None, []), ("FSDP", None, None, "FSDP"), ("HSDP 2x4", None, None, "HSDP 2x4")]),
    "degrees beside a stage of ZeRO": (
        "# Results", "Parallelism | TGS", "{} | 100", f"{LAYOUT} parallelism.sharding_stage",
        [("zero1(dp2)+tp2+pp4", 2, 4, 2, 1), ("ZeRO-3, TP8", 8, None, None, 3), ("zero2(dp8)", None, None, 8, 2),
         ("zero3", None, None, None, 3), ("ZeRO-DP O3, DP_SIZE=8", None, None, 8, 3),
         ("deepspeed ZeRO stage 2", None, None, None, 2), ("deepspeed ZeRO-DP", None, None, None, None),
         ('sharding="stage1", pipline_parallel_degree=4', None, 4, None, 1), ("TP2PP4SH1SP1", 2, 4, None, 1)]),
    "degrees joined to a stage": (
        "# Results", "模型 | 分布式策略 | 速度(`tokens/card/sec`) | 显存占用 (MB)", "a | {} | 1980 | 64323",
        "parallelism.tensor_parallel parallelism.sharding_degree parallelism.sharding_stage",
        [("tp2sd4_stage2", 2, 4, 2)]),
    "degrees in any order and experts": (
        X1, "配置 | parallel | token/p/s", "X1 (1x8) | {} | 100", f"{LAYOUT} parallelism.other",
        [("PP2DP2EP4TP8", 8, 2, 2, {"EP": 4}), ("TP2SP2", 2, None, None, {"SP": 2})]),
    "withheld figures": (
        "# Results", "GPUs | TGS | mem | loss", "8 | {} | {} | 2.0", f"metrics.memory.used unread {SPEEDS}", [
        (text, (), [], None, None) for text in (
            "/", "-", "--", "---", "*", "\\", "N/A", "n.a.", "无", "none", "／", "—", "－")]),
    "claims on the global batch": (
        X1, "配置 | fix_hp | token/p/s", "X1 (1x8) | {} | 100", "claims.0.global_batch claims.0.tokens", [
        ("GAS=512(GBS=1024=4M tokens)", 1024, 4e6), ("GBS=1024", 1024, None),
        *((text, None, 4e6) for text in ("(global bs = 4M tokens)", "(global bs =4M tokens)", "globalbs=4M tokens",
                                         "（global bs ＝ 4M tokens）"))]),
    "names of configurations": (
        "# Results", "configuration | config | token/p/s", "A100 (1x8) | {} | 100", CONFIGURATION, [
        ("config_A100x1x8.py", "A100", None, 1, 8, {}), ("config_H80080Gx2x8", "H800", 80, 2, 8, {}),
        ("config_TP2PP4SH1SP1A10080Gx1x8", "A100", 80, 1, 8, {"TP": 2, "PP": 4, "SH": 1, "SP": 1}),
        ("config_TP1PP1SH2SP8A10040Gx1x8", "A100", 40, 1, 8, {"TP": 1, "PP": 1, "SH": 2, "SP": 8}),
        ("config_H20141Gx1x8", "H20", 141, 1, 8, {}), ("config_R300x1x8", "R300", None, 1, 8, {})]),
    "precisions": (
        "# Results", "configuration | precision | token/p/s", "A100 (1x8) | {} | 100", "precision", [
        ("fp16", "fp16"), ('fp16, level="O2"', "fp16"), ("BF16", "bf16"), ("amp", None), ("fp32/amp/fp16", None),
        ("", None), ("float32", "fp32")]),
    "settings in a cell": (
        X1, "配置 | fix_hp | token/p/s", "X1 (1x8) | {} | 100", "batch.seq_len batch.micro_batch precision unread", [
        *((text, 512, 12, None, []) for text in ("MPE=512 LBS=12", "MPE=512，LBS=12", "ＭＰＥ＝５１２；ＬＢＳ＝１２")),
        ("数据精度=fp16, local_batchsize=4", None, 4, "fp16", []), ("/", None, None, None, []),
        ("LBS=64, see the script", None, 64, None, "see the script"), ("LBS=64, LBS=32", None, 64, None, "LBS=32")]),
    "settings joined by a plus are two": (
        "# Results", "parallel | TGS", "{} | 100", "parallelism.tensor_parallel parallelism.sharding_degree",
        [("TP=4+FSDP=2", 4, 2)]),
    "a framework in a column is listed": (
        "# Results", "Framework | parallel | tokens/s/GPU", "Megatron-LM | {} | ~3,800", f"{LAYOUT} unread",
        [("TP=8, PP=4, DP=2", 8, 4, 2, "expected the framework above the table, not in a column: Megatron-LM"),
         ("16-node TP8 PP4 +offload", None, None, None,
          "expected a layout such as TP4PP1DP2 or settings such as sharding_degree=8 in this cell: 16-node")]),
    "settings beside a throughput make results": (
        "# Results", "TP | GPU Num | Seq Len | Micro Bsz | Micro Num | Activation Ckpt | TGS | TFLOPS",
        "1 | 8 | {} | 8 | 1 | TRUE | 3314 | 193",
        "batch.micro_batch batch.gradient_accumulation batch.seq_len hardware.devices metrics.other.TFLOPS",
        [("2048", 8, 1, 2048, 8, 193)]),
    "a global batch that may count tokens is not read": (
        "# Results", "TP | Global Bsz | TGS", "1 | {} | 3314", "claims batch.global_batch unread",
        [(cell, (), None, "expected a whole number above 0 for global_batch: ") for cell in ("4M", "0.125M")]),
    "lengths below a header in thousands": (
        "# Results", "GPUs | SeqLen (K) | TGS", "8 | {} | 3314", "batch.seq_len metrics.other.SeqLen_(K)",
        [("8", None, 8)]),
    "lengths below another header": ("# Results", "SeqLen | TGS", "{} | 3314", "batch.seq_len", [("8", 8)]),
    "figures with footnotes and joined units": (
        "# Results", "GPUs | TGS | MFU%", "8 | 661[^a-note] | {}", f"metrics.mfu {SPEEDS}",
        [("40%[^1]", 0.4, 661, None), ("34.5%", 0.345, 661, None), ("34.5", 0.345, 661, None)]),
    "two figures in a cell are refused": (
        "# Results", "GPUs | TGS", "8 | {}", f"{SPEEDS} unread", [("37556 (36108)", None, None, "37556 (36108)")]),
    "a ratio is no throughput": (
        "# Results", "configuration | tokens/s/GPU", "with packing | {}", f"{SPEEDS} unread",
        [("+2.5x", None, None, "found x"), ("2.5x", None, None, "found x"), ("1.2 times", None, None, "found times"),
         ("2.5 倍", None, None, "found 倍")]),
    "a column of inference is no throughput": (
        "# Results", "GPU | TGS | Inference (tokens/s)", "A100 | 3000 | {}",
        f"{SPEEDS} metrics.other.Inference_(tokens/s)", [("42.5", 3000, None, 42.5)]),
    "accumulation is no accuracy": (
        "# Results", "GPUs | {} | tokens/s/GPU", "8 | 16 | 3000",
        "batch.gradient_accumulation metrics.evaluation",
        [("Accumulated batch size", None, {}), ("Grad Acc", 16, {}), ("Other grad acc.", None, {})]),
    "tags around a header are no part of it": (
        "# Results", '<div style="width:9px;">Model ID</div> | Number of chips | TGS', "{} | 64 | 100",
        "model hardware.devices", [("llama2_7b", "llama2_7b", 64)]),
    "words and names of runs are no numbers": (
        "# Results", "GPUs | run | size | tokens/s/GPU", "8 | {} | 52B | 3000", "metrics.other.run unread",
        [("89ibnowv", None, "its cells are kept: run"), ("LoRA r=16", None, "its cells are kept: run")]),
    "names of models": (
        "# Results", "Hardware | Model | tokens/s/GPU", "8x A100 | {} | 3700", "model",
        [("Mixtral 8*7B", "mixtral_8x7b"), ("Mixtral-8 x 7B", "mixtral_8x7b"), ("llama3_70b", "llama3_70b"),
         ("Llama-3 70B", "llama3_70b")]),
    "spaces separate thousands": (
        "# Results", "Hardware | Model | total tokens/s", "8x A100 | Llama 2 7B | {}", "metrics.tokens_per_second",
        [("29 911", 29911), ("1\N{NO-BREAK SPACE}234\N{NO-BREAK SPACE}567", 1234567), ("2 868.5 tokens/s", 2868.5),
         ("29 91", None), ("12 345 6", None)]),
    "a throughput of one device": (A100, "configuration | {} | MFU", "A100 (2x8) | 3000 | 40.4%",
                                   f"{SPEEDS} unread outcomes", [
        (header, 3000, None, [], ["agrees"]) for header in (
            "每卡吞吐（tokens/s）", "Per-GPU throughput (tokens/s)", "吞吐量(tokens/s/卡)", "单芯片吞吐(tokens/s)",
            "tokens/s/chip", "tokens/sec/chip", "tokens/s per GPU", "每GPU tokens/s", "tokens_per_sec_per_gpu",
            "tokens/(s*GPU)", "Avg. tokens per second per GPU", "Single-node throughput (tokens/s/GPU)", "TGS",
            "`tokens/card/sec`")]),
    "a throughput of all devices": (
        A100, "configuration | {} | MFU", "A100 (2x8) | 48000 | 40.4%", f"{SPEEDS} unread", [
        (header, None, 48000, []) for header in (
            "tokens/s", "Throughput (tokens/s)", "Total throughput (tokens/s)", "吞吐（tokens/s）", "总吞吐(tokens/s)",
            "Throughput (tokens per second)", "Total throughput of all GPUs (tokens/s)",
            "Average training speed (tokens/s)")]),
    "a header with other words does not say what is counted": (
        A100, "configuration | {} | MFU", "A100 (2x8) | 3000 | 40.4%", f"{SPEEDS} unread why", [
        (header, None, None, f"expected a unit such as token/p/s under {header!r} to know what it counts: 3000",
         "what its throughput counts is not said") for header in (
            "Throughput per rack (tokens/s)", "每机柜吞吐(tokens/s)", "Throughput (tokens/s, 8 GPUs)",
            "Throughput (tokens/s, odd)", "GPU throughput (tokens/s)", "Throughput (tokens/GPU/day)",
            "Throughput (tokens/hour)", "TPS")]),
    "a throughput of one node": (
        A100, "configuration | {} | MFU", "A100 (2x8) | 24000 | 40.4%",
        f"{SPEEDS} metrics.tokens_per_second_per_device.printed metrics.tokens_per_second_per_device.scale outcomes",
        [(header, 3000, None, "24000", 0.125, ["agrees"]) for header in (
            "Throughput per node (tokens/s)", "单机吞吐(tokens/s)", "每节点吞吐 (tokens/s)", "tokens/s/node")]),
    "a throughput of one node of unknown size": (
        A100, "GPUs | {} | MFU", "16 | 24000 | 40.4%", f"{SPEEDS} unread", [
        (header, None, None, f"expected the devices of each node in the row, to divide the figure under {header!r}")
        for header in ("单机吞吐(tokens/s)", "tokens/s/node")]),
    "a withheld cell takes no figure's place": (
        A100, "configuration | tokens/s | tokens/s/GPU", "A100 (1x8) | {}", SPEEDS, [
        *((f"{cell} | 3000", 3000, None) for cell in ("", "-", "*")),
        *((f"24000 | {cell}", None, 24000) for cell in ("", "-", "*"))]),
    "a throughput that is withheld or of an unknown number of devices": (
        "# NVIDIA results", "configuration | model | tokens/s | MFU", "{} | 40%", "why", [
        ("A100 (1x8) | llama2_7b | -", "its throughput is withheld"),
        ("A100 | llama2_7b | 3000", "the number of devices is not known")]),
    "a unit that completes its column is read": (
        A100, "configuration | {}", "A100 (1x8) | 3.6k tokens/s", SPEEDS, [("Throughput per GPU", 3600, None)]),
    "a unit of one device below a throughput": (
        A100, "configuration | {}", "A100 (1x8) | 3.6k tokens/s/GPU", SPEEDS, [("throughput", 3600, None)]),
    "a second throughput of the same is listed": (
        A100, "configuration | tokens/s/GPU | tokens/s/card", "A100 (1x8) | 3000 | {}", f"{SPEEDS} unread",
        [("3100", 3000, None,
          ["expected one throughput of one device, found another under 'tokens/s/card': 3100"])]),
    "a unit that fits is read": (A100, "configuration | mem | {}", "A100 (1x8) | 32/80 | 2868", SPEEDS, [
        ("tok/s/GPU", 2868, None), ("TPS/GPU", 2868, None), ("Tokens / sec / GPU", 2868, None), ("tok/s", None, 2868),
        ("Throughput (T/s)", None, 2868), ("Throughput (T/s/GPU)", 2868, None)]),
    "a cell with a unit that fits is read": (
        A100, "configuration | mem | throughput", "A100 (1x8) | 32/80 | {}", SPEEDS, [
        ("2,868.5 token/p/s", 2868.5, None), ("2868³ tokens/s/GPU", None, None), ("2868 tok/s/gpu", 2868, None),
        ("22944 tokens per second", None, 22944)]),
    "digits of other forms": (A100, "configuration | mem | tokens/p/s", "A100 (1x8) | 32/80 | {}", SPEEDS, [
        ("2868³", 2868, None), ("４３００", 4300, None)]),
    "peak memory is of how much": (
        X1, "配置 | Peak mem (GB) | token/p/s", "X1 (1x8) | {} | 100",
        "metrics.memory.used.0.each metrics.memory.total metrics.other unread", [("141.2 / 192", 141.2, 192, {}, [])]),
    "alignment with a remark": (
        X1, "配置 | token/p/s | 是否精度对齐", "X1 (1x8) | 100 | {}", "metrics.aligned unread", [
        ("True(作为基线)", True, []), ("True（the baseline）", True, []), ("False, see below", False, []),
        ("\\*（仅供性能参考）", None, []), ("/,仅供性能参考", None, []), ("*（仅供性能参考）*", None, []),
        ("doing", None, "expected true or false under '是否精度对齐'")]),
    "a second dtype beside the first fixes none": (
        X1, "配置 | precision | token/p/s", "X1 (1x8) | {} | 100", "precision precision_text", [
        ("bf16", "bf16", "bf16"), ("bf16+fp8", None, "bf16+fp8"), ("fp8", None, "fp8"), ("int8", None, "int8"),
        ("fp16/bf16", None, "fp16/bf16"), ("BF16 混合精度", "bf16", "BF16 混合精度")]),
    "a mark behind a setting is not part of it": (
        X1, "配置 | fix_hp | token/p/s", "X1 (1x8) | {} | 100", "claims.0.global_batch unread",
        [("gbs=1760\\*", 1760, [])]),
    "ranges and failures are listed and kept": (
        X1, "配置 | MFU | mem | token/p/s", "X1 (1x8) | {} | OOM | 100",
        "metrics.mfu metrics.memory unread",
        [("25.4%-50.6%", None, None, "expected an amount of memory under 'mem': OOM"),
         ("2000-3000%", None, None, "expected a number under 'MFU': 2000-3000%")]),
    "a second column of a meaning is listed": (
        X1, "配置 | MFU | MFU (%) | token/p/s", "X1 (1x8) | {} | 60 | 100", "metrics.mfu unread",
        [("50%", 0.5, "expected one column of mfu; this one is not read as that")]),
    "a column of changes is read as such": (
        X1, "Machine | Changes | token/p/s | MFU", "A100 (1x8) | {} | 4000 | 50%",
        "fix_hp_text batch.gradient_accumulation", [("GAS=512", "GAS=512", 512)]),
    "columns of global batches are claims": (
        X1, "配置 | GBS | token/p/s", "X1 (1x8) | {} | 100", "claims.0.global_batch claims.0.tokens",
        [("4096", 4096, None), ("1024 = 4M tokens", 1024, 4e6), ("4M tokens", None, 4e6)]),
    "a column of sharding stages is read": (
        X1, "配置 | ZeRO stage | token/p/s", "X1 (1x8) | {} | 100", "parallelism.sharding_stage", [("stage2", 2)]),
    "columns of accelerators in English": (
        "# Results", "Model | # GPUs | GPU | MFU | HFU | GradAccum | Throughput (T/s/GPU) | Precision",
        "7b | 8 | {} | 42.57 | 56.2 | 2 | 9000 | bf16",
        "hardware.device hardware.device_memory hardware.devices metrics.mfu metrics.hfu batch.gradient_accumulation",
        [("h100_80gb", "h100", 80, 8, 0.4257, 0.562, 2)]),
    "counts that contradict each other are errors": (
        "# Results", "{} | tokens/s/GPU", "{} | 3000", "errors", [
        ("nodes | GPUs per node | GPUs => 2 | 8 | 32", "found 32"), ("GPUs | GPUs per node => 12 | 8", "found 12"),
        ("nodes | GPUs per node | total GPUs => 2 | 8 | 32", "found 32"),
        ("nodes | GPUs per node | GPUs => 2 | 8 | 16", [])]),
    "a degree without a column is not held against the row": (
        "# Results", "configuration | {} | tokens/s/GPU", "A100 (8x8) | {} | 3000", "errors", [
        ("DP | PP => 1 | 16", []), ("TP | DP | PP => 1 | 1 | 16", "LP111: "), ("DP | PP => 3 | 16", "LP111: ")]),
    "a row of another form factor is not on the device of the environment": (
        ON, "configuration | tokens/s/GPU", "{} | 3000", "hardware.device_model devices", [
        (f"{H100_SXM} => H100-PCIe (1x8)", None, ["NVIDIA H100 PCIe"]),
        (f"{H100_SXM} => H100 PCIe 80GB (1x8)", None, ["NVIDIA H100 PCIe"]),
        (f"{H100_SXM} => H100 (PCIe) 1x8", None, ["NVIDIA H100 PCIe"]),
        (f"{H100_SXM} => H100 NVL (1x8)", None, ["NVIDIA H100 NVL"]),
        (f"{H100_SXM} => H100 OAM (1x8)", None, []),
        (f"{A100_SXM} => A100-PCIe (1x8)", None, ["NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe"]),
        (f"{A100_SXM} => A100-PCIE-40GB (1x8)", None, ["NVIDIA A100-PCIE-40GB"]),
        ("NVIDIA H100 80GB HBM3 => H100 PCIe (1x8)", None, ["NVIDIA H100 PCIe"]),
        ("NVIDIA H100 PCIe => H100-SXM5 (1x8)", None, ["NVIDIA H100 80GB HBM3"])]),
    "a system of another form factor is not on the device of the environment": (
        ON, "configuration | tokens/s/GPU", "{} | 3000", "hardware.device_model",
        [("NVIDIA H100 PCIe => DGX-H100 (1x8)", None)]),
    "a row of the same form factor is on the device of the environment": (
        ON, "configuration | tokens/s/GPU", "{} | 3000", "hardware.device_model", [
        *((f"{H100_SXM} => {cell}", H100_SXM) for cell in (
            "H100 (1x8)", "H100-SXM (1x8)", "DGX-H100 (1x8)", "HGX H100 (1x8)", "H100 SXM5 80GB (1x8)",
            "H100 (1x8), PCIe 4.0")),
        (f"{A100_SXM} => A100-SXM4-80GB (1x8)", A100_SXM),
        ("NVIDIA H100 80GB HBM3 => HGX H100 (1x8)", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA H100 PCIe => H100-PCIe (1x8)", "NVIDIA H100 PCIe")]),
    "the environment's accelerator is the row's unless that names another": (
        X1.replace("X1", "{}"), "配置 | token/p/s", "{} | 100", "hardware.device_model", [
        ("NVIDIA_A100-SXM4-40GB => A100单机8卡（1x8）", "NVIDIA_A100-SXM4-40GB"),
        ("NVIDIA_A100-SXM4-40GB => H100单机8卡（1x8）", None), ("NVIDIA_A100-SXM4-40GB => A10单机8卡（1x8）", None),
        ("昆仑芯AI加速卡R300 => R300单机8卡（1x8）", "昆仑芯AI加速卡R300"),
        ("BI-V150 64G => BI_V150 1x8", "BI-V150 64G"),
        ("H800-80GB => 单机8卡（1x8）", "H800-80GB"), ("a800 => A800 (1x8*80G)", "a800")]),
    "a row on an unread or withheld device is not on that of the environment": (
        A100_40, "configuration | token/p/s | MFU", "{} | 2868 | 9.9%", "hardware.device_model LP311", [
        *((cell, None, False) for cell in (
            r"\* (1x8)", "* (1x8)", "/ 单机8卡（1x8）", "TPU v5p (1x8)", "Vendor X (1x8)", "X (1x8)", "国产芯片单机8卡",
            "MLU (1x8)", "/")),
        ("H100单机8卡（1x8）", None, True)]),
    "a row that says nothing else of its device is on that of the environment": (
        A100_40, "configuration | token/p/s | MFU", "{} | 2868 | 38.6%", "hardware.device_model", [
        (cell, "NVIDIA A100-SXM4-40GB") for cell in (
            "A100 (1x8)", "1x8", "单机8卡（1x8）", "8 GPUs", "2 nodes, 8 GPUs each", "NVIDIA (1x8)", "", "GPU 1x8",
            "（1x8）（finetune）", "NVIDIA A100单机8卡（1x8*40G）")]),
    "a row of another vendor that names no device is not on that of the environment": (
        A100_40, "configuration | tool | token/p/s", "1x8 | {} | 2868", "hardware.device_model",
        [("tensorrt", "NVIDIA A100-SXM4-40GB"), ("kunlunxin_xtcl", None)]),
    "a device that is not read is listed": (
        A100_40, "configuration | token/p/s | MFU", "{} | 2868 | 38.6%", "unread",
        [("Vendor X (1x8)", UNKNOWN_DEVICE), (r"\* (1x8)", [])]),
    "the vendor of the title": (A100_40.replace("# NVIDIA results", "# {}"), "configuration | token/p/s", "1x8 | 2868",
                                "vendor", [("Results", "nvidia"), ("英伟达配置与运行信息参考", "nvidia")]),
    "one label for machine and accelerator": (
        "# NVIDIA results\n## Hardware environment\n- 机器、加速卡型号: {}\n## Performance metrics",
        "configuration | token/p/s", "1x8 | 2868", "hardware.device_model",
        [("NVIDIA_A100-SXM4-40GB", "NVIDIA_A100-SXM4-40GB")]),
    "a sentence sets no degree": (
        "# NVIDIA results\n## Parallel strategy\n- {}\n## Performance metrics",
        "configuration | parallel | token/p/s", "A100 (1x8) | — | 2868",
        "parallelism.tensor_parallel parallelism.sharding_degree unread", [
        *((text, None, None, "a sentence sets nothing: ") for text in (
            "FSDP beats TP=4", "TP=4 was slower", "no TP=4", "FSDP, because TP=4 was slower", "不如 TP=4")),
        ("TP=4+FSDP=2", 4, 2, []), *((text, 4, None, []) for text in (
            "Megatron-DeepSpeed with TP=4, PP=1", "张量并行 TP=4", "DeepSpeed ZeRO-1, TP=4", "Details: tp=4, pp=1",
            "ZeRO-DP O3, TP=4, DP_SIZE=2", "ZeRO-DP O2, ZeRO-Offload, TP=4"))]),
    "cards of two dies may have a rank on each": (
        "# NVIDIA results\n## Parallel strategy\n- Details: see {}\n## Performance metrics",
        "configuration | parallel | token/p/s", "A100 (1x8) | TP2PP2DP4 | 2868", "LP111",
        [("config_A100x1x16", False), ("config_A100x1x8", True)]),
    "a technique that is named as not used is not used": (
        f"{X1}- ##### 优化策略\n  - {{}}\n* 性能指标", "配置 | token/p/s", "X1 (1x8) | 100", "framework", [
        *((text, "lora") for text in ("LoRA", "LoRA: rank 8", "peft LoRA, r=8", "使用LoRA", "优化方案: LoRA")),
        *((text, None) for text in ("LoRA: not used", "lora: -", "LoRA: 无", "no LoRA", "未使用LoRA", "without LoRA",
                                    "flora"))]),
    "megatron alone is not megatron-deepspeed": (
        f"{X1}- ##### 并行策略\n  - 实施者：{{}}\n* 性能指标", "配置 | token/p/s", "X1 (1x8) | 100", "framework",
        [("Megatron-LM", None), ("Megatron Deepspeed", "megatron_deepspeed")]),
    "columns of settings": (
        BATCH, "配置 | parallel | {} | token/p/s", "X1单机8卡 | TP1PP1 | {} | 100",
        "batch.seq_len batch.micro_batch batch.data_parallel batch.global_batch unread", [
        ("seq_len => 8k", 8192, 2, 8, 64, []), ("seq_len => 4K", 4096, 2, 8, 64, []),
        ("seq_len => 2048 tokens", 2048, 2, 8, 64, []), ("seq_len => long", None, 2, 8, 64, "for seq_len: "),
        ("seq_len => /", 4096, 2, 8, 64, []), ("DP => two", 4096, 2, None, None, "for data_parallel: "),
        ("MBS => 1-2", 4096, None, 8, None, "for micro_batch: "), ("GBS => ~64", 4096, 2, 8, 64, "for global_batch: "),
        ("TP => auto", 4096, 2, None, None, "for tensor_parallel: "),
        ("ZeRO stage => auto", 4096, 2, 8, 64, "for sharding_stage: "),
        ("recompute => maybe", 4096, 2, 8, 64, "for gradient_checkpointing: ")]),
    "machines by columns": (
        X1, "{} | token/p/s", "{} | 100", "hardware.nodes hardware.devices_per_node hardware.devices", [
        ("配置 | Nodes | GPUs per node => X1 | 2 | 8", 2, 8, None), ("配置 | Nodes | GPUs => X1 | 1 | 8", 1, 8, 8),
        ("配置 | Nodes | 总卡数 => X1 | 2 | 16", 2, 8, 16), ("配置 | GPUs => X1 | 8", None, None, 8),
        ("配置 | Nodes | GPUs => X1 | 2 | 8", 2, None, None), ("配置 | Nodes | GPUs => X1 | two | 8", None, None, 8),
        ("config => config_X1x2x8", None, None, None)]),
    "the heading above a table names its model": ("# Results\n\n### {}", "GPUs | TGS", "8 | 3314", "model_text model", [
        ("Model: LLaMA-2 7B", "Model: LLaMA-2 7B", "llama2_7b"), ("Llama2-7B", "Llama2-7B", "llama2_7b"),
        ("32B model", None, None), ("Models", None, None)]),
    "shares without a unit are read by their whole column": (
        A100, "configuration | token/p/s | {}", "A100 (1x8) | 3000 | {}",
        "rows.0.metrics.mfu rows.1.metrics.mfu tables.1.columns.2.unit LP217 LP313 unread", [
        ("MFU => 42.57 ;; 40.4", 0.4257, 0.404, "percent", True, False, []),
        ("MFU => 42.57 ;; 1.3", 0.4257, 0.013, "percent", True, False, []),
        ("MFU => 42.57 ;; 0.404", 0.4257, None, "percent", True, False, "may be a share of 1: 0.404"),
        ("MFU => 0.4257 ;; 0.404", 0.4257, 0.404, None, False, False, []),
        ("MFU => 40.4% ;; 42.57", 0.404, 0.4257, "percent", True, False, []),
        ("MFU => 40.4% ;; 0.4257", 0.404, 0.4257, None, False, False, []),
        ("MFU => 1.3 ;; 0.4", None, 0.4, None, False, False, "may be either: 1.3"),
        ("MFU => 42.57 ;; /", 0.4257, None, "percent", True, False, []),
        ("MFU => 38.6 % ;; 0.5%", 0.386, 0.005, None, False, False, []),
        ("MFU (%) => 42.57 ;; 40.4", 0.4257, 0.404, None, False, False, [])]),
    "shares of hardware FLOPs are read like those of a model's": (
        A100, "configuration | token/p/s | HFU", "A100 (1x8) | 3000 | {}",
        "rows.0.metrics.hfu rows.1.metrics.hfu LP313", [
        ("42.57 ;; 1.3", 0.4257, 0.013, False), ("42.57 ;; 0.404", 0.4257, None, False),
        ("0.4257 ;; 0.404", 0.4257, 0.404, False), ("140.4 ;; 57.3", 1.404, 0.573, True)]),
    "a column without a unit is checked as percent": (
        A100, "configuration | token/p/s | MFU", "A100 (1x8) | 3000 | {}", "LP311 LP313",
        [("40.4 ;; 27.3", True, False)]),
    "a cell with another unit than its column is not read": (
        A100, "configuration | mem | {}", "A100 (1x8) | 32/80 | {}",
        f"{SPEEDS} metrics.loss metrics.mfu metrics.other unread", [
        (f"{header} => {cell}", None, None, None, None, {}, [f"expected {message}: {cell}"])
        for header, cell, message in (
            *(("tokens/p/s", cell, f"tokens a second under 'tokens/p/s', found {unit}") for cell, unit in (
                ("12.5 samples/s", "samples/s"), ("650 ms", "ms"), ("3000 TFLOPS", "TFLOPS"), ("40 %", "%"))),
            *(("tokens/p/s", cell, "a number under 'tokens/p/s'") for cell in ("①②", "³000", "30½")),
            ("throughput", "650 ms", "tokens a second or samples or steps a second under 'throughput', found ms"),
            ("loss", "57/80", "one number under 'loss', found 57/80"),
            ("loss", "650 ms", "a number without a unit under 'loss', found ms"),
            ("loss", "40%", "a number without a unit under 'loss', found %"),
            ("MFU", "312 TFLOPS", "percent under 'MFU', found TFLOPS"))]),
    "samples a second are no tokens whatever the general table says": (
        A100.replace("| precision", "| throughput | token/p/s, see the table | |\n| precision"),
        "configuration | mem | throughput", "A100 (1x8) | 32/80 | {}", SPEEDS, [("12.5 samples/s", None, None)]),
    "a unit that contradicts the column is not read": (
        A100, "configuration | {}", "A100 (1x8) | {}", f"{SPEEDS} unread", [
        (f"{header} => {cell} {unit}", None, None,
         [f"expected the unit of the column under {header!r}, found {unit}: {cell} {unit}"]) for header, cell, unit in (
            ("tokens/s", "28800", "tokens/s/GPU"), ("tokens/s/GPU", "3.6k", "tokens/s"),
            ("每节点吞吐", "3000", "tokens/s/GPU"))]),
    "frozen parts are not checked": (
        "# NVIDIA results", "configuration | trained | Model | precision | tokens/s/GPU | MFU",
        "A100 (1x8) | {} | bf16 | 6000 | 22.3%", "outcomes", [
        ("(pretrain) | llava1.5_7b", ["not checked"]), ("(finetune) | llava1.5_7b", ["wrong"]),
        ("frozen embeddings | Llama 2 7B", ["not checked"]), ("(pretrain) | Llama 2 7B", ["wrong"]),
        ("vision tower frozen | Llama 2 7B", ["not checked"]), ("all | Llama 2 7B", ["wrong"])]),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_values_of_a_row(name):
    above, header, row, paths, cases = TABLES[name]
    for case, *expected in cases:
        head, _, cells = case.rpartition(" => ")
        rows = [row.replace("{}", cell) for cell in cells.split(" ;; ")]
        head = head or cells
        published = table(header.replace("{}", head), *rows, above=above.replace("{}", head))
        for path, wanted in zip(paths.split(), expected, strict=True):
            found = value(published, path.replace("_(", " ("))
            if isinstance(found, list) and isinstance(wanted, str):  # in one line, before the cell
                wanted += cells * (path == "unread" and wanted.endswith(": "))
                assert any(wanted in line for line in found), (case, found)
            else:
                assert found == wanted, (case, path)
