"""What `fresh serve` says at its start: how models are called, where it listens, who can come."""

import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.cli.main import main
from fresh.cli.serve import _told
from fresh.serving.models import NAME, _fitting, _named
from fresh.web.server import ALL, _own_address, _written, address_of, addresses_of, bind
from shared_web_start import places

__all__ = ["places"]


def complaint(capsys: pytest.CaptureFixture[str], *given: str) -> str:
    """Start a server that cannot be started, and give its last words."""
    assert main(["serve", "--port", "0", "--device", "cpu", *given]) == 1
    return capsys.readouterr().err


def test_models_have_names(places: dict[str, str]) -> None:
    one, other = places.values()
    assert _named([one, other]) == {"one-length": one, "any-length": other}
    assert _named([one, f"again={one}"]) == {"one-length": one, "again": one}
    assert _named(["owner/name"]) == {"name": "owner/name"}


def test_two_models_of_one_name_are_refused(places: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    one = places["one-length"]
    assert complaint(capsys, one, one) == (
        f"fresh serve: Two models have the name one-length: {one} and {one}. "
        f"Give one another name: other-one-length={one}.\n"
    )


NO_NAME = (
    "{name!r} cannot be the name of a model: a name stands in addresses, so it holds letters, digits, -, _ and . only, "
    "and begins with a letter or a digit. Write {better}."
)


@pytest.mark.parametrize(
    ("name", "better"),
    [("", "my-model"), ("..", "my-model"), ("my model", "my-model"), ("a/b", "a-b"), ("<b>", "b"), ("50%?", "50")],
)
def test_a_name_that_does_not_fit_into_an_address_is_refused(places: dict[str, str], name: str, better: str) -> None:
    one = places["one-length"]
    with pytest.raises(ValueError, match="cannot be the name") as caught:
        _named([f"{name}={one}"])
    assert str(caught.value) == NO_NAME.format(name=name, better=f"{better}={one}")


def test_a_folder_whose_name_does_not_fit_needs_another(tmp_path: Path) -> None:
    folder = tmp_path / "lr=0.1 (best)"
    folder.mkdir()
    with pytest.raises(ValueError, match="cannot be the name") as caught:
        _named([str(folder)])
    assert str(caught.value) == NO_NAME.format(name="lr=0.1 (best)", better=f"'lr-0.1-best={folder}'")
    assert _named([f"best={folder}"]) == {"best": str(folder)}
    assert _named([f"{tmp_path}/lr=0.2/model"]) == {
        "model": f"{tmp_path}/lr=0.2/model"
    }  # no folder, but no name either


@given(st.text())
def test_what_is_proposed_fits(name: str) -> None:
    assert NAME.fullmatch(_fitting(name))
    if NAME.fullmatch(name) and name[-1] not in "-_.":
        assert _fitting(name) == name


def test_a_folder_that_is_not_there_is_told_at_the_start(
    places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    missing = Path(places["one-length"]).with_name("one-lengt")
    assert complaint(capsys, str(missing)) == (
        f"fresh serve: There is no folder {missing}. Similar names: one-length, any-length. "
        "Give one of them, or owner/name for a model on the hub.\n"
    )


def test_a_port_in_use_and_a_bad_time_are_told(places: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    one = places["one-length"]
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        said = f"Port {port} of 127.0.0.1 is in use. Choose another with --port, or let one be found with --port 0."
        assert complaint(capsys, one, "--port", str(port)) == f"fresh serve: {said}\n"
    for wrong in ("0", "nan", "inf"):
        said = f"--timeout must be more than 0 seconds, and a number, got {wrong}."
        assert complaint(capsys, one, "--timeout", wrong) == f"fresh serve: {said}\n"


def test_a_port_in_use_hides_nothing_that_is_wrong_with_a_model(
    places: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        first = f"Port {port} of 127.0.0.1 is in use. Choose another with --port, or let one be found with --port 0."
        for given, said in (
            (str(tmp_path), f"{tmp_path} is not a saved model: it has no config.json. "),
            (f"a b={places['one-length']}", "'a b' cannot be the name of a model: "),
            ("no/such/folder", "There is no folder no/such/folder. "),
        ):
            shown = complaint(capsys, given, "--port", str(port)).splitlines()
            assert shown[0] == f"fresh serve: {first}"
            assert shown[1].startswith(said)
        assert complaint(capsys, "owner/on-the-hub", "--port", str(port)) == f"fresh serve: {first}\n"


def test_where_it_listens_is_told_as_addresses_that_can_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "desk")
    monkeypatch.setattr("fresh.web.server._own_address", lambda _family: ["192.168.0.7"])
    with bind("0.0.0.0", 0) as taken:  # noqa: S104
        port = taken.getsockname()[1]
        here = f"http://127.0.0.1:{port}/"
        assert address_of(taken) == here
        assert addresses_of(taken) == [here, f"http://desk:{port}/", f"http://192.168.0.7:{port}/"]
        assert addresses_of(taken, {"b.example", "a.example"}) == [
            f"http://a.example:{port}/",  # it is not reached under other names
            f"http://b.example:{port}/",
        ]
    with bind("127.0.0.1", 0) as taken:
        assert addresses_of(taken, {"a.example"}) == [address_of(taken)]
    assert _written(ALL["::"], 80) == "http://[::1]:80/"


def test_the_address_of_this_machine_is_one_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for found in _own_address(socket.AF_INET):
        socket.inet_pton(socket.AF_INET, found)

    def unreachable(*_given: object) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "socket", unreachable)
    assert _own_address(socket.AF_INET) == []


def test_what_is_served_and_where_is_told_in_a_line_or_two() -> None:
    assert _told(["a", "b"], ["http://127.0.0.1:8000/"]) == "Serving a, b at http://127.0.0.1:8000/ (Ctrl-C ends it)"
    assert _told(["a"], ["http://127.0.0.1:80/", "http://desk:80/", "http://10.0.0.1:80/"]).splitlines() == [
        "Serving a at http://127.0.0.1:80/ (Ctrl-C ends it)",
        "From other machines: http://desk:80/ or http://10.0.0.1:80/",
    ]


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])  # noqa: S104
def test_who_listens_beyond_this_machine_is_warned(
    places: dict[str, str], host: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fresh.web.server.serve", lambda _app, _taken: None)
    assert main(["serve", places["one-length"], "--host", host, "--port", "0", "--device", "cpu"]) == 0
    shown = capsys.readouterr()
    first, *others = shown.out.splitlines()
    assert first.startswith("Serving one-length at http://127.0.0.1:")
    if host == "127.0.0.1":
        assert (others, shown.err) == ([], "")
    else:
        assert others[0].startswith("From other machines: http://")
        assert shown.err == (
            "Anybody in the network can use it: there is no password and no encryption. To keep it to this machine, "
            "leave --host out;\nto let only some in, put a proxy with a password before it.\n"
        )
