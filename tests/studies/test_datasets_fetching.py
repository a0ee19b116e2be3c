import hashlib
import http.server
import io
import threading

import numpy as np
import pytest

from studies.datasets import downloading
from studies.datasets.downloading import DownloadError, fetch

BODY = np.random.default_rng(0).bytes(300_000)


class Handler(http.server.BaseHTTPRequestHandler):
    """Files from memory; cuts the connection when told to."""

    def do_GET(self):
        web = self.server.web
        web.asked.append(self.path)
        body = web.files.get(self.path)
        if isinstance(body, str):  # a redirection
            self.send_response(302)
            self.send_header("Location", body)
            self.end_headers()
            return
        if body is None or web.codes:
            self.send_error(web.codes.pop(0) if web.codes else 404)
            return
        self.send_response(200)
        if not web.silent:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.close_connection |= web.silent
        if web.cuts:
            body = body[: web.cuts.pop(0)]
            self.close_connection = True
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Web:
    def __init__(self, url):
        self.url, self.files, self.asked = url, {}, []
        self.cuts, self.codes, self.silent = [], [], False


@pytest.fixture
def web(monkeypatch):
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(downloading, "PAUSE_S", 0.0)
    monkeypatch.setattr(downloading, "ALLOWED", ("http://127.0.0.1:",))  # no certificate for a test
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.web = Web(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.web
    server.shutdown()
    thread.join()
    server.server_close()


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_a_file_arrives_whole_and_alone(web, tmp_path):
    web.files["/file"] = BODY
    target = fetch(
        f"{web.url}/file", tmp_path / "file", expected=f"sha256:{hashlib.sha256(BODY).hexdigest()}"
    )
    assert target.read_bytes() == BODY
    assert names(tmp_path) == ["file"]
    fetch(f"{web.url}/file", tmp_path / "file")
    assert len(web.asked) == 1


def test_a_broken_connection_is_asked_again_and_leaves_nothing_half(web, tmp_path):
    web.files["/file"] = BODY
    web.cuts = [100_000, 50_000]
    assert fetch(f"{web.url}/file", tmp_path / "file").read_bytes() == BODY
    assert len(web.asked) == 3
    assert names(tmp_path) == ["file"]


def test_a_connection_that_always_breaks_leaves_nothing(web, tmp_path):
    web.files["/file"] = BODY
    web.cuts = [70_000] * downloading.ATTEMPTS
    with pytest.raises(DownloadError, match="out of reach"):
        fetch(f"{web.url}/file", tmp_path / "file")
    assert names(tmp_path) == []


def test_a_wrong_checksum_is_refused_and_nothing_kept(web, tmp_path):
    web.files["/file"] = BODY
    with pytest.raises(DownloadError, match=r"damaged.*expected md5:00"):
        fetch(f"{web.url}/file", tmp_path / "file", expected="md5:00")
    assert names(tmp_path) == []


def test_a_missing_file_is_not_asked_for_again(web, tmp_path):
    with pytest.raises(DownloadError, match="404"):
        fetch(f"{web.url}/none", tmp_path / "file")
    assert len(web.asked) == 1


def test_a_busy_server_is_asked_again(web, tmp_path):
    web.files["/file"] = BODY
    web.codes = [503, 500]
    assert fetch(f"{web.url}/file", tmp_path / "file").read_bytes() == BODY
    web.codes = [503] * downloading.ATTEMPTS
    with pytest.raises(DownloadError, match="503"):
        fetch(f"{web.url}/file", tmp_path / "other")


def test_no_connection_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(downloading.time, "sleep", lambda seconds: waits.append(seconds))
    waits = []
    with pytest.raises(DownloadError, match="out of reach"):
        fetch("https://127.0.0.1:9/file", tmp_path / "file")
    assert sum(waits) == 0


def test_progress_on_a_terminal(web, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    web.files["/file"] = BODY
    fetch(f"{web.url}/file", tmp_path / "file")
    assert "100%" in screen.getvalue()


@pytest.mark.parametrize(
    "address", ["http://127.0.0.2/file", "file:///etc/hostname", "ftp://127.0.0.1/file", "/etc"]
)
def test_only_addresses_that_are_allowed_are_asked(web, tmp_path, address):
    """By default https alone; also where a server sends us on."""
    assert downloading.ALLOWED == ("http://127.0.0.1:",)
    web.files["/moved"] = address if "://" in address else "//127.0.0.2/file"
    for url in (address, f"{web.url}/moved"):
        with pytest.raises(DownloadError, match="is not asked"):
            fetch(url, tmp_path / "file")
    assert names(tmp_path) == []


def test_https_is_all_that_is_allowed():
    assert downloading.ALLOWED == ("https://",)


def test_redirections_are_followed_but_not_for_ever(web, tmp_path):
    web.files |= {"/moved": "/file", "/file": BODY, "/round": "/round"}
    assert fetch(f"{web.url}/moved", tmp_path / "file").read_bytes() == BODY
    with pytest.raises(DownloadError, match="redirected more than"):
        fetch(f"{web.url}/round", tmp_path / "other")


@pytest.mark.parametrize("told", [True, False])
def test_downloads_have_a_largest_size(web, tmp_path, monkeypatch, told):
    monkeypatch.setattr(downloading, "LARGEST", 1000)
    web.files["/file"] = BODY
    web.silent = not told
    with pytest.raises(DownloadError, match="too much"):
        fetch(f"{web.url}/file", tmp_path / "file")
    assert names(tmp_path) == []
