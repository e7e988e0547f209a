"""What a GitOps agent has to be told so that it leaves alone what a scaler owns.

Source: admission facts 1.5, decisions D4, field lesson F80.
"""

from api import keys


def pointer(key: str) -> str:
    """A JSON pointer to an annotation."""
    return "/metadata/annotations/" + key.replace("~", "~0").replace("/", "~1")


ARGO_LINE = (
    f'ignoreDifferences: [{{group: {keys.GROUP}, kind: {keys.MODEL_DEPLOYMENT}, jqPathExpressions: [".spec.roles[].replicas"], '
    f'jsonPointers: ["{pointer(keys.SCALER_BINDING)}", "{pointer(keys.SCALER_DECISION)}"]}}] with '
    "syncOptions: [RespectIgnoreDifferences=true]"
)

FLUX_LINE = "leave spec.roles[].replicas and both scaler annotations out of the manifest (server-side apply keeps the scaler's values)"

ARGO_SNIPPET = f"""\
# Argo CD Application: leave the fields that a ModelDeploymentScaler owns alone.
# Without RespectIgnoreDifferences a sync still writes the value from Git. Do not set IncludeMutationWebhook=true.
spec:
  ignoreDifferences:
    - group: {keys.GROUP}
      kind: {keys.MODEL_DEPLOYMENT}
      jqPathExpressions:
        - .spec.roles[].replicas
      jsonPointers:
        - {pointer(keys.SCALER_BINDING)}
        - {pointer(keys.SCALER_DECISION)}
  syncPolicy:
    syncOptions:
      - RespectIgnoreDifferences=true
      - ServerSideApply=true
"""

FLUX_SNIPPET = f"""\
# Flux Kustomization: Flux applies server-side, so a field that the manifest does not state keeps the value of its owner.
# Leave spec.roles[].replicas and both {keys.SCALER_BINDING.rsplit("/", 1)[0]}/scaler-* annotations out of Git;
# where an overlay inherits a count, drop it:
spec:
  patches:
    - target:
        group: {keys.GROUP}
        kind: {keys.MODEL_DEPLOYMENT}
      patch: |
        - op: remove
          path: /spec/roles/0/replicas   # one entry for each role
"""

SNIPPETS = {"argocd": ARGO_SNIPPET, "flux": FLUX_SNIPPET}
