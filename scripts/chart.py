"""Write the templates of the Helm chart from the manifests that kustomize reads: `make chart`. A test keeps them current.

The base is the one source. A template is a base file with the few places exchanged that a value may change, each found by its own text: a
base that was edited so that a place is gone, or stands twice, fails here and not in somebody's cluster.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from api.crd import owned
from api.crd.variants import RULE_FIELDS_SINCE, RULES_SINCE, fitted
from deploy.manifests import NAMESPACE, to_yaml

DEPLOY: Final = Path(__file__).resolve().parents[1] / "deploy"
CHART: Final = DEPLOY / "chart"

BANNER: Final = "{{- /* Made by `make chart` from deploy/%s. Edit that, or scripts/chart.py. */}}\n"


class Template(NamedTuple):
    """A base file, when it is rendered, and what is exchanged in it: (text, what stands there instead)."""

    source: str
    condition: str = ""
    places: tuple[tuple[str, str], ...] = ()


def _after(line: str, block: str) -> tuple[str, str]:
    return line, line + block


_OPTIONAL: Final = "".join(
    f"      {{{{- with .Values.{value} }}}}\n      {field}: {{{{- toYaml . | nindent 8 }}}}\n      {{{{- end }}}}\n"
    for field, value in (
        ("imagePullSecrets", "image.pullSecrets"),
        ("nodeSelector", "nodeSelector"),
        ("tolerations", "tolerations"),
        ("affinity", "affinity"),
    )
)

_ENVIRONMENT: Final = """\
            {{- if eq .Values.kueue "absent" }}
            - {name: MODELWARDEN_KUEUE, value: absent}
            {{- end }}
            {{- if eq .Values.act "retire" }}
            - {name: MODELWARDEN_ACT, value: retire}
            {{- end }}
            {{- if gt (int .Values.shards) 1 }}
            - {name: MODELWARDEN_SHARDS, value: {{ .Values.shards | quote }}}
            {{- end }}
            {{- if eq .Values.certificates.mode "cert-manager" }}
            - {name: MODELWARDEN_CERTS_SOURCE, value: files}
            {{- end }}
            {{- with .Values.tracing.endpoint }}
            - {name: MODELWARDEN_OTEL_ENDPOINT, value: {{ . | quote }}}
            {{- end }}
            {{- range $name, $value := .Values.settings }}
            - {name: {{ $name }}, value: {{ $value | toString | quote }}}
            {{- end }}
"""

_COLLECTOR: Final = """\
    {{- with .Values.tracing.endpoint }}
    # The collector of traces, on the port that was named.
    - ports:
        - {protocol: TCP, port: {{ (urlParse .).host | splitList ":" | last }}}
    {{- end }}
"""

_SPREAD: Final = "      topologySpreadConstraints:\n"
_INJECTED: Final = """\
  {{- if eq .Values.certificates.mode "cert-manager" }}
  annotations: {cert-manager.io/inject-ca-from: modelwarden-system/modelwarden}
  {{- end }}
"""

TEMPLATES: Final[dict[str, Template]] = {
    "namespace": Template("base/namespace.yaml", ".Values.namespace.create"),
    "serviceaccount": Template("base/serviceaccount.yaml"),
    "rbac": Template("base/rbac.yaml"),
    "access": Template("base/access.yaml"),
    "service": Template("base/service.yaml"),
    "deployment": Template(
        "base/deployment.yaml",
        places=(
            ("  replicas: 2\n", "  replicas: {{ .Values.replicas }}\n"),
            _after(
                "        prometheus.io/path: /metrics\n",
                "        {{- with .Values.podAnnotations }}\n        {{- toYaml . | nindent 8 }}\n        {{- end }}\n",
            ),
            _after("      enableServiceLinks: false\n", _OPTIONAL),
            _after(
                "      terminationGracePeriodSeconds: 45\n",
                "      {{- with .Values.priorityClassName }}\n      priorityClassName: {{ . }}\n      {{- end }}\n",
            ),
            (_SPREAD, "      {{- if .Values.topologySpread }}\n" + _SPREAD),
            ("      containers:\n", "      {{- end }}\n      containers:\n"),
            (
                "          image: modelwarden:0.1.0\n",
                '          image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"\n',
            ),
            ("imagePullPolicy: IfNotPresent\n", "imagePullPolicy: {{ .Values.image.pullPolicy }}\n"),
            _after('            - {name: MODELWARDEN_SERVE_DRAIN_SECONDS, value: "10"}\n', _ENVIRONMENT),
            (
                "          resources:\n            requests: {cpu: 100m, memory: 192Mi}\n            limits: {memory: 1Gi}\n",
                "          resources: {{- toYaml .Values.resources | nindent 12 }}\n",
            ),
            _after(
                "            - {name: tmp, mountPath: /tmp}\n",
                '            {{- if eq .Values.certificates.mode "cert-manager" }}\n'
                "            - {name: certs, mountPath: /var/run/modelwarden/certs, readOnly: true}\n"
                "            {{- end }}\n",
            ),
            _after(
                "          emptyDir: {sizeLimit: 64Mi}\n",
                '        {{- if eq .Values.certificates.mode "cert-manager" }}\n'
                "        - {name: certs, secret: {secretName: modelwarden-certs, defaultMode: 288}}\n"
                "        {{- end }}\n",
            ),
        ),
    ),
    "webhooks": Template(
        "base/webhooks.yaml",
        places=(
            _after("  name: modelwarden-mutating\n", _INJECTED),
            _after("  name: modelwarden-validating\n", _INJECTED),
            # Quoted: a linter renders without a namespace, and a list may not begin with nothing.
            ("values: [modelwarden-system,", 'values: ["modelwarden-system",'),
        ),
    ),
    "poddisruptionbudget": Template(
        "components/pdb/pdb.yaml", 'and .Values.podDisruptionBudget.enabled (.Capabilities.APIVersions.Has "policy/v1")'
    ),
    "networkpolicy": Template(
        "components/networkpolicy/networkpolicy.yaml",
        ".Values.networkPolicy.enabled",
        places=(_after("            matchLabels: {app.kubernetes.io/name: model-deployment}\n", _COLLECTOR),),
    ),
    "shards": Template("components/shards/rbac.yaml", "gt (int .Values.shards) 1"),
    "retire": Template("components/retire/rbac.yaml", 'eq .Values.act "retire"'),
    "certificate": Template("components/cert-manager/certificate.yaml", 'eq .Values.certificates.mode "cert-manager"'),
    "servicemonitor": Template("observability/servicemonitor.yaml", ".Values.serviceMonitor.enabled"),
}

# Files that templates read as they are.
COPIES: Final = {"observability/alerts.yaml": "observability/alerts.yaml", "observability/dashboard.json": "observability/dashboard.json"}


def files() -> Iterator[tuple[str, str]]:
    """Every generated file of the chart, by its path in the chart. Raises ValueError where the base has lost a place."""
    for name, template in TEMPLATES.items():
        yield f"templates/{name}.yaml", _rendered(template)
    for target, source in COPIES.items():
        yield target, (DEPLOY / source).read_text("utf-8")
    for name, version in (("rules", RULE_FIELDS_SINCE), ("older", RULES_SINCE), ("plain", (1, 20))):
        yield f"definitions/{name}.yaml", to_yaml(_kept(fitted(definition, version)) for definition in owned())


def _rendered(template: Template) -> str:
    text = (DEPLOY / template.source).read_text("utf-8")
    for place, instead in template.places:
        if text.count(place) != 1:
            raise ValueError(f"{template.source}: {place.strip()!r} stands there {text.count(place)} times")
        text = text.replace(place, instead)
    text = text.replace(NAMESPACE, "{{ .Release.Namespace }}")
    if template.condition:
        text = f"{{{{- if {template.condition} }}}}\n{text}{{{{- end }}}}\n"
    return BANNER % template.source + text


def _kept(definition: dict[str, object]) -> dict[str, object]:
    """Helm leaves it in place when the release goes: a definition that is deleted takes every object with it."""
    kept: dict[str, object] = yaml.safe_load(yaml.safe_dump(definition))
    metadata = kept["metadata"]
    if not isinstance(metadata, dict):
        raise TypeError("a definition without metadata")
    metadata.setdefault("annotations", {})["helm.sh/resource-policy"] = "keep"
    return kept


def main() -> None:
    """Write every file."""
    for name, text in files():
        path = CHART / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        print(path.relative_to(DEPLOY.parent))


if __name__ == "__main__":
    main()
