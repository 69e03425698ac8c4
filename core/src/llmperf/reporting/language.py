"""The language of a reader."""

from __future__ import annotations

import os

import click

from llmperf.errors import UserError


def language_of_locale() -> str:
    """`zh` if the first of LC_ALL, LC_MESSAGES and LANG names a Chinese locale that is installed, else `en`."""
    locale = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := os.environ.get(name))), "")
    try:
        return require("zh" if locale.lower().startswith("zh") else "en")
    except UserError:
        return "en"


def require(language: str, what: str = "--lang") -> str:
    """The language; UserError that names `what` needs it, if the package with its texts is not installed."""
    from llmperf.plugins.installed import distribution
    from llmperf.plugins.own_packages import project_packages

    if language != "en" and distribution(package := project_packages()["languages"][language]) is None:
        from llmperf.plugins.mending import install_own

        raise UserError(f"{what} {language}: the texts are in {package}; install it with: {install_own(package)}")
    return language


def _chosen(context: click.Context, _: click.Parameter, language: str) -> str:
    context.meta[__name__] = require(language)
    return language


def reader_language() -> str:
    """The language that the command under way has from its `--lang`; `en` for one without."""
    context = click.get_current_context(silent=True)
    return "en" if context is None else str(context.meta.get(__name__, "en"))


language_option = click.option(
    "--lang", "language", type=click.Choice(["en", "zh"]), default=language_of_locale, show_default="by the locale",
    callback=_chosen, help="Language of headings, values and sentences.",
)  # fmt: skip
headings_option = click.option(
    "--lang", type=click.Choice(["en", "zh"]), default=language_of_locale, show_default="by the locale",
    callback=_chosen, expose_value=False, help="Language of headings and of the names of values.",
)  # fmt: skip
"""For commands that print tables and facts alone, by `print_table` and `print_facts`."""
