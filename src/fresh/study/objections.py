"""What stands against showing some documents to people."""

from collections import Counter
from collections.abc import Iterator, Sequence

from fresh.document import Example
from fresh.study.config import Study
from fresh.study.wording import alike, plural, wrong_name


def too_few(n_examples: int, n_usable: int, wanted: int, human: bool, n_practice: int) -> str:
    """Say that there are not enough documents."""
    if human and n_examples and not n_usable:
        return (
            f"No words are marked in any of the {plural(n_examples, 'document')}: there are no human rationales to "
            "show. Leave the human condition out, or name the column that has them (rationale)."
        )
    marked = f", of which people marked words in {n_usable:,}" if human else ""
    way_out = "Ask for less (sample, practice)" + (", or leave the human condition out." if human else ".")
    needs = f"{plural(wanted, 'document')} ({wanted - n_practice:,} to be judged and {n_practice:,} to practise)"
    return f"The study needs {needs}, but there {'is' if n_examples == 1 else 'are'} {n_examples:,}{marked}. {way_out}"


def wrong_examples(study: Study, examples: Sequence[Example]) -> Iterator[str]:
    """Say what is wrong with the documents themselves."""
    labels = sorted({example.label for example in examples})
    if examples and len(labels) < 2:
        all_of_them = f"All {len(examples):,} documents have" if len(examples) > 1 else "The only document has"
        yield f"{all_of_them} the label {labels[0]!r}. People need at least two to choose from."
    unknown = sorted(study.labels.keys() - set(labels)) if examples else []
    if unknown:
        yield f"The study names labels that no document has: {', '.join(unknown)}. There are: {', '.join(labels)}."
    shown = {label: study.labels.get(label, label) for label in labels}
    for label in labels:
        yield from wrong_name(f"The label {label!r}, as people read it,", shown[label])
    for one, other in alike(shown.values()):
        yield f"Two labels look alike as people read them: {one!r} and {other!r}. Give each its own in [labels]."
    [(name, count)] = Counter(example.document.id for example in examples).most_common(1) or [("", 0)]
    if count > 1:
        yield f"{count} documents are called {name!r}. Give each its own id."
    for example in examples:
        try:
            "\0".join((*example.document.words, *example.document.query, example.label, example.document.id)).encode()
        except UnicodeEncodeError:
            yield f"Document {example.document.id!r} holds half a character. Mend it, or leave it out."
