"""Write the pages that are generated from registries: `make docs`. A test of each page keeps it current."""

from collections.abc import Callable
from pathlib import Path

from api.reasons import markdown as conditions
from app.metricspage import page as metrics
from app.verbs.argspage import page as arguments
from controller.status.vocabulary import markdown as fields
from webhooks.ruletable import page as rules

PAGES: dict[str, Callable[[], str]] = {
    "docs/args.md": arguments,
    "docs/conditions.md": conditions,
    "docs/metrics.md": metrics,
    "docs/rules.md": rules,
    "docs/status.md": fields,
}


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        Path(name).write_text(page(), "utf-8")
        print(name)


if __name__ == "__main__":
    main()
