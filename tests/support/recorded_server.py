"""A server on loopback that gives one recorded answer to everything."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

XML = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{}</Code><Message>{}</Message><RequestId>4442587FB7D0A2F9</RequestId></Error>'


class Recorded:
    """A server that gives one answer to everything, as S3 gave it: status and XML."""

    def __init__(self, status, code, message="", headers=()):
        """`code` may be a whole answer. `asked` has the method and the path of each request."""
        asked = self.asked = []
        body = code.encode() if not code or code.startswith("<") else XML.format(code, message).encode()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                asked.append((self.command, self.path))
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(status)
                self.send_header("content-type", "application/xml")
                for header in headers:
                    self.send_header(*header)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
