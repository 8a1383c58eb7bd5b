from hypothesis import given
from hypothesis import strategies as st

from fresh.study.display import QUERY_PARTS, format_query, split_query


def test_queries_are_split_into_named_parts() -> None:
    asked = ["What", "was", "on", "the", "desk", "?", "||", "A", "pencil"]
    assert split_query(asked, "multirc") == [("Question", "What was on the desk ?"), ("Answer", "A pencil")]
    parts = [("Intervention", "a"), ("Compared with", "b"), ("Outcome", "c d")]
    assert split_query(["a", "||", "b", "||", "c", "d"], "evinf") == parts
    for query, name in (("a || b", "evinf"), ("a || || b", "mine.csv")):
        assert split_query(query.split(), name) == [("", "a"), ("", "b")]
    assert split_query(["is", "it", "good", "?"], "multirc") == [("", "is it good ?")]
    assert split_query((), "multirc") == []
    assert format_query(["a", "||", "b", "||", "c"], "evinf") == "Intervention: a Compared with: b Outcome: c"
    assert format_query(["a", "||", "b"], "mine.csv") == "a / b"


@given(st.lists(st.sampled_from(["a", "b", "|", "||"])), st.sampled_from([*QUERY_PARTS, "mine.csv"]))
def test_splitting_a_query_keeps_all_words(query: list[str], name: str) -> None:
    shown = [word for _, part in split_query(query, name) for word in part.split()]
    assert shown == [word for word in query if word != "||"]
