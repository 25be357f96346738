"""A small shop on loopback for tests that browse: search, product, basket; and one misbehaviour a path."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

MUGS = ("Red mug", "Blue mug", "Green mug", "Tall mug", "Small mug")
CATEGORIES = tuple(f"Category {letter}{digit}" for letter in "ABCDEFGH" for digit in range(10))


def page(title: str, main: str) -> str:
    """A page with the weight of a real one: header, categories, footer."""
    categories = "".join(f"<li><a href='/category?name={name}'>{name}</a></li>" for name in CATEGORIES)
    links = "".join(f"<li><a href='/info/{i}'>Information page {i}</a></li>" for i in range(30))
    return f"""<!doctype html><html lang=en><head><title>{title}</title><style>nav ul{{columns:4}}</style></head><body>
<header><a href='/'>Mug shop</a><form action='/search' role=search><input name=q aria-label='Search products'><button>Search</button></form>
<a href='/basket'>Basket</a></header><nav aria-label='Categories'><h2>Categories</h2><ul>{categories}</ul></nav>
<main>{main}</main><footer><h2>Service</h2><ul>{links}</ul><p>Copyright of the mug shop</p></footer></body></html>"""


class Shop(BaseHTTPRequestHandler):
    baskets: list[str]
    release: threading.Event

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        form = parse_qs(self.rfile.read(size).decode())
        if self.path == "/add":
            self.baskets.append(f"{form['item'][0]} in {form.get('size', ['standard'])[0]}")
            self._send(303, "", {"Location": "/basket"})

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        if parts.path == "/search":
            found = [name for name in MUGS if query.get("q", [""])[0].split(" ")[0].lower() in name.lower()]
            items = "".join(
                f"<li><h3><a href='/product?name={name}'>{name}</a></h3><p>A fine {name.lower()}, {7 + i} euro</p></li>"
                for i, name in enumerate(found)
            )
            self._send(200, page("Results", f"<h1>{len(found)} results</h1><ol>{items}</ol>"))
        elif parts.path == "/product":
            name = query["name"][0]
            form = f"<form method=post action='/add'><input type=hidden name=item value='{name}'><label>Size <select name=size><option>standard<option>large</select></label><button>Add to basket</button></form>"
            self._send(
                200, page(name, f"<h1>{name}</h1><p>Made of clay.</p>{form}<section><h2>Reviews</h2>{'<p>Good mug.</p>' * 20}</section>")
            )
        elif parts.path == "/basket":
            rows = "".join(f"<tr><td>{item}</td><td><button>Remove {item}</button></td></tr>" for item in self.baskets)
            self._send(
                200,
                page(
                    "Basket", f"<h1>Your basket</h1><table>{rows}</table><p>{len(self.baskets)} items</p><a href='/checkout'>Checkout</a>"
                ),
            )
        elif parts.path == "/to-basket":
            self._send(302, "", {"Location": "/basket"})
        elif parts.path == "/tools":
            self._send(200, page("Tools", TOOLS))
        elif parts.path == "/broken":
            self._send(500, page("Broken", "<h1>Something broke</h1><a href='/'>Start again</a>"))
        elif parts.path == "/file":
            self._send(200, "a;b", {"Content-Type": "text/csv", "Content-Disposition": "attachment; filename=prices.csv"})
        elif parts.path == "/hang":
            self._send(200, "<h1>Hangs soon</h1><script>setTimeout(() => { while (true); }, 300)</script>")
        elif parts.path == "/silent":
            self.release.wait(60)
        elif parts.path == "/endless":
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page("Endless", "<h1>The beginning</h1><button>Early button</button>").split("</main>")[0].encode())
            self.release.wait(60)
        elif parts.path == "/dialogs":
            self._send(200, page("Dialogs", DIALOGS))
        elif parts.path == "/greeting":
            self._send(200, page("Greeting", "<h1>Greeted</h1><script>alert('Welcome')</script>"))
        elif parts.path == "/slow-data":
            self.release.wait(0.8)
            self._send(200, "Arrived late", {"Content-Type": "text/plain"})
        elif parts.path == "/slow":
            self.release.wait(0.8)
            self._send(200, page("Slow", "<h1>Slow page</h1>"))
        elif parts.path == "/":
            self._send(200, page("Mug shop", "<h1>Welcome</h1><p>Mugs of all kinds.</p><a href='/tools'>Tools</a>"))
        else:
            self._send(404, page("Gone", "<h1>No such page</h1>"))

    def _send(self, status: int, body: str, headers: dict[str, str] | None = None) -> None:
        data = body.encode()
        self.send_response(status)
        for name, value in {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


TOOLS = """<h1>Tools</h1>
<button onclick="out.textContent = confirm('Delete all?') ? 'Deleted' : 'Kept'">Delete all</button>
<button onclick="fetch('/slow-data').then(r => r.text()).then(t => out.textContent = t)">Fetch</button>
<button onclick="list.innerHTML = list.innerHTML.replace('Old name', 'New name')">Rename</button>
<button onclick="this.remove()">Remove me</button>
<button onclick="window.open('/basket')">New tab</button>
<button disabled>Not now</button>
<a href='/file'>Prices</a> <a href='/broken'>Broken</a> <a href='/slow'>Slow</a>
<label><input type=checkbox> Gift wrap</label>
<p id=out>Nothing yet</p><ul id=list><li><button>Old name</button></li></ul>
<div id=root></div><script>const inside = root.attachShadow({mode: 'closed'});
inside.innerHTML = '<button>In closed root</button>'; inside.firstChild.onclick = () => out.textContent = 'Closed root clicked';</script>
<iframe srcdoc="<button onclick='this.textContent = `Clicked in frame`'>In frame</button>"></iframe>"""

DIALOGS = """<h1>Dialogs</h1>
<button onclick="alert('Saved'); out.textContent = 'Alert over'">Alert</button>
<button onclick="out.textContent = confirm('Sure?') ? 'Confirmed' : 'Refused'">Confirm</button>
<button onclick="out.textContent = 'Answer ' + prompt('Your name?', 'nobody')">Prompt</button>
<button onclick="onbeforeunload = event => event.preventDefault(); out.textContent = 'Guarded'">Guard</button>
<button onclick="while (true);">Loop</button>
<button onclick="window.open('/basket')">Window</button> <a href='/basket' target=_blank>Blank</a> <button onclick="window.close()">Close me</button>
<a href='/file'>Prices</a> <a href='/broken'>Broken</a> <a href='http://127.0.0.1:1099/'>Refused</a> <a href='/silent'>Silent</a>
<p id=out>Nothing yet</p>"""


@contextmanager
def shop() -> Iterator[str]:
    """The address of a fresh shop with an empty basket."""
    handler = type("FreshShop", (Shop,), {"baskets": [], "release": threading.Event()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        handler.release.set()  # type: ignore[attr-defined]
        server.shutdown()
        server.server_close()
