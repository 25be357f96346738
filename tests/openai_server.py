"""An OpenAI-compatible server for tests: a real HTTP server that answers chat completions from a function.

`reply(request)` gets the decoded request and returns a text or a `Reply`, with which every fault can be played: a status,
a body that is not what the protocol says, a pause, an answer that was cut off.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """What the server sends. `body` replaces the whole answer; `finish` "length" says that the text was cut off."""

    text: str = ""
    status: int = 200
    finish: str = "stop"
    pause_s: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None


class OpenAIServer:
    """Use as a context manager. `requests` are the decoded requests in order of arrival; `most_at_once` the most that were open together."""

    def __init__(self, reply: Callable[[dict[str, Any]], str | Reply]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.most_at_once = self._open = 0
        lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    outer.requests.append(request)
                    outer.keys.append(self.headers.get("Authorization", ""))
                    outer._open += 1
                    outer.most_at_once = max(outer.most_at_once, outer._open)
                    answer = reply(request)
                answer = Reply(answer) if isinstance(answer, str) else answer
                time.sleep(answer.pause_s)
                with lock:
                    outer._open -= 1
                with suppress(BrokenPipeError, ConnectionResetError):  # the client did not wait
                    self._send(answer, request)

            def _send(self, answer: Reply, request: dict[str, Any]) -> None:
                body = answer.body if answer.body is not None else completion_body(answer, request)
                self.send_response(answer.status)
                self.send_header("Content-Type", "application/json")
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def __enter__(self) -> OpenAIServer:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def completion_body(answer: Reply, request: dict[str, Any]) -> str:
    if answer.status >= 400:
        return json.dumps({"error": {"message": answer.text or "no", "type": "test", "code": answer.status}})
    words = sum(len(message["content"].split()) for message in request["messages"])
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, "finish_reason": answer.finish, "message": {"role": "assistant", "content": answer.text}}],
            "usage": {"prompt_tokens": words, "completion_tokens": len(answer.text.split()), "total_tokens": 0},
        }
    )
