"""The rules as a page and as a map of sentences: everything that has an id and can be said about a write.

Source: decisions D5 (one registry that the docs table walks).
"""

from collections.abc import Iterable, Sequence

from engines.findings import CATALOGUE
from webhooks.fence.messages import OUTCOMES, SENTENCES
from webhooks.validation import registry, scaler
from webhooks.validation.findings import Rule
from webhooks.validation.scaler import ScalerRule

PLAIN = {
    "MD000": "The object fits the schema of its kind, with its cross-field rules.",
    "MD001": "Every object that a rule reads has been observed.",
    "YAML001": "No key occurs twice in one object.",
    "YAML002": "A manifest is YAML or JSON.",
}
"""What only `mdctl lint` says."""

INTRODUCTION = """\
Every rule that admission judges by. The ids never change their meaning; they stand in refusals, audit annotations, metrics and the output
of `mdctl lint`. All that is wrong with a write comes back together, with code 422 and a cause for each field. A rule about arguments does
not judge what an update leaves as it was.
"""

READER = """\
## Findings of the argument reader

They do not refuse. Errors and warnings come back as admission warnings (at most eight), all of them from `mdctl lint` and `mdctl args`.

"""

_FAMILIES = (
    ("MD1", "Shape, names and kinds"),
    ("MD2", "Arguments and variables of the operator"),
    ("MD3", "Parallelism"),
    ("MD4", "Elastic expert parallelism"),
    ("MD5", "Router and ports"),
    ("MD6", "Volumes, host access, topology"),
    ("MD7", "Cards and fabric"),
    ("MD8", "Identity"),
    ("MD9", "ModelDeploymentScaler"),
)


def sentences() -> dict[str, str]:
    """The sentence of every id."""
    return {
        **PLAIN,
        **{rule.id: rule.sentence for rule in _rules()},
        **SENTENCES,
        **{kind.id: kind.title for kind in CATALOGUE.values()},
    }


def _rules() -> tuple[Rule | ScalerRule, ...]:
    return (*registry.RULES, *scaler.RULES)


def page() -> str:
    """`docs/rules.md`: generated, and tested to be current."""
    rules = _rules()
    parts = [
        "# Rules\n",
        "<!-- Generated from the registry by `make docs`; a test keeps it current. -->\n",
        INTRODUCTION,
    ]
    for prefix, title in _FAMILIES:
        rows = [
            (rule.id, rule.name, rule.sentence, "<br>".join(f"`{field}`" for field in rule.fields))
            for rule in rules
            if rule.id.startswith(prefix)
        ]
        parts.append(f"## {title}\n\n" + _table(("Id", "Name", "Rule", "Field"), rows))
    parts.append(
        "## The scaler fence\n\nA refusal has code 403. The name stands in the audit annotation `rule`, the binding's term in `term`.\n\n"
        + _table(("Name", "Rule"), SENTENCES.items())
    )
    parts.append("Writes that the fence lets through carry one of these names.\n\n" + _table(("Name", "Meaning"), OUTCOMES.items()))
    parts.append(READER + _table(("Id", "Severity", "Finding"), [(kind.id, kind.severity, kind.title) for kind in CATALOGUE.values()]))
    parts.append("## Only from `mdctl lint`\n\n" + _table(("Id", "Rule"), PLAIN.items()))
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
