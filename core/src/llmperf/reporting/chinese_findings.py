"""Chinese translations of the messages of findings that runs have most often.

The parts in braces are as in `chinese_values`; of them only `{because}` is translated, by the templates of `BECAUSE`.
"""

from __future__ import annotations

SEVERITIES = {"error": "错误", "warning": "警告", "note": "说明"}

MESSAGES = {
    # LP2xx: throughput
    "expected {n} ({because}), found {m}": "应为 {n}（{because}），实际为 {m}",
    "expected 1 to {n} ({because}, padding not counted), found {m}": "应为 1 至 {n}（{because}，不计填充），实际为 {m}",
    "expected at most {n} ({because}), found {m}": "应不超过 {n}（{because}），实际为 {m}",
    "expected p5 <= median <= p95, found {values}": "应有 p5 <= 中位数 <= p95，实际为 {values}",
    "expected mean_low <= mean <= mean_high, found {values}": "应有 mean_low <= 平均值 <= mean_high，实际为 {values}",
    "expected at most {n} x median {m} s, found {o} s: the steps are very uneven, so something else probably disturbed"
    " the run": "应不超过中位数 {m} s 的 {n} 倍，实际为 {o} s：单步时间很不均匀，运行可能受到其他负载干扰",
    "expected at most {n} x 5 % quantile {m} s, found {o} s: the steps are very uneven, so something else probably"
    " disturbed the run": "应不超过 5 % 分位 {m} s 的 {n} 倍，实际为 {o} s：单步时间很不均匀，运行可能受到其他负载干扰",
    "the steps became {n} % slower (median {m} s in the first quarter, {o} s in the last), expected at most {p} %": (
        "单步时间变慢了 {n} %（中位数：第一个四分之一 {m} s，最后一个四分之一 {o} s），应不超过 {p} %"
    ),
    "the steps became {n} % faster (median {m} s in the first quarter, {o} s in the last), expected at most {p} %": (
        "单步时间变快了 {n} %（中位数：第一个四分之一 {m} s，最后一个四分之一 {o} s），应不超过 {p} %"
    ),
    "the mean step, and so the throughput, is known to within {n} % only (95 % confidence), expected at most {m} %": (
        "平均单步时间（因而吞吐量）只能确定到 {n} % 以内（置信度 95 %），应不超过 {m} %"
    ),
    "expected at least {n}, found {m}": "应不少于 {n}，实际为 {m}",
    "expected at least {n} s, found {m} s": "应不少于 {n} s，实际为 {m} s",
    "expected no earlier than created {created}, found {finished}": "应不早于开始时间 {created}，实际为 {finished}",
    "expected a UTC time such as {example}, found {time}": "应为 UTC 时间，如 {example}，实际为 {time}",
    # LP4xx: memory and devices
    "expected at most {n}, found {m}": "应不超过 {n}，实际为 {m}",
    "expected none, found {reason} in {n} % of the readings": "应无降频，实际有 {n} % 的读数为 {reason}",
    "{reason} held a device back in {n} % of the readings": "{n} % 的读数中，设备受 {reason} 限制",
    "other processes used {n} % of the host's cores during the run, expected at most {m} %": (
        "运行期间其他进程占用了主机 {n} % 的 CPU 核，应不超过 {m} %"
    ),
    "other processes used {n} % of the host's cores during the run ({programs}), expected at most {m} %": (
        "运行期间其他进程占用了主机 {n} % 的 CPU 核（{programs}），应不超过 {m} %"
    ),
    "other processes used {n} % of the host's cores during the run ({programs}) on node {o}, expected at most {m} %": (
        "运行期间其他进程占用了节点 {o} 的主机 {n} % 的 CPU 核（{programs}），应不超过 {m} %"
    ),
    "{n} other processes used the devices during the run, expected none": (
        "运行期间有 {n} 个其他进程使用了设备，应没有其他进程"
    ),
    "processes waited for memory {n} % of the time during the run, expected at most {m} %": (
        "运行期间进程有 {n} % 的时间在等待内存，应不超过 {m} %"
    ),
    "the host swapped {n} MiB during the run, expected at most {m} MiB": (
        "运行期间主机交换了 {n} MiB，应不超过 {m} MiB"
    ),
    "the clocks fell by {n} % ({m} MHz in the first tenth of the measured window, {o} MHz in the last), expected at"
    " most {p} %": "时钟下降了 {n} %（测量窗口的第一个十分之一 {m} MHz，最后一个十分之一 {o} MHz），应不超过 {p} %",
    "expected each rank from 0 to {n} once, found {m}": "应有 0 至 {n} 的每个进程各一次，实际为 {m}",
    # LP5xx: losses
    "expected a number (status is complete), found {value}": "应为数值（状态为完成），实际为 {value}",
    "expected at least {n} ({because}), found {m}": "应不低于 {n}（{because}），实际为 {m}",
    "expected about {n} ({because}), found {m}": "应约为 {n}（{because}），实际为 {m}",
    "expected at most {n} ({because}), found {m}: training diverged": "应不超过 {n}（{because}），实际为 {m}：训练发散",
    "expected at most {n} ({because}), found {m} at step {o}": "应不超过 {n}（{because}），第 {o} 步实际为 {m}",
    "expected {n} points (contract.steps), found {m}": "应有 {n} 个点（contract.steps），实际为 {m}",
    "expected steps from 1 to {n} in rising order, found {m} after {o}": (
        "步数应从 1 至 {n} 递增，实际 {o} 之后为 {m}"
    ),
    "expected another loss in each step, found {n} in {m} of {o}": "每步损失值应不同，实际 {o} 个中有 {m} 个为 {n}",
    "expected losses of logits that differ, found ln {n} = {m} within {o} in {p} of {q} steps": (
        "损失值应来自各不相同的 logits，实际 {q} 步中有 {p} 步为 ln {n} = {m}（误差 {o} 以内）"
    ),
    "expected a mean of the last {n} losses of at most {m} (begun at {o}), found {p}: training diverged": (
        "最后 {n} 个损失值的平均应不超过 {m}（初始为 {o}），实际为 {p}：训练发散"
    ),
    "expected a mean of the last {n} losses of at most {m} ({because}) after {o} steps whose learning rates sum to {p},"
    " found {q}": "学习率之和为 {p} 的 {o} 步之后，最后 {n} 个损失值的平均应不超过 {m}（{because}），实际为 {q}",
    # LP7xx: run folders
    "expected SHA-256 {expected}, found {hash}: the file was changed": (
        "SHA-256 应为 {expected}，实际为 {hash}：文件已被修改"
    ),
    "expected a file {name} in the run folder, found none": "运行目录中应有文件 {name}，实际没有",
    "expected the SHA-256 of {name}, which the figures come from, found none": (
        "应有 {name} 的 SHA-256（指标由它得出），实际没有"
    ),
    "the figures cannot be computed again: {problem}": "无法重新计算指标：{problem}",
    "expected the plan and the records beside the result, found no plan: its figures were not computed again": (
        "结果旁应有计划和记录，实际没有计划：未重新计算指标"
    ),
    "expected result.json beside the plan of a run, found none: {why}": "运行的计划旁应有 result.json，实际没有：{why}",
    "expected {n} (computed again from the records), found {m}": "由记录重新计算应为 {n}，实际为 {m}",
    "expected {expected} (computed again from the records), found {value}": (
        "由记录重新计算应为 {expected}，实际为 {value}"
    ),
}
"""Messages by their English templates."""

BECAUSE = {
    "{n} tokens / {m} s / {o} devices": "{n} token / {m} s / {o} 台设备",
    "{n} steps x {m} tokens": "{n} 步 x {m} token",
    "({n} - {m} skipped) steps x {o} tokens": "（{n} - 跳过的 {m}）步 x {o} token",
    "{n} steps, {m} of them warm-up": "{n} 步，其中 {m} 步预热",
    "{n} x {m} devices": "{n} x {m} 台设备",
    "{n} steps x mean {m} s, within 10 %": "{n} 步 x 平均 {m} s，误差 10 % 以内",
    "from created to finished": "从开始到结束",
    "{n} J, {m} tokens": "{n} J，{m} token",
    "known entropy {n} less {m} for {o} tokens": "已知熵 {n} 减去 {o} token 的 {m}",
    "ln {n} + {m}, within {o}": "ln {n} + {m}，误差 {o} 以内",
    "{n} nats above an untrained model": "比未训练的模型高 {n} nats",
    "step {n} of the loss curve": "损失曲线的第 {n} 步",
    "first loss {n} less {m}": "初始损失值 {n} 减去 {m}",
}
"""Reasons in the messages."""
