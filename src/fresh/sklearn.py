"""A rationalizer as a scikit-learn estimator."""

from collections.abc import Iterable
from inspect import Parameter, Signature
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from fresh.config import from_mapping, list_settings, suggest
from fresh.data.splits import Splits, split_off
from fresh.document import Document, Example, Explanation
from fresh.errors import DataError
from fresh.methods.config import FreshConfig
from fresh.methods.fresh import train
from fresh.progress import SILENT, Terminal
from fresh.training.loop import RunContext

SETTINGS = {setting.name: setting.default for setting in list_settings(FreshConfig)}
PARAMETERS = {**SETTINGS, "dev_share": 0.1, "verbose": False}


class FreshClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A text classifier whose answers show the words they were computed from.

    Documents are texts, or pairs of a text and a query. All settings of the method are parameters, such as ``scorer``,
    ``ratio``, ``encoder`` and ``epochs``. Two more are ``dev_share``, the share of the training documents that is held
    back to choose the best epoch, and ``verbose``, which shows progress bars.
    """

    def __init__(self, **settings: Any) -> None:
        for name in settings:
            if name not in PARAMETERS:
                raise TypeError(suggest(name, "a parameter of FreshClassifier", PARAMETERS))
        for name, default in PARAMETERS.items():
            setattr(self, name, settings.get(name, default))

    # scikit-learn reads the parameters off the signature.
    __init__.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
        + [Parameter(name, Parameter.KEYWORD_ONLY, default=default) for name, default in PARAMETERS.items()]
    )

    def __sklearn_tags__(self) -> Tags:
        """Declare to scikit-learn that documents are text."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags

    def fit(self, X: Iterable[Any], y: ArrayLike) -> Self:  # noqa: N803
        """Train on documents and their labels.

        :param y: One label for each document. Shape: (documents,), or (documents, 1) with a warning.
        """
        documents = _read(X)
        labels = column_or_1d(y, warn=True)  # the message of scikit-learn's own classifiers for several columns
        if len(documents) != len(labels):
            raise DataError(f"Give one label for each document, got {len(labels)} for {len(documents)}.")
        if any(isinstance(label, list | tuple | set) for label in labels.tolist()):
            raise DataError("y must have one label for each document. For several, fit one classifier for each label.")
        if any(label is None or label != label for label in labels.tolist()):  # noqa: PLR0124  # not a number
            raise DataError("Some labels are missing. Leave those documents out.")
        self.classes_ = np.unique(labels)
        examples = tuple(map(Example, documents, (str(label) for label in labels)))
        settings = {name: getattr(self, name) for name in SETTINGS}
        custom = settings.pop("scorer") if callable(settings["scorer"]) else None
        config = from_mapping(FreshConfig, settings)
        # At least one document of each class can be held back.
        n_dev = max(len(self.classes_), round(self.dev_share * len(examples)))
        rest, dev, _ = split_off(examples, n_dev, 0, config.train.seed)
        context = RunContext(progress=Terminal() if self.verbose else SILENT)
        self.model_ = train(Splits(rest, dev, dev), config, context, custom).model
        return self

    def explain(self, X: Iterable[Any]) -> list[Explanation]:  # noqa: N803
        """Classify documents and show the words that each answer was computed from."""
        check_is_fitted(self)
        return self.model_.explain(_read(X))

    def predict_proba(self, X: Iterable[Any]) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability of each class. Shape: (documents, classes)."""
        explanations = self.explain(X)
        rows = [[item.prediction.probabilities[str(name)] for name in self.classes_] for item in explanations]
        return np.array(rows, dtype=np.float64).reshape(len(explanations), len(self.classes_))

    def predict(self, X: Iterable[Any]) -> NDArray[Any]:  # noqa: N803
        """Classify documents."""
        best = self.predict_proba(X).argmax(1)  # first, since it raises if the classifier is not fitted
        labels: NDArray[Any] = self.classes_[best]
        return labels


def _read(documents: Iterable[Any]) -> list[Document]:
    if isinstance(documents, str) or hasattr(documents, "columns"):
        raise DataError(f"X must be a list of texts or one column, got {type(documents).__name__}.")
    read: list[Document] = []
    for number, item in enumerate(documents):
        if isinstance(item, Document):
            read.append(item)
        elif isinstance(item, str):
            read.append(Document.from_text(item, id=str(number)))
        elif isinstance(item, list | tuple | np.ndarray) and len(item) == 2:
            text, query = map(str, item)
            read.append(Document.from_text(text, query, str(number)))
        else:
            raise DataError(f"Document {number} must be a text or a pair of a text and a query, got {item!r:.60}.")
    return read
