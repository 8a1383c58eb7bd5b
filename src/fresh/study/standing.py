"""How the conditions of a study stand while it runs: answers, time, agreement."""

from dataclasses import dataclass

from fresh.study.answer import typical_seconds
from fresh.study.overview import counted
from fresh.study.ratings import by_item
from fresh.study.results import Agreement, agreement_of
from fresh.study.store import Store


@dataclass(frozen=True, slots=True)
class _Standing:
    """How far one condition is."""

    condition: str
    n_answered: int
    n_planned: int
    seconds: float | None
    """Median time of an answer; nothing while none is measured."""
    agreement: Agreement | None


def standings(store: Store) -> list[_Standing]:
    """Say how far each condition is."""
    responses, labels = counted(store), sorted(store.labels)
    n_planned = store.shape.n_documents * store.shape.per_item
    found: list[_Standing] = []
    for name in store.conditions:
        own = [response for response in responses if response.condition == name]
        if not own:
            found.append(_Standing(name, 0, n_planned, None, None))
            continue
        seconds = typical_seconds(response.milliseconds for response in own)
        agreement = agreement_of(list(by_item(own).values()), labels, store.shape.per_item)
        found.append(_Standing(name, len(own), n_planned, seconds, agreement))
    return found
