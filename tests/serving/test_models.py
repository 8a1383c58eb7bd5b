"""What `fresh serve` says at its start: names of models, URLs, who can reach it."""

import re
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.cli.main import main
from fresh.serving.models import _NAME, _name_models, _valid_name
from fresh.web.server import bind


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Start a server that cannot be started, and return its message."""
    assert main(["serve", "--port", "0", "--device", "cpu", *arguments]) == 1
    return capsys.readouterr().err


def test_models_are_named_after_their_folders(places: dict[str, str]) -> None:
    one, other = places["one-length"], places["any-length"]
    assert _name_models([one, other]) == {"one-length": one, "any-length": other}
    assert _name_models([one, f"again={one}"]) == {"one-length": one, "again": one}
    assert _name_models(["owner/name"]) == {"name": "owner/name"}
    with pytest.raises(ValueError, match=f"Two models have the name one-length.*other-one-length={one}"):
        _name_models([one, one])


@pytest.mark.parametrize(
    ("name", "valid"),
    [("", "my-model"), ("..", "my-model"), ("my model", "my-model"), ("a/b", "a-b"), ("<b>", "b"), ("50%?", "50")],
)
def test_names_that_do_not_fit_into_urls_are_refused(place: str, name: str, valid: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{name!r} cannot be the name") + f".*Write {valid}={place}"):
        _name_models([f"{name}={place}"])


def test_folders_with_invalid_names_need_another_name(tmp_path: Path) -> None:
    folder = tmp_path / "lr=0.1 (best)"
    folder.mkdir()
    with pytest.raises(ValueError, match=re.escape(f"Write 'lr-0.1-best={folder}'.")):
        _name_models([str(folder)])
    assert _name_models([f"best={folder}"]) == {"best": str(folder)}
    missing = f"{tmp_path}/lr=0.2/model"  # no folder, but no name either
    assert _name_models([missing]) == {"model": missing}


@given(st.text())
def test_the_suggested_name_is_valid(name: str) -> None:
    assert _NAME.fullmatch(_valid_name(name))
    if _NAME.fullmatch(name) and name[-1] not in "-_.":
        assert _valid_name(name) == name


def test_invalid_models_and_ports_are_reported_together(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        in_use = re.compile(rf"fresh serve: Port {port} of 127\.0\.0\.1 is in use\. .*--port.*--port 0")
        for model, message in (
            (place, None),
            ("owner/on-the-hub", None),
            (str(tmp_path), "no config.json"),  # a port in use hides nothing that is wrong with a model
            (f"a b={place}", "'a b' cannot be the name of a model"),
            ("no/such/folder", "no folder no/such/folder"),
        ):
            first, *others = error_of(capsys, model, "--port", str(port)).splitlines()
            assert in_use.match(first)
            assert (message is None and not others) or (message is not None and message in others[0])


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])  # noqa: S104
def test_listening_on_all_addresses_prints_a_warning(
    place: str, host: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fresh.web.server.serve", lambda _app, _listener: None)
    monkeypatch.setattr(socket, "gethostname", lambda: "desk")
    monkeypatch.setattr("fresh.web.server._network_address", lambda _family: ["192.168.0.7"])
    assert main(["serve", place, "--host", host, "--port", "0", "--device", "cpu"]) == 0
    shown = capsys.readouterr()
    first, *others = shown.out.splitlines()
    assert re.match(r"Serving one-length at http://127\.0\.0\.1:\d+/ .*Ctrl-C", first)
    if host == "127.0.0.1":
        assert (others, shown.err) == ([], "")
    else:
        assert re.search(r"http://desk:\d+/ or http://192\.168\.0\.7:\d+/", others[0])
        assert re.search("no password.*--host.*proxy", shown.err, re.DOTALL)
