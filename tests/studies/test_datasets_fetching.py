import hashlib
import http.server
import io
import threading

import numpy as np
import pytest

from studies.datasets import fetching
from studies.datasets.fetching import DownloadError, fetch

BODY = np.random.default_rng(0).bytes(300_000)


class Handler(http.server.BaseHTTPRequestHandler):
    """Files from memory, with ranges; cuts the connection when told to."""

    def do_GET(self):
        web = self.server.web
        web.asked.append((self.path, self.headers.get("Range")))
        body = web.files.get(self.path)
        if body is None or web.codes:
            self.send_error(web.codes.pop(0) if web.codes else 404)
            return
        start = self.start(web)
        if start >= len(body):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(body)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        self.send_header("ETag", web.etag)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        rest = body[start:]
        if web.cuts:
            rest = rest[: web.cuts.pop(0)]
            self.close_connection = True
        self.wfile.write(rest)

    def start(self, web):
        asked = self.headers.get("Range")
        if asked is None or self.headers.get("If-Range") != web.etag:
            return 0
        return int(asked.removeprefix("bytes=").removesuffix("-"))

    def log_message(self, *args):
        pass


class Web:
    def __init__(self, url):
        self.url, self.files, self.asked, self.etag = url, {}, [], '"one"'
        self.cuts, self.codes = [], []

    @property
    def ranges(self):
        return [asked for _, asked in self.asked]


@pytest.fixture
def web(monkeypatch):
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(fetching, "PAUSE_S", 0.0)
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


def test_a_broken_connection_is_resumed_where_it_broke(web, tmp_path):
    web.files["/file"] = BODY
    web.cuts = [100_000, 50_000]
    assert fetch(f"{web.url}/file", tmp_path / "file").read_bytes() == BODY
    assert web.ranges == [None, "bytes=100000-", "bytes=150000-"]


def test_a_later_call_resumes_what_an_earlier_one_left(web, tmp_path, monkeypatch):
    web.files["/file"] = BODY
    web.cuts = [70_000]
    monkeypatch.setattr(fetching, "ATTEMPTS", 1)
    with pytest.raises(DownloadError, match="broke off"):
        fetch(f"{web.url}/file", tmp_path / "file")
    assert names(tmp_path) == ["file.part", "file.part.validator"]
    assert fetch(f"{web.url}/file", tmp_path / "file").read_bytes() == BODY
    assert web.ranges[-1] == "bytes=70000-"
    assert names(tmp_path) == ["file"]


def test_a_file_that_has_changed_meanwhile_is_begun_anew(web, tmp_path, monkeypatch):
    web.files["/file"] = BODY
    web.cuts = [70_000]
    monkeypatch.setattr(fetching, "ATTEMPTS", 1)
    with pytest.raises(DownloadError):
        fetch(f"{web.url}/file", tmp_path / "file")
    web.files["/file"], web.etag = BODY[::-1], '"two"'
    assert fetch(f"{web.url}/file", tmp_path / "file").read_bytes() == BODY[::-1]


def test_a_part_that_was_complete_needs_no_more_bytes(web, tmp_path):
    web.files["/file"] = BODY
    (tmp_path / "file.part").write_bytes(BODY)
    (tmp_path / "file.part.validator").write_text(web.etag)
    assert fetch(f"{web.url}/file", tmp_path / "file").read_bytes() == BODY
    (tmp_path / "longer.part").write_bytes(BODY + b"x")
    (tmp_path / "longer.part.validator").write_text(web.etag)
    assert fetch(f"{web.url}/file", tmp_path / "longer").read_bytes() == BODY


def test_a_wrong_checksum_is_refused_and_nothing_kept(web, tmp_path):
    web.files["/file"] = BODY
    with pytest.raises(DownloadError, match="instead of 00"):
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
    web.codes = [503] * fetching.ATTEMPTS
    with pytest.raises(DownloadError, match="503"):
        fetch(f"{web.url}/file", tmp_path / "other")


def test_no_connection_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(fetching.time, "sleep", lambda seconds: waits.append(seconds))
    waits = []
    with pytest.raises(DownloadError, match="out of reach"):
        fetch("http://127.0.0.1:9/file", tmp_path / "file")
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
