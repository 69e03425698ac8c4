"""What a framework needs against what the devices offer."""

from __future__ import annotations

from llmperf.types.devices import Probe
from llmperf.types.plan import Needs
from llmperf.types.problems import Problem


def unmet(needs: Needs, probe: Probe, framework: str) -> list[Problem]:
    """One problem for each need that the vendor does not offer."""
    offers, device = probe.offers, probe.devices[0].model
    problems = []
    if needs.precision not in offers.precisions:
        offered = ", ".join(offers.precisions)
        nearest = next((one for one in ("bf16", "fp32") if one in offers.precisions), offers.precisions[0])
        message = f"{device} ({probe.vendor}) offers {offered}, found {needs.precision}"
        problems.append(
            Problem(
                code="precision_not_offered",
                where="contract.precision",
                message=f"{message}; nearest: --set precision={nearest} (a variant)",
            )
        )
    if needs.runtime not in offers.runtimes:
        offered = ", ".join(offers.runtimes) or "none"
        message = f"{framework} runs on {needs.runtime}; {device} ({probe.vendor}) offers {offered}"
        problems.append(Problem(code="runtime_not_offered", where="tuning.framework", message=message))
    elif (reason := offers.runtime_problems.get(needs.runtime)) is not None:
        problems.append(Problem(code="runtime_unusable", where="tuning.framework", message=f"{framework}: {reason}"))
    for feature in needs.features:
        if feature not in offers.features:
            offered = ", ".join(offers.features) or "none"
            message = f"{framework} needs {feature}; {device} ({probe.vendor}) offers {offered}"
            problems.append(Problem(code="feature_not_offered", where="tuning", message=message))
    return problems
