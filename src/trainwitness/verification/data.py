"""Property `data_matches`: the trace's rows are those of the verifier's own copy."""

from __future__ import annotations

from trainwitness.core.errors import DataDamaged
from trainwitness.core.verdict import Property
from trainwitness.tasks.data.known import published
from trainwitness.tasks.dataset import Dataset
from trainwitness.trace.format import Manifest
from trainwitness.trace.record import dataset_facts


def check_data(dataset: Dataset, manifest: Manifest) -> Property:
    """Compares the data root with the verifier's own; a damaged copy of a published data set is an error of ours."""
    own, stated = dataset_facts(dataset).root, manifest.data.root
    if own == stated:
        name = published(own)
        return Property(
            standing="established",
            why=f"the data root is that of this copy of {dataset.name}" + (f", the published {name}" if name else ""),
        )
    # Only a copy that calls itself by the published name can be a damaged copy of it.
    named = (published(stated) or "").partition(" ")[0]
    if named == dataset.name and not published(own):
        raise DataDamaged(
            f"this copy of {dataset.name} has data root {own}, the published {published(stated)} has {stated}, "
            "which is also what the trace states: the copy here is damaged",
            hint="fetch the data set again; nothing is known about the trace yet",
        )
    known = f", the published {published(own)}" if published(own) else ""
    return Property(
        standing="refuted",
        why=f"the trace states data root {stated}, this copy of {dataset.name}{known} has {own}",
    )
