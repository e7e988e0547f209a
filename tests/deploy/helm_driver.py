"""Run by another Python, one that has the wheel helm-sdkpy (Helm itself, as a library): one action from standard input, its result as JSON.

It has no offline rendering, so the tests install into an embedded cluster and read what Helm made of the chart from the release.
"""

import asyncio
import json
import sys


async def main() -> None:
    """`{"action", "kubeconfig", "namespace", "chart", "values"}` in, the answer or `{"error"}` out."""
    import helm_sdkpy

    asked = json.load(sys.stdin)
    configuration = helm_sdkpy.Configuration(namespace=asked["namespace"], kubeconfig=asked["kubeconfig"])
    try:
        if asked["action"] == "install":
            answer = await helm_sdkpy.Install(configuration).run(
                "modelwarden", asked["chart"], values=asked["values"], wait=False, timeout=60
            )
        elif asked["action"] == "uninstall":
            answer = await helm_sdkpy.Uninstall(configuration).run("modelwarden", wait=False, timeout=60)
        else:
            answer = await helm_sdkpy.Lint(configuration).run(asked["chart"])
    except helm_sdkpy.HelmError as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
