"""Options that the commands share, and those of `llmperf report`: formats, shares of a baseline, prices, tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from llmperf import Finite, run_folders, warn
from llmperf.errors import LlmperfError
from llmperf.types import CalledReport, CommandOptions, Sheet

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Share(Finite):
    """A share of a reference above 0; one above 2 is taken for a percentage and refused."""

    what = "share"
    most = 2.0

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The share; click's error for another number."""
        share = super().convert(value, param, ctx)
        if share > self.most:
            nearest = f"did you mean {share / 100:g}?" if share / 100 <= self.most else "such as 0.95."
            self.fail(f"{value} is not a share of the reference of at most {self.most:g}; {nearest}", param, ctx)
        return share


class Tokens(click.types.StringParamType):
    """A number of tokens such as `300B`, `1.4T` or `2e12`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; click's error for another text, for less than one token and for more than 10^16."""
        if isinstance(value, int):
            return value
        from llmperf_compare.cost import token_count

        if (count := token_count(str(value))) is None:
            self.fail(f"expected a number of tokens such as 300B, 1.4T or 2e12; found {value!r}.", param, ctx)
        return count


def cost_options() -> tuple[click.Option, click.Option]:
    """`--prices` and `--train-tokens`."""
    return (
        click.Option(["--prices"], metavar="FILE", type=click.Path(path_type=Path),
                     help="Prices, as in llmperf.toml: adds what tokens cost."),
        click.Option(["--train-tokens"], metavar="COUNT", type=Tokens(),
                     help="Tokens of the training whose time and cost are shown, such as 1T."),
    )  # fmt: skip


def answer_format_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--format` and `--json` to a command that answers with a page."""
    as_json = click.option("--json", "wanted", flag_value="json", help="The same as --format json.")
    formats = click.Choice(["terminal", "markdown", "json", "junit", "github", "sarif"])
    return click.option("--format", "wanted", type=formats, default="terminal", show_default=True,
                        help="Format of the answer.")(as_json(function))  # fmt: skip


def baselines(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion for --baseline: kinds of documents that ship, such as `published`, and paths of runs."""
    from click.shell_completion import CompletionItem
    from llmperf.validation import open_catalogue

    try:
        shipped = sorted(name for name, kind in open_catalogue().kinds.items() if kind.shipped is not None)
    except LlmperfError:
        shipped = []
    return [
        *(CompletionItem(name) for name in shipped if name.startswith(incomplete)),
        *run_folders(ctx, param, incomplete),
    ]


def report_options() -> CommandOptions:
    """The options of `llmperf report`: each run once, what its training costs, and how it scales."""
    return CommandOptions(options=cost_options(), begin=_begin_report)


def _begin_report(called: CalledReport) -> None:
    from llmperf_compare.copies import distinct_sheets
    from llmperf_compare.cost import costing_for, used_prices, with_cost
    from llmperf_compare.scaling import with_scaling

    costing = costing_for(called.values["prices"], called.values["train_tokens"], warn)

    def changed(sheets: list[Sheet]) -> list[Sheet]:
        kept = distinct_sheets(sheets, warn)
        return with_scaling(kept if costing is None else with_cost(kept, costing, warn))

    called.change_sheets(changed)
    if costing is not None and costing.prices is not None:
        called.add_note(used_prices(costing.prices))
