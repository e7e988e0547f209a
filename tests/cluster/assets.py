"""A real kube-apiserver for tests: etcd, the API server and, where it is there, the controller manager, all on loopback, state in memory.

`KUBEBUILDER_ASSETS` names the folder with the programs (envtest's convention). Certificates are thrown away with the state.
"""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from pathlib import Path

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from local.pki import Authority, write_kubeconfig, write_private

HOW_TO_GET_ONE = (
    "--cluster=real needs a cluster: set KUBECONFIG together with MODELWARDEN_TEST_CLUSTER=1 and MODELWARDEN_TEST_CONTEXT=<the context "
    "that you mean>, or set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kube-controller-manager (setup-envtest installs "
    "one; so does a build of your distribution's kubernetes source package)"
)


def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class RealServer:
    """Starts the programs of a folder; `stop` ends them by their ids and removes every trace."""

    def __init__(self, assets: Path) -> None:
        self._assets = assets
        memory = Path("/dev/shm")
        self._state = Path(tempfile.mkdtemp(prefix="modelwarden-kube-", dir=memory if memory.is_dir() else None))
        self._state.chmod(0o700)
        self._programs: list[subprocess.Popen[bytes]] = []
        self._api: subprocess.Popen[bytes] | None = None
        self.authority = Authority("modelwarden-test-cluster")
        etcd, peer, api = free_ports(3)
        self._etcd, self._peer = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
        self._port = api
        self.url = f"https://127.0.0.1:{api}"
        self.ca_file = write_private(self._state / "ca.crt", self.authority.pem)

    def start(self) -> None:
        """Start everything and wait for /readyz. Raises RuntimeError with the program's last words."""
        try:
            self._start_etcd()
            self._start_api()
            if (self._assets / "kube-controller-manager").exists():
                self._start_controllers()
        except BaseException:
            self.stop()
            raise

    def _run(self, name: str, *flags: str) -> subprocess.Popen[bytes]:
        with (self._state / f"{name}.log").open("wb") as log:
            # a group of its own, so that Ctrl-C reaches pytest first and the programs end in order
            program = subprocess.Popen(
                [str(self._assets / name), *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._programs.append(program)
        return program

    def _wait(self, name: str, program: subprocess.Popen[bytes], url: str, **options: object) -> None:
        deadline = time.monotonic() + 90
        with httpx.Client(**options) as client:  # type: ignore[arg-type]  # httpx's own keywords
            while time.monotonic() < deadline:
                if program.poll() is not None:
                    break
                try:
                    if client.get(url).status_code == 200:
                        return
                except httpx.TransportError:
                    pass
                time.sleep(0.05)
        words = (self._state / f"{name}.log").read_text(errors="replace").splitlines()[-15:]
        raise RuntimeError(f"{name} did not come up:\n" + "\n".join(words))

    def _knows(self, name: str, flag: str) -> bool:
        answer = subprocess.run([str(self._assets / name), "--help"], capture_output=True, text=True, check=False)
        return flag in answer.stdout + answer.stderr

    def _start_etcd(self) -> None:
        flags = [
            f"--data-dir={self._state / 'etcd'}",
            "--name=test",
            f"--listen-client-urls={self._etcd}",
            f"--advertise-client-urls={self._etcd}",
            f"--listen-peer-urls={self._peer}",
            f"--initial-advertise-peer-urls={self._peer}",
            f"--initial-cluster=test={self._peer}",
        ]
        if self._knows("etcd", "unsafe-no-fsync"):
            flags.append("--unsafe-no-fsync")
        self._wait("etcd", self._run("etcd", *flags), f"{self._etcd}/health")

    def _start_api(self) -> None:
        serving = self.authority.server(("kube-apiserver", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"))
        signing = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        private = signing.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        public = signing.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        certificate = write_private(self._state / "server.crt", serving.certificate)
        key = write_private(self._state / "server.key", serving.key)
        account_key = write_private(self._state / "sa.key", private)
        account_public = write_private(self._state / "sa.pub", public)
        program = self._api = self._run(
            "kube-apiserver",
            f"--etcd-servers={self._etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.ca_file}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={account_public}",
            f"--service-account-signing-key-file={account_key}",
            "--api-audiences=https://kubernetes.default.svc",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            "--profiling=false",
            f"--cert-dir={self._state / 'auto'}",
            "--enable-admission-plugins=NamespaceLifecycle",
            # no controller manager of ours gives tokens to Pods, so Pods may come without one
            "--disable-admission-plugins=ServiceAccount",
        )
        admin = self.authority.user("test-admin", ("system:masters",))
        trust = ssl.create_default_context(cadata=self.authority.pem.decode())
        trust.load_cert_chain(
            write_private(self._state / "admin.crt", admin.certificate), write_private(self._state / "admin.key", admin.key)
        )
        self._wait("kube-apiserver", program, f"{self.url}/readyz", verify=trust, trust_env=False)

    def _start_controllers(self) -> None:
        kubeconfig = self.kubeconfig_for("system:kube-controller-manager")
        flags = [
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            f"--service-account-private-key-file={self._state / 'sa.key'}",
            f"--root-ca-file={self.ca_file}",
            "--use-service-account-credentials=true",
            "--profiling=false",
            "--controllers=namespace,garbagecollector,serviceaccount,serviceaccount-token,clusterrole-aggregation",
            "--secure-port=0",
        ]
        if self._knows("kube-controller-manager", " --port int"):
            flags.append("--port=0")  # before 1.24 a plain port stands open on every address otherwise
        self._run("kube-controller-manager", *flags)

    def kill_api(self) -> None:
        """The API server is gone without a last word; its store stays."""
        program = self._api
        assert program is not None
        program.kill()
        program.wait(10)
        self._programs.remove(program)

    def start_api(self) -> None:
        """The API server once more, on the same port, over the same store; waits for /readyz."""
        self._start_api()

    def kubeconfig_for(self, user: str, groups: tuple[str, ...] = ()) -> Path:
        """A kubeconfig with a client certificate of this user."""
        path = self._state / f"{user.replace(':', '-').replace('/', '-')}.kubeconfig"
        return write_kubeconfig(path, self.url, self.authority.pem, user, pair=self.authority.user(user, groups))

    def stop(self) -> None:
        """End what was started, the newest first, and remove the state."""
        for program in reversed(self._programs):
            if program.poll() is None:
                program.send_signal(signal.SIGTERM)
                try:
                    program.wait(20)
                except subprocess.TimeoutExpired:
                    program.kill()
                    program.wait(5)
        self._programs.clear()
        shutil.rmtree(self._state, ignore_errors=True)


def assets_folder() -> Path | None:
    """The folder that KUBEBUILDER_ASSETS names, if it holds what is needed."""
    text = os.environ.get("KUBEBUILDER_ASSETS", "")
    folder = Path(text)
    return folder if text and all((folder / name).exists() for name in ("etcd", "kube-apiserver")) else None
