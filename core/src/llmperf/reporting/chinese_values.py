"""Chinese translations of values that llmperf composes of its own words.

Parts in braces are values; numbers alone match those named `{n}` to `{q}` in a finished English text. Of the others
only the parts that `OWN` lists, and `{counts}`, are words of llmperf, which are translated too: names of users,
documents and machines stay as they are.
"""

from __future__ import annotations

OWN = ("reason", "verdict", "convention", "layout", "place", "confidence", "method")
"""Parts that are words of llmperf."""

VALUES = {
    "complete": "完成",
    "ok": "正常",
    "invalid": "无效",
    "refused": "已拒绝",
    "error": "错误",
    "warning": "警告",
    "failed": "失败",
    "aborted": "中止",
    "complete, {n} warning": "完成，{n} 个警告",
    "complete, {n} warnings": "完成，{n} 个警告",
    "invalid: {n} error": "无效：{n} 个错误",
    "invalid: {n} errors": "无效：{n} 个错误",
    "failed: {reason}": "失败：{reason}",
    "aborted: {reason}": "中止：{reason}",
    "failed: {reason}, rank {n}: {message}": "失败：{reason}，进程 {n}：{message}",
    "failed: {reason}: {message}": "失败：{reason}：{message}",
    "aborted: {reason}: {message}": "中止：{reason}：{message}",
    "imported: {verdict}": "导入：{verdict}",
    "killed": "被终止",
    "interrupted": "被中断",
    "hung": "无响应",
    "lost": "失去联系",
    "out of memory": "存储不足",
    "oom": "存储不足",
    "imported": "导入",
    "agrees": "一致",
    "wrong": "错误",
    "not checked": "未检查",
    "unknown": "未知",
    "idle": "空闲",
    "packed": "紧密拼接",
    "padded": "填充",
    "high": "高",
    "medium": "中",
    "nominal": "名义口径",
    "exact": "精确口径",
    "palm": "PaLM 口径",
    "causal": "因果口径",
    "full": "完整口径",
    "{n} error": "{n} 个错误",
    "{n} errors": "{n} 个错误",
    "{n} warning": "{n} 个警告",
    "{n} file": "{n} 个文件",
    "{n} files": "{n} 个文件",
    "{n} warnings": "{n} 个警告",
    "true": "是",
    "false": "否",
    "measured": "实测",
    "datasheet": "数据手册",
    "low": "低",
    "published": "已发布",
    "{model}, {n} parameters": "{model}，{n} 个参数",
    "{n} micro x {m} accumulated x {o} data parallel = {p} sequences of {q} tokens, {precision}": (
        "微批 {n} x 累积 {m} x 数据并行 {o} = {p} 条序列，每条 {q} token，{precision}"
    ),
    "{n} median, {m} p5, {o} p95": "中位数 {n}，p5 {m}，p95 {o}",
    "{n} steps in {m} s": "{n} 步，共 {m} s",
    "{n} at most": "最多 {n}",
    "{n} on average": "平均 {n}",
    "{used} in use by all, of total": "{used}（所有进程占用/总量）",
    "{n} -> {m} (entropy of the data {o})": "{n} -> {m}（数据熵 {o}）",
    "{n} J, {m} J a token, {o} tokens a joule ({source})": "{n} J，每 token {m} J，每焦耳 {o} token（{source}）",
    "{n}, {m} of them warm-up": "{n}，其中 {m} 步预热",
    "{framework}, {layout}, sharding stage {n} over {m}": "{framework}，{layout}，{m} 路分片阶段 {n}",
    "{layout}, sharding stage {n}": "{layout}，分片阶段 {n}",
    "attention, and all work on padding: the tokens of each record are not known": (
        "注意力以及填充部分的全部计算：各条记录的 token 数未知"
    ),
    "{model} by {framework} (variant): {device}": "{model}（{framework}，变体）：{device}",
    "agrees ({counts})": "一致（{counts}）",
    "wrong ({counts})": "错误（{counts}）",
    "not checked ({counts})": "未检查（{counts}）",
    "parameters beyond the nominal size: {n} x {m}": "超出名义规模的参数：{n} x {m}",
    "attention scores and values: {n} x {m} x {o} x {p}": "注意力得分与加权：{n} x {m} x {o} x {p}",
    "the masked half of attention, where a kernel computes it: {n} x {m} x {o} x {p}": (
        "注意力被掩码的一半（若内核计算它）：{n} x {m} x {o} x {p}"
    ),
    "masked scores, where a kernel computes them": "被掩码的得分（若内核计算它们）",
    "adapters: {n} x {m}": "适配器：{n} x {m}",
    "the forward recomputed by gradient checkpointing": "梯度检查点重计算的前向",
    "element-wise work: norms, softmax, positions, activations, residuals, loss, optimiser": (
        "逐元素运算：归一化、softmax、位置编码、激活、残差、损失、优化器"
    ),
    "{layout}, sharding stage {n} over {m}": "{layout}，{m} 路分片阶段 {n}",
    "{layout}, sharding stage {n} over {m} = {o} ranks": "{layout}，{m} 路分片阶段 {n} = {o} 个进程",
    "{case} (variant)": "{case}（变体）",
    "follows from global_batch": "由 global_batch 得出",
    "token/p/s = {n} tokens of {m} measured steps / {o} s / {p} devices": (
        "token/p/s = {m} 个测量步的 {n} token / {o} s / {p} 个设备"
    ),
    "token/p/s = {n} tokens of {m} measured steps / {o} s / {p} ranks, which share a device": (
        "token/p/s = {m} 个测量步的 {n} token / {o} s / {p} 个进程（共用一个设备）"
    ),
    "step: median {n} s, p5 {m} s, p95 {o} s, mean {p} s": "单步：中位数 {n} s，p5 {m} s，p95 {o} s，平均 {p} s",
    "known entropy of the data: {n} nats per token; no loss gets below it": (
        "数据的已知熵：每 token {n} nats；损失值不会低于它"
    ),
    "run {run}, {begin} to {end}": "运行 {run}，{begin} 至 {end}",
    "{peak} FLOP/s a rank, {dtype}: {source} (confidence: {confidence}, {date})": (
        "每进程 {peak} FLOP/s，{dtype}：{source}（可信度：{confidence}，{date}）"
    ),
    "other processes used {n} % of the cores": "其他进程占用 {n} % 的 CPU 核",
    "the steps are very uneven": "单步时间很不均匀",
    "{intensity} FLOPs a byte ({method}); {place}": "每字节 {intensity} FLOPs（{method}）；{place}",
    "no rates of the device, so its ridge is unknown": "没有设备速率，拐点未知",
    "analytic": "解析",
    "sharding stage {n}": "分片阶段 {n}",
    "data parallel {n}": "数据并行 {n}",
    "tensor parallel {n}": "张量并行 {n}",
    "pipeline parallel {n}": "流水线并行 {n}",
    "{n} days on {o} device": "{o} 台设备需 {n} 天",
    "{n} days on {o} devices": "{o} 台设备需 {n} 天",
    "{n} hours on {o} device": "{o} 台设备需 {n} 小时",
    "{n} hours on {o} devices": "{o} 台设备需 {n} 小时",
    "{n} years on {o} device": "{o} 台设备需 {n} 年",
    "{n} years on {o} devices": "{o} 台设备需 {n} 年",
    "{n} minutes on {o} device": "{o} 台设备需 {n} 分钟",
    "{n} minutes on {o} devices": "{o} 台设备需 {n} 分钟",
    "{n} seconds on {o} device": "{o} 台设备需 {n} 秒",
    "{n} seconds on {o} devices": "{o} 台设备需 {n} 秒",
    "{n} {currency} an hour: {source}, {date}, from {file}": "每小时 {n} {currency}：{source}，{date}，来自 {file}",
    "{n} {currency} a kWh: {source}, {date}, from {file}": "每 kWh {n} {currency}：{source}，{date}，来自 {file}",
    "unknown: {file} has no price of {device}": "未知：{file} 中没有 {device} 的价格",
    "{tokens}: 20 for each parameter (Hoffmann et al. 2022)": "{tokens}：每个参数 20 个（Hoffmann 等，2022）",
    "{tokens}: as asked for (--train-tokens)": "{tokens}：由 --train-tokens 指定",
    "unknown: 20 tokens a parameter holds for dense models trained from scratch; use"
    " --train-tokens": "未知：每参数 20 个 token 只适用于从头训练的稠密模型；请用 --train-tokens",
    "unknown: the model is not in the library; use --train-tokens": "未知：模型不在模型库中；请用 --train-tokens",
    "{n}: the devices alone, without their hosts and cooling": "{n}：仅设备，不含主机与冷却",
    "{n} %: tokens/s of a device, {o} devices against {p}, under one contract (strong"
    " scaling)": "{n} %：单卡 tokens/s，{o} 台设备对比 {p} 台，同一测量约定（强扩展）",
    "every step as fast as the measured ones; no failures, restarts, evaluation or checkpoints; no storage, network or"
    " idle devices are paid": "每一步与测量步同样快；无故障、重启、评测与检查点；不计存储、网络与闲置设备",
    "energy: {n} J a token, {m} tokens a joule = {o} J of all devices, by {source}, / tokens": (
        "能耗：每 token {n} J，每焦耳 {m} token = 所有设备的 {o} J（{source}）/ token 数"
    ),
    "{n} published row: {m} agree, {o} wrong, {p} not checked": (
        "{n} 行已发布数据：{m} 行一致，{o} 行错误，{p} 行未检查"
    ),
    "{n} published row: {m} agree, {o} wrong, {p} not checked ({counts})": (
        "{n} 行已发布数据：{m} 行一致，{o} 行错误，{p} 行未检查（{counts}）"
    ),
    "{n} published rows: {m} agree, {o} wrong, {p} not checked": (
        "{n} 行已发布数据：{m} 行一致，{o} 行错误，{p} 行未检查"
    ),
    "{n} published rows: {m} agree, {o} wrong, {p} not checked ({counts})": (
        "{n} 行已发布数据：{m} 行一致，{o} 行错误，{p} 行未检查（{counts}）"
    ),
    "{n} published rows: {m} agree, {o} wrong, {p} not checked; {q} of those that agree with peaks or models of the"
    " importer": "{n} 行已发布数据：{m} 行一致（其中 {q} 行使用导入者提供的峰值或模型），{o} 行错误，{p} 行未检查",
    "{n} published rows: {m} agree, {o} wrong, {p} not checked ({counts}); {q} of those that agree with peaks or models"
    " of the importer": (
        "{n} 行已发布数据：{m} 行一致（其中 {q} 行使用导入者提供的峰值或模型），{o} 行错误，{p} 行未检查（{counts}）"
    ),
    "{name} (simulated)": "{name}（模拟）",
    "{name} line {n}": "{name} 第 {n} 行",
    "{n} run": "{n} 次运行",
    "{n} runs": "{n} 次运行",
    "{n} steps": "{n} 步",
    "node {n}": "节点 {n}",
    "data parallel": "数据并行",
    "{devices}, each rank with {share} of one": "{devices}，每进程占用一台设备的 {share}",
    "{total} = LBS x GAS x data parallel = {product}": "{total} = LBS x GAS x 数据并行 = {product}",
    "{formula}; nothing recomputed": "{formula}；无重计算",
    "{convention} (headline)": "{convention}（主口径）",
    "fused with the output projection, in parts": "与输出投影融合，分块计算",
    "{kernel}, fused": "{kernel}（融合）",
    "{kernel} by {library} operations": "{kernel}（由 {library} 操作实现）",
    "{n} % of the peak assumed": "假定达到峰值的 {n} %",
    "{share} of the window; by rank {least} to {most}": "测量窗口的 {share}；各进程 {least} 至 {most}",
    "rank {n}; without that the window might be {m} s shorter, of {o} s": (
        "进程 {n}；否则测量窗口（{o} 秒）可缩短 {m} 秒"
    ),
    "after the measured steps and the evaluation, {n} further steps were trained under a profiler: no figure includes"
    " them": "在测量步与评测之后，又在性能分析器下训练了 {n} 步：任何指标都不含这些步",
    "other processes used {n} % of the cores ({programs})": "其他进程占用 {n} % 的 CPU 核（{programs}）",
    "other processes used {n} % of the cores ({programs}) on node {m}": (
        "其他进程占用节点 {m} 上 {n} % 的 CPU 核（{programs}）"
    ),
    "other processes use {n} % of the cores": "其他进程占用 {n} % 的 CPU 核",
    "other processes use {n} % of the cores ({programs})": "其他进程占用 {n} % 的 CPU 核（{programs}）",
    "other processes computed on the devices: {n}": "其他进程在设备上运行：{n} 个",
    "a device was slowed by {reasons}": "设备因 {reasons} 降频",
    "processes waited for memory {n} % of the time": "进程有 {n} % 的时间在等待内存",
    "processes waited for memory {n} % of the time on node {m}": "节点 {m} 上的进程有 {n} % 的时间在等待内存",
    "the host swapped {n} MiB": "主机交换了 {n} MiB",
    "the host swapped {n} MiB on node {m}": "节点 {m} 的主机交换了 {n} MiB",
    "the clocks fell by {n} %": "时钟下降了 {n} %",
    "the clocks fell by {n} % on node {m}": "节点 {m} 的时钟下降了 {n} %",
    "the steps became {n} % slower": "单步时间变慢了 {n} %",
    "the steps became {n} % faster": "单步时间变快了 {n} %",
}
"""Values of reports, which are finished English texts."""
