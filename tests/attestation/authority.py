"""A real time-stamping authority for tests: `openssl ts` behind HTTP, with a certificate chain of its own."""

from __future__ import annotations

import http.server
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

CONFIG = """
[ca_ext]
basicConstraints = critical,CA:true
keyUsage = critical,keyCertSign
[tsa_ext]
basicConstraints = critical,CA:false
keyUsage = critical,digitalSignature
extendedKeyUsage = critical,timeStamping
[tsa]
default_tsa = tsa_config
[tsa_config]
serial = {folder}/serial
crypto_device = builtin
signer_cert = {folder}/tsa.pem
certs = {folder}/ca.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha512
accuracy = secs:1
ordering = no
tsa_name = no
ess_cert_id_chain = no
ess_cert_id_alg = sha256
"""


class Authority:
    """Certificates in a folder; `url` while it serves; `stamp` without HTTP."""

    def __init__(self, folder: Path, name: str = "Test TSA") -> None:
        if shutil.which("openssl") is None:
            pytest.fail("these tests run a real time-stamping authority: apt-get install openssl")
        self.folder = folder
        folder.mkdir(parents=True)
        (folder / "serial").write_text("01\n")
        self.config = folder / "tsa.cnf"
        self.config.write_text(CONFIG.format(folder=folder))
        self.root = folder / "ca.pem"
        self._make(name)

    def _make(self, name: str) -> None:
        def run(*arguments: str) -> None:
            subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

        for who in ("ca", "tsa"):
            run("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{who}.key")
            run("req", "-new", "-key", f"{who}.key", "-subj", f"/CN={name} {who}", "-out", f"{who}.csr")
        days, text = ("-days", "3650"), ("-extfile", str(self.config))
        run("x509", "-req", "-in", "ca.csr", "-signkey", "ca.key", "-out", "ca.pem", *days, *text,
            "-extensions", "ca_ext")  # fmt: skip
        run("x509", "-req", "-in", "tsa.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", "tsa.pem", *days, *text, "-extensions", "tsa_ext")  # fmt: skip

    def reply(self, query: bytes) -> bytes:
        """What the authority answers to a query."""
        (self.folder / "query.tsq").write_bytes(query)
        subprocess.run(
            ["openssl", "ts", "-reply", "-config", str(self.config), "-queryfile", "query.tsq", "-out", "r.tsr"],
            cwd=self.folder,
            check=True,
            capture_output=True,
        )
        return (self.folder / "r.tsr").read_bytes()

    def stamp(self, file: Path) -> bytes:
        """A timestamp over a file, asked for with openssl's own client."""
        query = subprocess.run(
            ["openssl", "ts", "-query", "-data", str(file), "-sha256", "-cert"], check=True, capture_output=True
        )
        return self.reply(query.stdout)

    def serve(self) -> http.server.ThreadingHTTPServer:
        """Starts answering on a free port of this machine."""
        authority = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                query = self.rfile.read(int(self.headers["Content-Length"]))
                answer = b"no" if self.path == "/broken" else authority.reply(query)
                self.send_response(500 if self.path == "/down" else 200)
                self.send_header("Content-Type", "application/timestamp-reply")
                self.end_headers()
                self.wfile.write(authority.last if self.path == "/replay" else answer)
                authority.last = answer

            def log_message(self, *_: object) -> None:
                pass

        self.last = b""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        return server
