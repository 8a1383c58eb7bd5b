"""A model used by several threads, and interrupted at any line, still gives the same answers."""

import ctypes
import inspect
import linecache
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch

import networks
from fresh.attribution import SCORERS, make_scorer
from fresh.attribution.support_model import SupportModel
from fresh.document import Document, Explanation, Saliency
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.device import without_cudnn_attention
from fresh.nn.encoder import load_encoder
from fresh.nn.network import _Lock
from fresh.nn.tokenizer import Text, WordCache, WordTokenizer
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import SaliencyExtractor
from method_cases import CASES, Trained
from tiny import WORDS

pytestmark = pytest.mark.filterwarnings("ignore:The gate has collapsed")
support_of = partial(networks.support_of, pooling="mean", layers=1)
FEW: dict[str, Any] = {"samples": 20, "steps": 3}


@pytest.fixture(autouse=True)
def _restless() -> Iterator[None]:
    """Make threads switch as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def sentences(n_texts: int) -> list[Document]:
    """Make texts that each contain a new word."""
    generator = random.Random(0)  # noqa: S311
    return [
        Document.from_words(
            [*generator.choices(WORDS, k=generator.randrange(4, 9)), f"new{generator.randrange(10**6)}"], (), str(n)
        )
        for n in range(n_texts)
    ]


def groups(documents: Sequence[Document], size: int = 4) -> list[list[Document]]:
    return [list(documents[start : start + size]) for start in range(0, len(documents), size)]


def n_differences(found: Sequence[Sequence[Explanation]], expected: Sequence[Sequence[Explanation]]) -> int:
    """Count explanations with another mask, or with probabilities more than 1e-5 apart."""
    pairs = [pair for both in zip(found, expected, strict=True) for pair in zip(*both, strict=True)]
    return sum(
        one.mask != other.mask
        or one.rationale != other.rationale
        or not np.allclose(
            [*one.prediction.probabilities.values()], [*other.prediction.probabilities.values()], atol=1e-5
        )
        for one, other in pairs
    )


def from_threads(n_threads: int, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, items))


@pytest.mark.parametrize("name", CASES)
def test_models_of_every_method_give_several_threads_the_same_answers(
    name: str, trained: Trained, tmp_path: Path
) -> None:
    case, (splits, result) = CASES[name], trained(name)
    result.model.save_pretrained(tmp_path / "model")
    known = case.method == "human" or case.asks
    documents = [example.document for example in splits.test] * 4 if known else sentences(32)
    expected: list[list[Explanation]] = []
    for n_threads in (1, 1, 2, 8):
        model = Rationalizer.from_pretrained(tmp_path / "model", device="cpu")  # with an empty word cache
        found = from_threads(n_threads, model.explain, groups(documents))
        expected = expected or found
        assert n_differences(found, expected) == 0


@pytest.mark.parametrize("n_threads", [2, 8])
@pytest.mark.parametrize("architecture", ["bert", "mpnet", "modernbert"])
def test_scorers_can_share_a_network(architecture: str, n_threads: int, encoders: dict[str, Path]) -> None:
    def score(job: tuple[str, list[Document]], support: SupportModel | None = None) -> list[Saliency]:
        support = support or support_of(encoders[architecture])
        return make_scorer(job[0], support, {**FEW, "layer": -1}).score(job[1])

    jobs = [(name, group) for name in SCORERS for group in groups(sentences(8))] * 2
    shared = support_of(encoders[architecture])
    found = from_threads(n_threads, lambda job: score(job, shared), jobs)
    for some, job in zip(found, jobs, strict=True):
        for one, other in zip(some, score(job), strict=True):
            assert (one.target, one.id) == (other.target, other.id)
            np.testing.assert_allclose(one.scores, other.scores, atol=1e-5)


def test_one_thread_at_a_time_runs_an_encoder(encoders: dict[str, Path]) -> None:
    classifier, running, most = support_of(encoders["bert"]).classifier, list[int](), list[int]()

    def enter(*_given: object) -> None:
        running.append(1)
        most.append(len(running))
        time.sleep(0.001)

    top = classifier.encoder.layers[-1]
    top.register_forward_pre_hook(enter)
    top.register_forward_hook(lambda *_given: running.clear())
    from_threads(4, classifier.probabilities, [[Text(("good", "film"))]] * 40)
    assert set(most) == {1}


def test_overlapping_blocks_restore_the_switch_of_cudnn() -> None:
    def attend(_: int) -> None:
        with without_cudnn_attention():
            assert not torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
            time.sleep(0.001)

    from_threads(8, attend, range(200))
    assert torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]


# Interrupts


def interrupt_at(line: int, *functions: Callable[..., Any]) -> Callable[..., Any]:
    """Make a trace function that raises KeyboardInterrupt at the given line event of some functions."""
    codes = {function.__code__ for function in functions}
    seen: set[int] = set()
    n_left = line

    def tracer(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal n_left
        if frame.f_code not in codes:
            return None
        if event == "line":
            # The end of a `with` block repeats the event of its first line; no interrupt can arrive there.
            is_with = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")
            if not (is_with and frame.f_lineno in seen):
                seen.add(frame.f_lineno)
                n_left -= 1
            if n_left == 0:
                raise KeyboardInterrupt
        return tracer

    return tracer


def test_an_interrupt_at_any_line_leaves_the_word_cache_intact(encoders: dict[str, Path]) -> None:
    encoder = load_encoder(str(encoders["bert"]))
    texts = [Text(("good", "old", "film", "xy")), Text(("unheard-of", "story"), ("praise",)), Text(("men", "sea"))]
    expected = WordTokenizer(encoder, "stagger", 64)(texts)
    functions = (WordCache.add, WordCache.look_up, WordTokenizer._tokenize)
    n_interrupted = 0
    for line in range(1, 200):
        words = WordTokenizer(encoder, "stagger", 64)
        words([Text(("the", "story"))])
        before = sys.gettrace()
        sys.settrace(interrupt_at(line, *functions))
        try:
            words(texts[:2])
        except KeyboardInterrupt:
            n_interrupted += 1
        finally:
            sys.settrace(before)
        for some in (texts, texts[::-1]):
            found = words(some)
            assert sorted(found.ids.tolist()) == sorted(expected.ids.tolist())
        assert words(texts).ids.tolist() == expected.ids.tolist()
        if n_interrupted < line:
            break
    n_lines = sum(len(inspect.getsource(function).splitlines()) for function in functions)
    assert n_lines / 3 < n_interrupted < 199


def is_interrupted(work: Callable[[], object], seconds: float) -> bool:
    """Interrupt work of this thread after some time, as Ctrl-C does; return whether that was before its end."""
    target, over = threading.get_ident(), threading.Event()

    def interrupt() -> None:
        if not over.wait(seconds):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(target), ctypes.py_object(KeyboardInterrupt))

    timer = threading.Thread(target=interrupt)
    try:
        timer.start()
        try:
            work()
        finally:
            over.set()
            timer.join()
        for _ in range(100):  # an interrupt sent at the very end arrives here
            time.sleep(0)
    except KeyboardInterrupt:
        return True
    return False


def state_of(support: SupportModel) -> dict[str, object]:
    """Return everything that scoring could change, except generators, which captum seeds before each use."""
    return {name: value for name, value in networks.trace(support.classifier).items() if name not in {"torch", "numpy"}}


def explain_in_thread(model: Rationalizer, documents: Sequence[Document]) -> list[Explanation]:
    """Explain in another thread, which waits forever if a lock is still held."""
    found: list[Explanation] = []
    thread = threading.Thread(target=lambda: found.extend(model.explain(documents)), daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "a lock is still held"
    return found


def test_an_interrupt_releases_the_lock_of_a_network() -> None:
    lock = _Lock()

    def enter_and_leave() -> None:
        while True:
            with lock:
                pass

    for seconds in np.random.default_rng(0).uniform(0, 0.003, 200).tolist():
        assert is_interrupted(enter_and_leave, seconds)
        assert ThreadPoolExecutor(1).submit(lock.acquire, timeout=10).result()
        lock = _Lock()


def forget_words(support: SupportModel, predictor: Predictor) -> None:
    support.classifier.tokenizer.cache, predictor.classifier.tokenizer.cache = WordCache(), WordCache()


def model_of(name: str, support: SupportModel, predictor: Predictor) -> Rationalizer:
    return Rationalizer(SaliencyExtractor(make_scorer(name, support, FEW), TopK(0.3), support), predictor)


# An interrupt may also fall into a callback of the garbage collector, which Hypothesis leaves behind; there it is lost.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("n_times"), [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_interrupted_explanations_leave_models_intact(
    n_times: int, encoders: dict[str, Path], predictor: Predictor
) -> None:
    support, documents, generator = support_of(encoders["bert"]), sentences(4), random.Random(1)  # noqa: S311
    models = [model_of(name, support, predictor) for name in SCORERS]
    expected, before = {id(model): model.explain(documents) for model in models}, state_of(support)
    begin = time.perf_counter()
    for model in models:
        model.explain(documents)
    seconds = (time.perf_counter() - begin) / len(models)
    n_interrupted = n_wrong = 0
    while n_interrupted < n_times:
        model = generator.choice(models)
        forget_words(support, model.predictor)
        n_interrupted += is_interrupted(partial(model.explain, documents), generator.uniform(0, seconds))
        n_wrong += n_differences([explain_in_thread(model, documents)], [expected[id(model)]])
        n_wrong += state_of(support) != before
    assert n_wrong == 0


# Slow


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("encoder", ["bert", "minilm"])
def test_many_explanations_in_eight_threads(encoder: str, encoders: dict[str, Path], predictor: Predictor) -> None:
    n_texts = {name: 400 if name in {"lime", "kernel_shap"} else 14_400 for name in SCORERS}
    support = support_of(encoders["bert"])
    if encoder == "minilm":
        n_texts = dict.fromkeys(("attention_gradient", "gradient", "attention"), 3_400)
        network = NetworkConfig("minilm", layers=2)
        reader, classifier = (Classifier(load_encoder("minilm"), ("neg", "pos"), network) for _ in range(2))
        support, predictor = SupportModel(classifier), Predictor(reader)
    assert sum(n_texts.values()) >= (10_000 if encoder == "minilm" else 100_000)
    for name, n in n_texts.items():
        model, documents = model_of(name, support, predictor), groups(sentences(n), 16)
        expected = [model.explain(some) for some in documents]
        forget_words(support, predictor)
        assert n_differences(from_threads(8, model.explain, documents), expected) == 0, name
