"""`mdctl`, also installed as the kubectl plugin `kubectl-md`. A verb's module is loaded when the verb is called, not before."""

import importlib
from typing import TYPE_CHECKING

import click

from app import collector

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VERBS: dict[str, tuple[str, str]] = {
    "args": ("app.verbs.args:command", "Read an engine's command line as the engine reads it."),
    "config": ("app.verbs.config:command", "Print the effective settings and where each came from."),
    "crds": ("app.verbs.crds:command", "Print or write the CustomResourceDefinitions, or judge objects by them."),
    "dump": ("app.verbs.dump:command", "Capture a ModelDeployment and all it depends on from a cluster."),
    "explain": ("app.verbs.explain:command", "Say why each part of a status is as it is."),
    "fence": ("app.verbs.fence:command", "Explain the single-writer fence, and print GitOps ignore rules."),
    "install": ("app.verbs.install:command", "Print (--dry-run) or apply every manifest of an installation."),
    "lint": ("app.verbs.lint:command", "Check manifests with the webhooks' own rules, without a cluster."),
    "options": ("app.verbs.options:command", "List an engine version's option table."),
    "review": ("app.verbs.review:command", "Answer an AdmissionReview without a cluster."),
    "run": ("app.verbs.run:command", "Run everything here: embedded cluster, webhooks, controller, a scenario."),
    "serve": ("app.verbs.serve:command", "Serve the webhooks and the controller against a cluster."),
    "status": ("app.verbs.status:command", "Compute statuses from a dump, without a cluster."),
    "version": ("app.verbs.version:command", "Print the version."),
}


class LazyGroup(click.Group):
    """A group whose verbs are imported when called: `mdctl args` must not pay for the server."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every verb, by name."""
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command, or None for an unknown name."""
        if cmd_name not in VERBS:
            return None
        module, attribute = VERBS[cmd_name][0].split(":")
        with collector.resting():
            command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Verbs and options that begin so. From the table, for the same reason as below."""
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(name, help=VERBS[name][1]) for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line a verb, from the table: listing must not import the verbs."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, VERBS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 140})
def main() -> None:
    """Modelwarden: admission and status for ModelDeployments.

    \b
    Examples:
      mdctl args --engine vllm -- --tensor-parallel 2 -dp=4
      mdctl lint deploy/
      mdctl explain md/qwen -n team-a
      mdctl run --once

    \b
    Exit codes of every verb: 0 done, 1 refused or failed, 2 the call or its input is wrong; a verb's own --help has the details.
    """


if __name__ == "__main__":
    main()
