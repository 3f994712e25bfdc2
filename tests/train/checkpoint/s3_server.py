"""A server of S3 on loopback, moto's, which breaks where a test says so."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

Answer = Callable[[str, str], str | None]
"""What it answers to a method and a path, such as "500 Broken"; None: what S3 does."""

_ERROR = "<Error><Code>{code}</Code><Message>{code}</Message></Error>"


class _Quiet(WSGIRequestHandler):
    def log_request(self, code: Any = "-", size: Any = "-") -> None: ...


class S3Server:
    """A server with the bucket `bucket`; `answers` breaks it, `stop` ends it and `start` goes on at the same port."""

    def __init__(self) -> None:
        self._app: Any = DomainDispatcherApplication(create_backend_app)
        self._server: BaseWSGIServer | None = None
        self._port = 0
        self.answers: Answer = lambda method, path: None
        self.start()
        boto3.client("s3", endpoint_url=self.url).create_bucket(Bucket="bucket")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        self._server = make_server("127.0.0.1", self._port, self._call, threaded=True, request_handler=_Quiet)
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _call(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        status = self.answers(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        if status is None:
            return self._app(environ, start_response)
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response(status, [("Content-Type", "application/xml")])
        return [_ERROR.format(code=status.partition(" ")[2]).encode()]


@contextmanager
def s3_server() -> Iterator[S3Server]:
    server = S3Server()
    try:
        yield server
    finally:
        server.stop()
