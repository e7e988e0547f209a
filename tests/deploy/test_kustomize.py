"""kustomize and our own installer make the same objects of the same files."""

from typing import Any

import pytest
import yaml
from manifest_reading import KUBECTL, by_identity, kustomized

from deploy.manifests import NEWEST, Options, manifests

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl brings kustomize, and is not installed")


def _text(obj: dict[str, Any]) -> str:
    return yaml.safe_dump(obj, sort_keys=True)


FOLDERS = {"base": Options(version=(1, 20)), "overlays/default": Options(version=NEWEST)}


@pytest.mark.parametrize(("folder", "options"), FOLDERS.items(), ids=FOLDERS.keys())
def test_the_installer_and_kustomize_agree(folder: str, options: Options) -> None:
    """Same objects, same content, CEL rules included where the folder has them."""
    ours, theirs = by_identity(manifests(options)), kustomized(folder)
    assert ours.keys() == theirs.keys()
    for name, obj in ours.items():
        assert _text(obj) == _text(theirs[name]), name


def test_the_cert_manager_overlay_moves_the_certificate_out_of_the_process() -> None:
    """Files are mounted where the setting looks for them, and the injector is told which certificate to trust."""
    objects = kustomized("overlays/cert-manager")
    pod = objects[("Deployment", "modelwarden")]["spec"]["template"]["spec"]
    assert {"name": "MODELWARDEN_CERTS_SOURCE", "value": "files"} in pod["containers"][0]["env"]
    (mount,) = [m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "certs"]
    assert (mount["mountPath"], mount["readOnly"]) == ("/var/run/modelwarden/certs", True)
    certificate = objects[("Certificate", "modelwarden")]
    assert next(v for v in pod["volumes"] if v["name"] == "certs")["secret"]["secretName"] == certificate["spec"]["secretName"]
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (annotations,) = [obj["metadata"]["annotations"] for (k, _), obj in objects.items() if k == kind]
        assert annotations == {"cert-manager.io/inject-ca-from": "modelwarden-system/modelwarden"}
    assert "modelwarden.modelwarden-system.svc" in certificate["spec"]["dnsNames"]
