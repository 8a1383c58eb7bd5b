from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from fresh.document import Document, Explanation, Mask
from fresh.highlight import CONTROL_PICTURES, HTML_CONTROL_PICTURES, N_BARS, READ, _highlight
from fresh.rationale import Prediction
from fresh.text import split_words
from pages import HOSTILE
from strategies import masks, texts


class Parts(HTMLParser):
    """The texts of some HTML, each with the tags around it, and all opening tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.around: list[str] = []
        self.texts: list[tuple[str, tuple[str, ...]]] = []
        self.opened: list[tuple[str, tuple[str, ...]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.around.append(tag)
        self.opened.append((tag, tuple(name for name, _ in attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.around.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((data, tuple(self.around)))

    def inside(self, tag: str) -> str:
        return "".join(text for text, around in self.texts if tag in around)


ANSWER = Prediction("pos", {"neg": 0.25, "pos": 0.75})


def explanation(text: str, kept: Mask | None = None, query: str = "", answer: Prediction = ANSWER) -> Explanation:
    document = Document.from_text(text, query)
    mask = Mask.full(len(document.words)) if kept is None else kept
    return Explanation(document, mask, document.cut(mask), answer)


def test_adjacent_words_are_one_mark() -> None:
    html = _highlight("a <very> good film", ((2, 13),))
    assert html == f'a <mark style="{READ}">&lt;very&gt; good</mark> film'


@given(texts(min_size=1), st.data())
def test_no_character_is_added_or_lost_and_marks_are_in_place(text: str, data: st.DataObject) -> None:
    shown = text.translate(HTML_CONTROL_PICTURES)
    words = split_words(text)
    spans = explanation(text, data.draw(masks(Document.from_text(text)))).spans if words else ()
    parts = Parts(_highlight(text, spans))
    assert "".join(part for part, _ in parts.texts) == shown
    assert parts.inside("mark") == "".join(shown[start:end] for start, end in spans)
    assert [tag for tag, _ in parts.opened] == ["mark"] * len(spans)


@given(st.text(st.characters(), max_size=20))
def test_every_character_becomes_one_that_can_be_encoded(text: str) -> None:
    for table in (CONTROL_PICTURES, HTML_CONTROL_PICTURES):
        shown = text.translate(table)
        assert len(shown) == len(text)
        shown.encode("utf-8")


def test_control_characters_are_shown_and_others_stay() -> None:
    for control in "\x1b\x07\x7f\x9b\u202e\u2066\ud800":
        assert control not in f"a{control}b".translate(CONTROL_PICTURES)
        assert control not in _highlight(f"a{control}b", ())
    others = "\n\té\u05d0\u200f😀\u00a0"
    assert others.translate(CONTROL_PICTURES) == others


def test_a_notebook_shows_the_answer_the_query_and_the_words_that_were_read() -> None:
    html = explanation("a very good film", Mask.from_spans(((1, 3),), 4))._repr_html_()
    parts = Parts(html)
    shown = " ".join("".join(text for text, _ in parts.texts).split())
    assert "pos (probability 0.75): 2 words were read, 50% of the text." in shown
    assert "Only the words that were readvery good" in shown
    assert parts.inside("mark") == "very good"
    assert html.index("<bdi>pos</bdi></div><div") < html.index("<bdi>neg</bdi></div><div")  # the likelier bar is first
    assert "width:75.0%" in html
    html = explanation("It was late.", Mask.from_spans(((1, 2),), 4), "Was it <late>?")._repr_html_()
    assert "Query: <bdi>Was it &lt; late &gt; ?</bdi>" in html
    assert "1 word was read, 25% of the text." in html


def test_a_notebook_shows_few_of_many_labels() -> None:
    shares = {f"label {n}": n / 45 for n in range(10)}
    html = explanation("x", answer=Prediction("label 9", shares))._repr_html_()
    assert html.count("width:") == N_BARS + 1  # and the width of the whole
    assert "and 4 more labels" in html
    assert "label 3" not in html


def test_no_text_can_break_out_of_a_notebook() -> None:
    hostile = explanation(HOSTILE, query=HOSTILE, answer=Prediction(HOSTILE, {HOSTILE: 1.0}))
    parts = Parts(hostile._repr_html_())
    assert {tag for tag, _ in parts.opened} == {"div", "strong", "bdi", "mark", "details", "summary"}
    assert {name for _, names in parts.opened for name in names} == {"style", "dir"}
    assert "\u202e" not in "".join(text for text, _ in parts.texts)


def test_a_long_document_makes_little_html() -> None:
    text = "word " * 3000
    every_other = Mask.from_spans([(n, n + 1) for n in range(0, 3000, 2)], 3000)
    explained = explanation(text, every_other)
    html = explained._repr_html_()
    assert len(html) < 100 * len(text)
    assert html.count("<mark") == 1500
    assert "max-height" in html
