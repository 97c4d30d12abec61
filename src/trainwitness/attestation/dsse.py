"""DSSE envelopes: a payload, its type, and signatures over both.

https://github.com/secure-systems-lab/dsse, protocol version 1. The payload is checked as the bytes it is, and is read
only after a signature over it and its type was found good.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from trainwitness.attestation.keys import Private, PublicKey, sign
from trainwitness.core.errors import EvidenceDamaged
from trainwitness.core.records import parse

PAYLOAD_TYPE = "application/vnd.in-toto+json"


class Signature(BaseModel):
    """One signer's signature; `keyid` is a hint and is not believed."""

    model_config = ConfigDict(frozen=True, strict=True)

    keyid: str = ""
    sig: str


class Envelope(BaseModel):
    """Payload and signatures in base64. Unknown members are ignored, as the protocol asks."""

    model_config = ConfigDict(frozen=True, strict=True)

    payload: str
    payloadType: Annotated[str, Field(max_length=256)]
    signatures: Annotated[list[Signature], Field(min_length=1, max_length=64)]

    def content(self) -> bytes:
        """The payload's bytes."""
        return _decoded(self.payload)

    def signed_by(self, key: PublicKey) -> bool:
        """Whether any signature is this key's over the payload and its type."""
        message = encoded(self.payloadType, self.content())
        return any(key.signed(_decoded(signature.sig), message) for signature in self.signatures)


def encoded(payload_type: str, payload: bytes) -> bytes:
    """PAE: what is signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def seal(payload: bytes, key: Private, payload_type: str = PAYLOAD_TYPE) -> Envelope:
    """An envelope with one signature."""
    signature = sign(key, encoded(payload_type, payload))
    public = PublicKey(key.public_key())
    return Envelope(
        payload=base64.b64encode(payload).decode(),
        payloadType=payload_type,
        signatures=[Signature(keyid=public.id, sig=base64.b64encode(signature).decode())],
    )


def parse_envelope(content: bytes, name: str) -> Envelope:
    """An envelope from its JSON; its base64 is looked at too, so nothing fails later."""
    envelope = parse(Envelope, content, name, EvidenceDamaged)
    try:
        envelope.content()
        for signature in envelope.signatures:
            _decoded(signature.sig)
    except (binascii.Error, ValueError) as error:
        raise EvidenceDamaged(f"{name}: not base64: {error}") from error
    return envelope


def _decoded(text: str) -> bytes:
    """Standard or URL-safe base64, padded."""
    return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
