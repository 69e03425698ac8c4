"""Chinese translations of sentences and labels; parts in braces are values."""

from __future__ import annotations

SENTENCES = {
    "{name} is {times} times as fast as {reference} ({basis})": "{name} 的速度是 {reference} 的 {times} 倍（{basis}）",
    "most runs of {name} are faster than those of {reference}, but their median is {times} times as fast ({basis})": (
        "{name} 的多数运行快于 {reference}，但中位数之比为 {times}（{basis}）"
    ),
    "most runs of {name} are slower than those of {reference}, but their median is {times} times as fast ({basis})": (
        "{name} 的多数运行慢于 {reference}，但中位数之比为 {times}（{basis}）"
    ),
    "no difference shown: {name} is {times} times as fast as {reference}, which can be chance ({basis})": (
        "未显示差异：{name} 的速度是 {reference} 的 {times} 倍，可能出于偶然（{basis}）"
    ),
    "cannot tell whether {name} is faster than {reference}: {why}; measured: {times} times as fast": (
        "无法判断 {name} 是否快于 {reference}：{why}；实测速度之比为 {times}"
    ),
    "a single run has no spread (measure with --repeat 4)": "单次运行没有离散程度（请用 --repeat 4 测量）",
    "{ours} and {theirs} runs are too few for p < {level}, 4 and 4 are enough": (
        "{ours} 次和 {theirs} 次运行不足以达到 p < {level}，各 4 次即可"
    ),
    "{ours} runs a side": "每方 {ours} 次运行",
    "{ours} and {theirs} runs": "{ours} 次和 {theirs} 次运行",
    "± is half of the 95 % interval of the ratio of medians (bootstrap over runs); p is the share of chance orders of"
    " the runs that are at least as different (exact rank-sum test)": (
        "± 为中位数之比的 95 % 区间的一半（对运行做自助法）；p 为运行的随机排序中差异不小于实测的比例（精确秩和检验）"
    ),
    "token/p/s: median of the complete runs; spread: (maximum - minimum) / median; by run: token/p/s of each run, the"
    " oldest first, drawn from the lowest to the highest": (
        "token/p/s：完成的运行的中位数；离散程度：（最大 - 最小）/ 中位数；各次运行：每次运行的 token/p/s，"
        "从最早的开始，按最低到最高绘制"
    ),
    "Comparison of {sides}": "{sides} 的对比",
    "Summary": "汇总",
    "{all} kind of run": "{all} 类运行",
    "{all} kinds of run": "{all} 类运行",
    ", {all} imported row": "，{all} 行导入数据",
    ", {all} imported rows": "，{all} 行导入数据",
    "{model}, imported: {precision}, {seq_len} tokens x {batch}": (
        "{model}（导入）：{precision}，{seq_len} token x {batch}"
    ),
    "imported: figures that a document prints, without runs and spread; `agrees` says only that they agree with each"
    " other": "导入：文档所印数据，无运行与离散程度；“一致”只表示这些数据彼此相符",
    "scaling efficiency: tokens/s of a device against those of the fastest setting on the fewest devices, of one"
    " contract, device and framework (strong scaling: the global batch stays); layout and micro batch may differ": (
        "扩展效率：单卡 tokens/s 与最少设备数上最快设置之比，测量约定、设备与框架相同（强扩展：全局批不变）；并行布局与"
        "micro batch 可以不同"
    ),
    "all kinds": "所有类别",
    "baseline: ": "基线：",
    "all: {kind}": "均为：{kind}",
    "{kind}": "{kind}",
    "{name}: left out: {left_out}": "{name}：未计入：{left_out}",
    "{name} mixes {kinds}: its medians are of no single kind": "{name} 混有 {kinds}：其中位数不属于任何一类",
    "{count} kinds of run, which differ in {parts}": "{count} 类运行，区别在于 {parts}",
    "the contracts of {name} and {reference} differ in {parts}: their figures measure different things": (
        "{name} 与 {reference} 的测量约定在 {parts} 上不同：两者的数值测量的不是同一件事"
    ),
    "the ranks had different parts of a device ({shares}): token/p/s is that of a rank, not of a device": (
        "各进程占用的设备份额不同（{shares}）：token/p/s 是每进程的，而非每设备的"
    ),
    "token/p/s of a rank": "单进程 token/p/s",
    "{case} by {framework}, {layout}, on {devices}, {changes}": (
        "{case}，框架 {framework}，{layout}，设备 {devices}，{changes}"
    ),
    "{model}, {phase}: {case}{variant}, {precision}, {seq_len} tokens x {batch}": (
        "{model}，{phase}：{case}{variant}，{precision}，{seq_len} token x {batch}"
    ),
    "; changed: {changes}": "；修改：{changes}",
    " (variant)": "（变体）",
    "{model} by {framework} on {devices}": "{model}（{framework}，{devices}）",
    "nothing changed": "无修改",
    "pretraining": "预训练",
    "LoRA": "LoRA 微调",
    "of {runs}": "（共 {runs}）",
    "{name}: {count} {of_all} disturbed, with very uneven steps: {run} ({steps})": (
        "{name}：{count} 次{of_all}受干扰，单步时间很不均匀：{run}（{steps}）"
    ),
    "{name}: {count} {of_all} disturbed, with very uneven steps; the worst is {run} ({steps})": (
        "{name}：{count} 次{of_all}受干扰，单步时间很不均匀；最严重的是 {run}（{steps}）"
    ),
    "{name}: {count} {of_all} disturbed by other processes ({where}): their throughput may be too low: {runs}": (
        "{name}：{count} 次{of_all}受其他进程干扰（{where}）：吞吐量可能偏低：{runs}"
    ),
    "{name}: {count} {of_all} disturbed by other processes ({where}): its throughput may be too low: {runs}": (
        "{name}：{count} 次{of_all}受其他进程干扰（{where}）：吞吐量可能偏低：{runs}"
    ),
    "{figure} ({known} of {all} runs)": "{figure}（{all} 次中的 {known} 次）",
    "memory of a device, GiB, in use by all": "设备内存占用，GiB（所有进程）",
    "{name}: {count} {of_all} disturbed: {run}: {what}": "{name}：{count} 次{of_all}受干扰：{run}：{what}",
    "up to {share} of the cores": "最多占 {share} 的 CPU 核",
    "on its devices": "在其设备上",
    "{names} and {more} more": "{names} 等，另有 {more} 个",
    "median step {median} s, mean {mean} s, 5 % to 95 %: {p5} to {p95} s": (
        "单步中位数 {median} s，平均 {mean} s，5 % 至 95 %：{p5} 至 {p95} s"
    ),
    "{times} times as fast as {row}": "速度是 {row} 的 {times} 倍",
    "a {kind} row is one figure without its spread: whether a difference is significant is unknown": (
        "{kind} 数据行只有一个数值、没有离散程度：差异是否显著未知"
    ),
    "{complete} of {all}": "{complete}（共 {all}）",
    "cannot tell": "无法判断",
    "cannot tell, one figure": "无法判断，仅一个数值",
    "no difference shown": "未显示差异",
    "faster": "更快",
    "slower": "更慢",
    "the same kind": "同类运行",
    "by run": "各次运行",
    "tuning": "调优设置",
    "contract": "测量约定",
    "device share": "设备份额",
    "copies": "副本",
    "without a throughput": "无吞吐量",
    "aligned": "已对齐",
    "NOT aligned": "未对齐",
    "{name}: {outcome}: {why}{counted}, largest difference {largest} nats in {steps} steps": (
        "{name}：{outcome}：{why}{counted}，{steps} 步中最大差值 {largest} nats"
    ),
    "mean relative error {mean} % from step {step} on (limit {limit} %)": (
        "从第 {step} 步起平均相对误差 {mean} %（上限 {limit} %）"
    ),
    "no step from {step} on (--from-step {first} counts all they have)": (
        "没有第 {step} 步及以后的步（--from-step {first} 计入全部）"
    ),
    "; contracts differ in {parts}": "；测量约定在 {parts} 上不同",
    "loss, nats per token, by step": "各步损失值（nats/token）",
    "difference from the reference, nats, by step": "各步与参考的差值（nats）",
    "in {count} more files: {finding}": "另有 {count} 个文件：{finding}",
    "{files}: {errors}, {warnings} (ruleset {ruleset})": "{files}：{errors}，{warnings}（规则集 {ruleset}）",
    "Nobody has rerun this run (llmperf validate --rerun): its figures are a claim.": (
        "尚无人重跑此次运行（llmperf validate --rerun）：其数值仅为声称"
    ),
    "Nobody has rerun {count} of {all} runs (llmperf validate --rerun): their figures are claims.": (
        "{all} 次运行中有 {count} 次尚无人重跑（llmperf validate --rerun）：其数值仅为声称"
    ),
    "{path}: what was verified; sign it: llmperf sign {path} --key KEY": (
        "{path}：验证内容；签名命令：llmperf sign {path} --key KEY"
    ),
    "line {lines}: {outcome}: {why}": "第 {lines} 行：{outcome}：{why}",
    "lines {lines}: {outcome}: {why}": "第 {lines} 行：{outcome}：{why}",
    "lines {lines} and {more} more: {outcome}: {why}": "第 {lines} 行及另外 {more} 行：{outcome}：{why}",
    "run folder: {folder}": "运行目录：{folder}",
    "Chrome trace: {path}": "Chrome 跟踪：{path}",
    "last lines of the log:": "日志的最后几行：",
    "last lines of the log of rank {rank}:": "进程 {rank} 日志的最后几行：",
    "run {number} of {repeat}: {what}": "第 {number} 次运行（共 {repeat} 次）：{what}",
    "{what}; no MFU: {why}": "{what}；无 MFU：{why}",
    "{run}: no MFU: {why}": "{run}：无 MFU：{why}",
    "no complete run, so no spread": "没有完成的运行，因此没有离散程度",
    "token/p/s median {median}; no spread: {runs} of {all} runs complete": (
        "token/p/s 中位数 {median}；没有离散程度：{all} 次运行中完成 {runs} 次"
    ),
    "{runs} runs: token/p/s median {median}, {minimum} to {maximum}, spread {spread} of the median": (
        "{runs} 次运行：token/p/s 中位数 {median}，{minimum} 至 {maximum}，离散程度为中位数的 {spread}"
    ),
    "log10 of {title}": "{title}的 log10",
}
"""Templates of sentences, and words in them."""

LABELS = {
    "optimizer by": "优化器实现",
    "attention by": "注意力实现",
    "cross_entropy by": "交叉熵实现",
    "rms_norm by": "RMSNorm 实现",
    "rope by": "RoPE 实现",
    "swiglu by": "SwiGLU 实现",
    "optimizer states in": "优化器状态精度",
    "products in": "矩阵乘精度",
    "updated weights in": "更新权重精度",
    "weights in": "权重精度",
    "roofline": "屋顶线",
    "first loss": "初始损失值",
    "host was busy": "主机繁忙",
    "MFU of the work-weighted peak": "按工作量加权峰值的 MFU",
    "MFU of the measured peak": "实测峰值的 MFU",
    "tokens a joule": "每焦耳 token 数",
    "run folder": "运行目录",
    "MFU ({convention})": "MFU（{convention}）",
    "MFU ({convention}) *": "MFU（{convention}）*",
    "HFU ({convention})": "HFU（{convention}）",
    "{operation} by": "{operation} 的实现",
}
"""Further labels of reports."""
