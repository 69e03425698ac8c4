"""The rules and the kinds of document of the core and of loaded plugins, as the hooks give them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from llmperf.errors import LlmperfError, PluginError, UserError
from llmperf.files.json_files import read_bytes
from llmperf.files.text import printable
from llmperf.files.user_files import read_toml
from llmperf.plugins.faults import blaming, who
from llmperf.plugins.loading import plugins_for
from llmperf.plugins.own_packages import PROJECT, of_this_project, project_packages
from llmperf.types.documents import DocumentKind, Rule, Severity, Violation
from llmperf.types.frozen import dataclass
from llmperf.types.result import Finding
from llmperf.types.texts import Text
from llmperf.validation import plugin_data
from llmperf.validation.plugin_data import installed
from llmperf.validation.rules.while_reading import RULE_FAILED
from llmperf.validation.violations import by_cause, with_rest

if TYPE_CHECKING:
    from llmperf.hookspecs import Role
    from llmperf.plugins.discovery import Found
    from llmperf.plugins.loading import Plugins

RULESET = 9
"""Version of the core's rules. Raised when a document that passed before may fail."""
MAX_VIOLATIONS = 20
"""Findings of one rule that are listed for one document; the last of them gives the number of the others."""
MAX_COUNTED = 100_000
"""Violations of one rule that are counted in one document."""
OURS = "LP"
"""Prefix of the project's own codes."""
_CODE = re.compile(r"[A-Z][A-Z0-9_-]{0,30}[0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedRule:
    """A rule and the package that it comes from."""

    rule: Rule
    owner: Found

    @property
    def trusted(self) -> bool:
        """The rule is of this project: it answers in time and in pairs, and its faults are ours."""
        return self.owner.role == "core" or of_this_project(self.owner)

    def violations(self, document: Any) -> list[Violation]:
        """The violations in a document, at most `MAX_COUNTED`; LlmperfError if a plugin's rule fails."""
        check = self.rule.check
        if check is None:
            return []
        if self.trusted:
            return list(islice(check(document), MAX_COUNTED))
        code, origin = self.rule.code, who(self.owner)
        with blaming(self.owner, f"rule {code}"):
            answer = check(document)
            if isinstance(answer, str) or not isinstance(answer, Iterable):
                expected = "expected an iterable of (JSON pointer, message) pairs"
                raise PluginError(f"{origin}: rule {code}: {expected}, found {type(answer).__name__}")
            violations = list(islice(answer, MAX_COUNTED))
        for item in violations:
            if not (isinstance(item, tuple) and len(item) == 2 and all(isinstance(part, str) for part in item)):
                expected = "expected pairs of a JSON pointer and a message"
                raise PluginError(f"{origin}: {code}: {expected}, found {type(item).__name__}")
            if item[0] and not item[0].startswith("/"):
                expected = "expected a JSON pointer, such as /hardware/driver"
                raise PluginError(f"{origin}: {code}: {expected}, found {item[0]!r:.80}")
        return violations

    def page(self) -> str:
        """The page of the rule, as Markdown."""
        rule = self.rule
        if isinstance(rule.page, str):
            return rule.page if rule.page.endswith("\n") else f"{rule.page}\n"
        path = rule.page or Path("data", "rules", f"{rule.code}.md")
        package = Path(import_module(self.owner.module.partition(".")[0]).__file__ or "").parent
        if not path.is_absolute() and ".." not in path.parts and (file := package / path).is_file():
            return read_bytes(file).decode()
        entry = _entries(package / "data" / "rules.toml").get(rule.code, {})
        applies = entry.get("applies") or ", ".join(rule.kinds) or "what is read"
        severity = f"Severity: {rule.severity}. Applies to: {applies}."
        parts = [f"# {rule.code}: {rule.title}", severity, entry.get("text", "")]
        for name in ("wrong", "right"):
            example = entry.get(name, "").strip()
            if example:
                fenced = f"```json\n{example}\n```" if example.startswith("{") else example
                parts += [f"## {name.capitalize()}", fenced]
            if name == "wrong" and "finding" in entry:
                parts.append(f"```\n{entry['finding']}\n```")
        return "\n\n".join(part.strip() for part in parts if part) + "\n"


class Catalogue:
    """The rules and kinds of document of core and loaded plugins; `faults` has a line for each refused one."""

    def __init__(self, plugins: Plugins) -> None:
        self.plugins = plugins
        self.faults: list[str] = list(plugins.left_out)
        """One line for each plugin, rule or kind that is left out."""
        self.broken: list[str] = []
        """One line for each framework plugin that documents name and that cannot be loaded."""
        self._schemas: dict[str, Mapping[str, Any] | None] = {}
        self._rules: dict[str | None, tuple[tuple[OwnedRule, ...], tuple[str, ...]]] = {}

    @cached_property
    def kinds(self) -> Mapping[str, DocumentKind]:
        """Every kind of document by name: the silent ones, then the core's, then others."""
        return dict(
            sorted(((name, kind) for name, (kind, _) in self._owned_kinds.items()), key=lambda of: not of[1].silent)
        )

    @cached_property
    def _owned_kinds(self) -> Mapping[str, tuple[DocumentKind, Found]]:
        kinds: dict[str, tuple[DocumentKind, Found]] = {}
        for key, kind in self.plugins.collect_sound("llmperf_document_kinds", self.faults):
            owner = self.plugins.found(key)
            if not isinstance(kind, DocumentKind):
                found = type(kind).__name__
                self.faults.append(f"{who(owner)}: expected a DocumentKind of llmperf_document_kinds, found {found}")
            elif kind.name in kinds:
                rivals = f"{who(kinds[kind.name][1])} and of {who(owner)}"
                self.faults.append(
                    f"two kinds of document are called {kind.name!r}, of {rivals}; the second is left out"
                )
            else:
                kinds[kind.name] = kind, owner
        return kinds

    def schema_of(self, kind: DocumentKind) -> Mapping[str, Any] | None:
        """The JSON Schema of a kind, loaded once; None for a kind without one."""
        if kind.name not in self._schemas:
            self._schemas[kind.name] = kind.schema() if kind.schema else None
        return self._schemas[kind.name]

    def owner_of(self, kind: DocumentKind) -> Found:
        """The package that brings a kind of document."""
        return self._owned_kinds[kind.name][1]

    def all_rules(self) -> tuple[OwnedRule, ...]:
        """Every rule by code, the project's `LP` first."""
        return self._for(None)[0]

    def _for(self, kind: str | None) -> tuple[tuple[OwnedRule, ...], tuple[str, ...]]:
        """The rules over a kind of document, or all for None, by code; and why others were refused."""
        if kind not in self._rules:
            faults: list[str] = []
            rules: dict[str, OwnedRule] = {}
            given = self.plugins.collect_sound("llmperf_rules", faults, kind=kind)
            owned_rules = [OwnedRule(rule=rule, owner=self.plugins.found(key)) for key, rule in given]
            for owned in sorted(owned_rules, key=lambda owned: not owned.trusted):  # nobody replaces our rules
                rule, owner = owned.rule, owned.owner
                if problem := self._problem(rule, owner):
                    faults.append(f"{who(owner)}: llmperf_rules: {problem}")
                elif rule.code in rules:
                    rivals = f"{who(rules[rule.code].owner)} and of {who(owner)}"
                    faults.append(f"two rules have the code {rule.code}, of {rivals}; the second is left out")
                else:
                    rules[rule.code] = owned
            ordered = sorted(rules.values(), key=lambda owned: (not owned.rule.code.startswith(OURS), owned.rule.code))
            chosen = (owned for owned in ordered if kind is None or kind in owned.rule.kinds)
            self._rules[kind] = tuple(chosen), tuple(faults)
        return self._rules[kind]

    def _problem(self, rule: Any, owner: Found) -> str | None:
        """The reason why a rule cannot be used; an unknown kind may belong to an extension that is not installed."""
        if not isinstance(rule, Rule):
            return f"expected a Rule, found {type(rule).__name__}"
        if not isinstance(rule.code, str) or not _CODE.fullmatch(rule.code):
            return f"expected a code such as ACME1, found {rule.code!r:.80}"
        if rule.severity not in get_args(Severity):
            return f"{rule.code}: expected a severity of {', '.join(get_args(Severity))}, found {rule.severity!r:.80}"
        if not isinstance(rule.kinds, tuple) or not all(isinstance(kind, str) for kind in rule.kinds):
            return f"{rule.code}: expected a tuple of names of kinds of document, found {rule.kinds!r:.80}"
        if not isinstance(rule.title, str) or not (rule.check is None or callable(rule.check)):
            return f"{rule.code}: expected a title and a function that takes a document"
        if not (rule.page is None or isinstance(rule.page, (str, Path))):
            return f"{rule.code}: expected a page of Markdown text or a path, found {type(rule.page).__name__}"
        for kind in rule.kinds if owner.role != "core" else ():
            if kind in self.kinds or kind == "run":  # run folders, which are no kind of document
                continue
            from difflib import get_close_matches

            if nearest := get_close_matches(kind, self.kinds, n=1, cutoff=0.75):
                return f"{rule.code}: unknown kind of document {kind!r:.80}; did you mean {nearest[0]!r}?"
        return None

    def applied(
        self, kind: str, document: Any, wanted: Callable[[str], bool] = lambda code: True
    ) -> tuple[list[Finding], list[Finding]]:
        """The findings of the wanted rules over a document: listed ones, and all, on which verdicts of rows rest."""
        rules, faults = self._for(kind)
        listed: list[Finding] = []
        whole: list[Finding] = []
        definition = self.kinds.get(kind)  # None: the records of a run
        judge = self.owner_of(definition) if definition is not None and definition.verdicts is not None else None
        for owned in rules:
            judges_rows = owned.owner == judge
            if not wanted(owned.rule.code) and not judges_rows:
                continue
            try:
                violations = owned.violations(document)
            except LlmperfError as error:
                owner, reason = who(owned.owner), printable(str(error).removeprefix(f"{who(owned.owner)}: "))[:250]
                message = Text("{} of {} was not applied: {}", owned.rule.code, owner, reason)
                if owned.trusted:
                    message = Text("{} was not applied: {}", owned.rule.code, reason)
                failed = RULE_FAILED.finding("", message)
                listed.append(failed)
                whole.append(failed)
                continue
            if not violations:
                continue
            findings = [owned.rule.finding(path, message) for path, message in violations]
            whole += findings
            wrong_rows = judge is not None and owned.rule.severity == "error"
            causes = findings if wrong_rows else by_cause(findings)  # each wrong row is wrong by itself
            rest = sum(1 + finding.more for finding in causes[MAX_VIOLATIONS:])
            listed += with_rest(causes[:MAX_VIOLATIONS], rest)
        refused = [RULE_FAILED.finding("", printable(fault)[:300]) for fault in (*self.broken, *faults) if definition]
        return listed + refused, whole + refused

    def page(self, code: str, option: str) -> str:
        """The page of a rule; UserError with the nearest code if there is none."""
        for owned in self.all_rules():
            if owned.rule.code == code.upper():
                return owned.page()
        raise self._unknown(code, option)

    def prefixes(self, typed: Sequence[str], option: str) -> tuple[str, ...]:
        """Beginnings of codes in upper case; UserError for one with which no code begins, unless a plugin is broken."""
        codes = [owned.rule.code for owned in self.all_rules()]
        for prefix in typed:
            code = prefix.upper()
            known = code and any(one.startswith(code) for one in codes)
            if not known and (not code or code.startswith(OURS) or not self.faults):
                raise self._unknown(prefix, option)
        return tuple(prefix.upper() for prefix in typed)

    def _unknown(self, typed: str, option: str) -> UserError:
        from difflib import get_close_matches

        from llmperf.plugins.mending import install_own

        for extension, codes in project_packages()["rules"].items():
            if typed and any(code.startswith(typed.upper()) for code in codes):
                package = f"{PROJECT}-{extension}"
                return UserError(f"{option}: {typed} belongs to {package}; install it with: {install_own(package)}")
        codes = [owned.rule.code for owned in self.all_rules()]
        nearest = get_close_matches(typed.upper(), codes, n=1, cutoff=0.7)
        advice = f"did you mean {nearest[0]!r}?" if nearest else "`llmperf validate --rules` lists all rules"
        return UserError(f"{option}: unknown rule {typed[:80]!r}; {advice}")


def open_catalogue(named: Iterable[tuple[str, str]] = ()) -> Catalogue:
    """The catalogue of core, every extension, and the installed ones of `named`, such as `("vendor", "acme")`."""
    return _opened(frozenset(named) & installed_pairs())


def whole_catalogue() -> Catalogue:
    """The catalogue of the core and every installed plugin."""
    return open_catalogue(installed_pairs())


@cache
def _opened(pairs: frozenset[tuple[Role, str]]) -> Catalogue:
    opened = Catalogue(plugins_for(sorted(pairs), installed()))
    for pair in sorted(pairs):
        if pair[0] == "framework":
            alone = [found for found in installed() if (found.role, found.name) == pair]
            opened.broken += plugins_for([pair], alone).left_out
    return opened


def forget_catalogues() -> None:
    """Look again at what is installed, since packages may have been installed since this process looked last."""
    from llmperf.results.sections import known_sections

    for known in (*vars(plugin_data).values(), installed_pairs, _opened, known_sections):
        if hasattr(known, "cache_clear"):
            known.cache_clear()


@cache
def installed_pairs() -> frozenset[tuple[Role, str]]:
    """Role and name of every installed vendor and framework."""
    return frozenset((found.role, found.name) for found in installed() if found.role in ("vendor", "framework"))


def counted(findings: Iterable[Finding], *severities: str) -> int:
    """The number of findings of these severities, also those that are not listed."""
    return sum(1 + finding.more for finding in findings if finding.severity in severities)


@cache
def _entries(path: Path) -> Mapping[str, Mapping[str, Any]]:
    return read_toml(path) if path.is_file() else {}
