"""A server that accepts and does not answer, until a test lets it: then it is a proxy of another server.

    with HeldProxy(server.endpoint) as proxy:
        ...                      # clients of proxy.endpoint wait
        proxy.wait_for_client()
        proxy.open()             # they are answered, and later ones at once
"""

import ctypes
import socket
import threading
from urllib.parse import urlsplit

PATIENCE = 60


class HeldProxy:
    def __init__(self, endpoint, network=None, after=None):
        """`endpoint` is the URL of the other server. `network` is a descriptor of the network that the clients are in, None = this one.
        `after`: a new client waits so many seconds at most, None = until `open`."""
        target = urlsplit(endpoint)
        self._target = target.hostname, target.port
        self._listening = listening_in(network)
        self.endpoint = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._after, self._opened, self._came, self._sockets = after, threading.Event(), threading.Semaphore(0), []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in (self._listening, *self._sockets):
            with_shutdown(each)
        self._opened.set()

    def open(self):
        self._opened.set()

    def wait_for_client(self):
        """Until one more client has connected."""
        assert self._came.acquire(timeout=PATIENCE), "no client came"

    def _accept(self):
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self._sockets.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()
            self._came.release()

    def _serve(self, client):
        self._opened.wait(self._after)
        try:
            server = socket.create_connection(self._target)
        except OSError:
            with_shutdown(client)
            return
        self._sockets.append(server)
        threading.Thread(target=pump, args=(server, client), daemon=True).start()
        pump(client, server)


def listening_in(network):
    """A listening socket on the loopback of a network."""
    made = []

    def listen():
        assert network is None or ctypes.CDLL(None).setns(network, 0x40000000) == 0  # CLONE_NEWNET, for this thread alone
        made.append(socket.create_server(("127.0.0.1", 0)))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    return made[0]


def pump(source, target):
    """Copy until an end."""
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
    except OSError:
        pass
    with_shutdown(target)


def with_shutdown(each):
    """Close a socket that a thread may wait for."""
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    each.close()
