from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.document import Document, Explanation, Mask
from fresh.highlight import CONTROL_PICTURES, HTML_CONTROL_PICTURES, HUMAN, N_BARS, READ, _highlight
from fresh.rationale import Prediction
from fresh.text import split_words
from pages import HOSTILE
from strategies import masks, texts


class Parts(HTMLParser):
    """The texts of a piece of HTML, each with the tags around it, and all tags that were opened."""

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


def explanation(text: str, kept: Mask | None = None) -> Explanation:
    document = Document.from_text(text)
    mask = Mask.full(len(document.words)) if kept is None else kept
    return Explanation(document, mask, document.cut(mask), Prediction("pos", {"neg": 0.25, "pos": 0.75}))


def test_neighbouring_words_are_one_mark() -> None:
    html = _highlight("a <very> good film", ((2, 13),))
    assert html == f'a <mark style="{READ}">&lt;very&gt; good</mark> film'


def test_what_people_marked_is_underlined_inside_and_outside_of_marks() -> None:
    html = _highlight("one two three", ((4, 7),), ((0, 5), (6, 13)))
    line = f'<u style="{HUMAN}">'
    assert html == (f'{line}one </u><mark style="{READ}">{line}t</u>w{line}o</u></mark>{line} three</u>')


@given(texts(min_size=1), st.data())
def test_no_character_is_added_or_lost_and_marks_stand_where_they_should(text: str, data: st.DataObject) -> None:
    spans = split_words(text)
    if not spans:
        assert Parts(_highlight(text, ())).texts == [(text.translate(HTML_CONTROL_PICTURES), ())] or not text
        return
    document = Document.from_text(text)
    explained = explanation(text, data.draw(masks(document)))
    people = explanation(text, data.draw(masks(document))).spans
    parts = Parts(_highlight(text, explained.spans, people))
    shown = text.translate(HTML_CONTROL_PICTURES)
    assert "".join(part for part, _ in parts.texts) == shown
    assert parts.inside("mark") == "".join(shown[start:end] for start, end in explained.spans)
    assert parts.inside("u") == "".join(shown[start:end] for start, end in people)
    assert [tag for tag, _ in parts.opened].count("mark") == len(explained.spans)


@given(st.text(st.characters(), max_size=20))
def test_one_sign_stands_for_one_and_can_always_be_written(text: str) -> None:
    for table in (CONTROL_PICTURES, HTML_CONTROL_PICTURES):
        shown = text.translate(table)
        assert len(shown) == len(text)
        shown.encode("utf-8")


@pytest.mark.parametrize("sign", ["\x1b", "\x07", "\x7f", "\x9b", "\u202e", "\u2066", "\ud800"])
def test_a_sign_that_steers_is_shown_and_not_obeyed(sign: str) -> None:
    assert sign not in f"a{sign}b".translate(CONTROL_PICTURES)
    assert sign not in _highlight(f"a{sign}b", ())


@pytest.mark.parametrize("sign", ["\n", "\t", "é", "א", "\u200f", "😀", "\u00a0"])
def test_other_signs_stay_as_they_are(sign: str) -> None:
    assert sign.translate(CONTROL_PICTURES) == sign


# In a notebook


def test_a_notebook_shows_the_answer_and_what_it_was_made_from() -> None:
    html = explanation("a very good film", Mask.from_spans(((1, 3),), 4))._repr_html_()
    parts = Parts(html)
    shown = " ".join("".join(text for text, _ in parts.texts).split())
    assert "pos (probability 0.75): 2 words were read, 50% of the text." in shown
    assert "Only the words that were readvery good" in shown
    assert parts.inside("mark") == "very good"
    assert html.index("<bdi>pos</bdi></div><div") < html.index("<bdi>neg</bdi></div><div")  # the likelier bar is first
    assert "width:75.0%" in html


def test_a_notebook_shows_what_was_asked() -> None:
    document = Document.from_text("It was late.", query="Was it <late>?")
    html = Explanation(
        document, Mask.full(4), document.cut(Mask.full(4)), Prediction("yes", {"yes": 1.0})
    )._repr_html_()
    assert "Query: <bdi>Was it &lt; late &gt; ?</bdi>" in html


def test_one_word_is_one_word() -> None:
    html = explanation("good film", Mask.from_spans(((0, 1),), 2))._repr_html_()
    assert "1 word was read, 50% of the text." in html


def test_many_labels_are_cut_short() -> None:
    shares = {f"label {n}": n / 45 for n in range(10)}
    html = Explanation(
        Document.from_text("x"), Mask.full(1), Document.from_text("x").cut(Mask.full(1)), Prediction("label 9", shares)
    )._repr_html_()
    assert html.count("width:") == N_BARS + 1  # and the width of the whole
    assert "and 4 more labels" in html
    assert "label 3" not in html


def test_no_text_can_break_out_of_a_notebook() -> None:
    document = Document.from_text(HOSTILE, query=HOSTILE)
    prediction = Prediction(HOSTILE, {HOSTILE: 1.0})
    parts = Parts(
        Explanation(
            document, Mask.full(len(document.words)), document.cut(Mask.full(len(document.words))), prediction
        )._repr_html_()
    )
    assert {tag for tag, _ in parts.opened} == {"div", "strong", "bdi", "mark", "details", "summary"}
    assert {name for _, names in parts.opened for name in names} == {"style", "dir"}
    assert "\u202e" not in "".join(text for text, _ in parts.texts)


def test_a_long_document_is_shown_in_few_letters() -> None:
    text = "word " * 3000
    every_other = Mask.from_spans([(n, n + 1) for n in range(0, 3000, 2)], 3000)
    explained = explanation(text, every_other)
    html = explained._repr_html_()
    assert len(html) < 100 * len(text)
    assert html.count("<mark") == 1500
    assert "max-height" in html
