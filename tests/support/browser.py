"""A real Chromium without a window, told what to do by its own protocol (DevTools), over two pipes."""

import base64
import json
import os
import queue
import resource
import shutil
import subprocess
import threading

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 120


def program():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One Chromium. `page()` opens a tab."""

    def __init__(self, profile):
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def put_pipes_in_place():
            most = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (most, most))  # a command that was called in this process has limited it
            high = [os.dup2(fd, 100 + at) for at, fd in enumerate((to_read, to_write))]
            os.dup2(high[0], 3), os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={profile}", "--no-first-run", "--disable-background-networking", "--disable-component-update", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=put_pipes_in_place,
            env={"PATH": os.environ["PATH"], "HOME": str(profile), "TMPDIR": str(profile)},
        )  # fmt: skip
        os.close(to_read), os.close(to_write)
        self._said, self._number, self.events = queue.Queue(), 0, []
        threading.Thread(target=self._listen, daemon=True).start()
        self.send("Target.setDiscoverTargets", discover=True)

    def _listen(self):
        rest = b""
        while data := os.read(self._read, 1 << 20):
            *whole, rest = (rest + data).split(b"\0")
            for message in whole:
                self._said.put(json.loads(message))
        self._said.put(None)

    def _next(self):
        message = self._said.get(timeout=PATIENCE)
        assert message is not None, "the browser is gone"
        if "id" not in message:
            self.events.append(message)
        return message

    def send(self, method, session=None, **parameters):
        """Send a command, and return its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            pass
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def until(self, seen):
        """Wait for an event."""
        at = 0
        while True:
            for event in self.events[at:]:
                at += 1
                if seen(event):
                    return event
            self._next()

    def page(self, **how):
        return Page(self, **how)

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self._write)


class Page:
    """A tab. `requests`: the URLs that it asked for. `complaints`: what it logged, threw, opened or showed."""

    def __init__(self, browser, width=1280, height=900, scheme="light", has_scripts=True):
        self._browser = browser
        self.target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.send("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.send("Emulation.setScriptExecutionDisabled", value=not has_scripts)
        self.send("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])

    def send(self, method, **parameters):
        return self._browser.send(method, None if method.startswith("Browser.") else self._session, **parameters)

    def open(self, url):
        """Go to a URL, and wait until it is loaded."""
        self.send("Page.navigate", url=url)
        self._browser.until(lambda event: event["method"] == "Page.loadEventFired" and event.get("sessionId") == self._session)

    def run(self, expression):
        """The value of an expression of JavaScript in the page; a promise is awaited."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, expression):
        """Wait until an expression is true in the page."""
        self.run(f"new Promise((done) => {{ const look = () => ({expression}) ? done() : setTimeout(look, 10); look() }})")

    def press(self, *keys):
        for key in keys:
            text = key if len(key) == 1 else ""
            self.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
            self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def click(self, selector):
        place = self.run(f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] }})()")
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def picture(self, path, *, whole=False):
        found = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(found["data"]))

    def pdf(self):
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"])

    def _events(self, *methods):
        return [event["params"] for event in self._browser.events if event["method"] in methods and event.get("sessionId") == self._session]

    @property
    def requests(self):
        return [event["request"]["url"] for event in self._events("Network.requestWillBeSent", "Network.webSocketCreated") if "request" in event]

    @property
    def complaints(self):
        return self._events(
            "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Page.javascriptDialogOpening", "Page.windowOpen",
            "Page.frameAttached", "Page.downloadWillBegin",
        )  # fmt: skip
