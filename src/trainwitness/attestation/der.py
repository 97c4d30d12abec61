"""The order of certificates in a timestamp: DER wants a set sorted, and OpenSSL's authority sends it as it comes.

The certificates are not under the authority's signature, so putting them in order changes nothing that was signed.
"""

from __future__ import annotations

from collections.abc import Iterator

_SEQUENCE, _TAG_0 = 0x30, 0xA0
_STEPS = ((0, _SEQUENCE), (1, _SEQUENCE), (1, _TAG_0), (0, _SEQUENCE), (3, _TAG_0))
"""Response > token > [0] content > SignedData > [0] certificates: number among its siblings, and tag."""


def with_sorted_certificates(response: bytes) -> bytes:
    """The same response with its certificates in DER's order; unchanged where it is not shaped like one."""
    begin, end = 0, len(response)
    for number, tag in _STEPS:
        parts = list(_parts(response, begin, end))
        if len(parts) <= number or response[parts[number][0]] != tag:
            return response
        _, begin, end = parts[number]
    certificates = [response[first:behind] for first, _, behind in _parts(response, begin, end)]
    ordered = b"".join(sorted(certificates))
    return response[:begin] + ordered + response[end:] if len(ordered) == end - begin else response


def _parts(content: bytes, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(start, start of the value, end) of each element; stops where the lengths make no sense."""
    while begin + 2 <= end:
        size, at = content[begin + 1], begin + 2
        if size & 0x80:
            count = size & 0x7F
            size, at = int.from_bytes(content[at : at + count], "big"), at + count
        if at + size > end:
            return
        yield begin, at, at + size
        begin = at + size
