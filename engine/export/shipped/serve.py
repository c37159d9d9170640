"""Translates over HTTP, as LibreTranslate's clients ask for it: `python serve.py --port 5000`.

POST /translate with q (a text, or a list of them), source, target and format, as JSON or as a form,
gives {"translatedText": ...}; GET /languages gives what is translated into what. What is wrong is
told as {"error": ...}. It needs the libraries starlette and uvicorn.

Requests that come together are translated together: `Together` takes what waits, as a batch.
"""

import argparse
import asyncio
import json
import re
import socket
import sys
from contextlib import asynccontextmanager
from urllib.parse import parse_qs

MOST_BYTES = 1_000_000  # of a request
MOST_TEXTS = 200  # lines of a request
MOST_SIGNS = 10_000  # of a line: to count the tokens of more would hold all others up
MOST_WAITING = 1000  # lines of all requests; who comes then is told to come again
SECONDS = 30  # that a client may take to send its request
HEAD_SECONDS = 10  # that it may take for the head of it, its first lines
MOST_CONNECTIONS = 1000
MOST_OF_ONE = 300  # connections of one address: a class behind one router fits in
BATCH = 64  # lines that are translated together


class Refused(Exception):
    """A request that is not answered: the HTTP status and one sentence."""


class Together:
    """Translates what all requests ask for in batches, one batch at a time, in a thread."""

    def __init__(self, translate):
        self.translate = translate
        self.waiting = asyncio.Queue(MOST_WAITING)

    @asynccontextmanager
    async def lifespan(self, app):
        """The worker begins before the first request and ends after the last."""
        worker = asyncio.create_task(self.work())
        yield
        worker.cancel()

    async def ask(self, texts):
        """The translations. Raises Refused when too many texts wait already."""
        if self.waiting.qsize() + len(texts) > MOST_WAITING:
            raise Refused(503, "too many texts wait: come again in a moment")
        loop = asyncio.get_running_loop()
        asked = [(text, loop.create_future()) for text in texts]
        for one in asked:
            self.waiting.put_nowait(one)
        return await asyncio.gather(*(future for _, future in asked))

    async def work(self):
        """Goes on for ever: waits for a text, takes all others that wait, translates them."""
        while True:
            batch = [await self.waiting.get()]
            while len(batch) < BATCH and not self.waiting.empty():
                batch.append(self.waiting.get_nowait())
            batch = [one for one in batch if not one[1].done()]  # else its client has gone
            if not batch:
                continue
            texts, futures = zip(*batch)
            try:
                results = await asyncio.to_thread(self.translate, list(texts))
            except Exception as error:  # the next batch may go well
                print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
                results = [Refused(500, "the translation failed")] * len(texts)
            for future, result in zip(futures, results):
                if future.cancelled():  # its client has gone
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)


async def unless_gone(request, answer):
    """What a coroutine returns. Raises ClientDisconnect, and cancels it, when the client leaves.

    The request has been read to its end.
    """
    from starlette.requests import ClientDisconnect

    answering = asyncio.ensure_future(answer)
    leaving = asyncio.ensure_future(request.receive())  # what comes now is that it leaves
    try:
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise ClientDisconnect
        return answering.result()
    finally:
        answering.cancel()
        leaving.cancel()


async def read_fields(request):
    """What a request asks for, of JSON or of a form: a dictionary. Raises Refused."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise Refused(413, f"the request is longer than {MOST_BYTES:,} bytes")
    try:
        kind = request.headers.get("content-type", "").lower()
        if "json" in kind or body.lstrip()[:1] == b"{":  # curl -d sends JSON as a form
            fields = json.loads(body)
        else:
            values = parse_qs(body.decode(), keep_blank_values=True, errors="strict")
            fields = {
                name: texts[0] if len(texts) == 1 else texts for name, texts in values.items()
            }
    except (ValueError, RecursionError):
        raise Refused(400, "the request is neither JSON nor a form in UTF-8") from None
    if not isinstance(fields, dict):
        raise Refused(400, "the request is no JSON object with q, source and target")
    return fields


def lines_of(fields, languages, length, longest):
    """The texts of a request, each a list of lines. Raises Refused for what cannot be answered."""
    texts = fields.get("q")
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        wrong = "must be a text or a list of texts" if "q" in fields else "is missing: give one"
        raise Refused(400, f"q {wrong}, as JSON or as a form (no multipart)")
    source, target = languages
    for name, allowed in (("source", (source, "auto")), ("target", (target,))):
        if fields.get(name, allowed[0]) not in allowed:
            message = f"{name} must be {allowed[0]}: this model translates {source} into {target}"
            raise Refused(400, message)
    if fields.get("format", "text") != "text":
        raise Refused(400, "format must be text")
    lines = [re.split("\r\n?|\n", text.removeprefix("\ufeff")) for text in texts]
    if sum(map(len, lines)) > MOST_TEXTS:
        raise Refused(400, f"q has more than {MOST_TEXTS} lines: ask in several requests")
    for number, text in enumerate(texts, start=1):
        try:
            text.encode()
        except UnicodeError:
            raise Refused(400, f"text {number} holds half a character") from None
        if "\0" in text:
            raise Refused(400, f"text {number} holds the character NUL, as no text does")
    for number, text in enumerate(lines, start=1):
        signs = max(map(len, text))
        if signs > MOST_SIGNS:
            message = f"text {number} has a line of {signs:,} characters: at most {MOST_SIGNS:,}"
            raise Refused(400, message)
        for tokens in map(length, text):  # no further line is counted after one that is too long
            if tokens > longest:
                wrong = f"text {number} has a line of {tokens} tokens"
                raise Refused(400, f"{wrong}: at most {longest}, so split it")
    return lines


def make_app(model):
    """The application: `model` has translate(texts), length(text) and settings as in run.py."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    names = model.settings["languages"]
    longest = model.settings["max_length"]
    source, target = names
    together = Together(model.translate)

    async def translate(request):
        """POST /translate."""
        fields = await asyncio.wait_for(read_fields(request), SECONDS)
        lines = lines_of(fields, (source, target), model.length, longest)
        asked = together.ask([line for text in lines for line in text])
        done = iter(await unless_gone(request, asked))
        texts = ["\n".join(next(done) for _ in text) for text in lines]
        return JSONResponse(
            {"translatedText": texts if isinstance(fields["q"], list) else texts[0]}
        )

    async def languages(request):
        """GET /languages."""
        targets = {source: [target], target: []}
        return JSONResponse(
            [{"code": code, "name": names[code], "targets": targets[code]} for code in names]
        )

    async def refuse(request, error):
        """What is wrong, in LibreTranslate's form."""
        if isinstance(error, HTTPException):  # no such address, or no POST
            status = error.status_code
            message = error.detail
        else:
            status, message = (
                error.args if isinstance(error, Refused) else (408, "too slow a request")
            )
        return JSONResponse({"error": message}, status)

    routes = [
        Route("/translate", translate, methods=["POST"]),
        Route("/languages", languages),
    ]
    handlers = dict.fromkeys((Refused, TimeoutError, ClientDisconnect, HTTPException), refuse)
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=together.lifespan)


def impatient_protocol(most_of_one):
    """uvicorn's HTTP, which waits for the head of a request for ever; this one closes."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        def connection_made(self, transport):
            super().connection_made(transport)
            self.deadline = self.loop.call_later(HEAD_SECONDS, transport.close)
            clients = [one.client for one in self.connections if one.client and self.client]
            alike = sum(client[0] == self.client[0] for client in clients)
            if alike > most_of_one or len(self.connections) > self.limit_concurrency:
                transport.abort()

        def data_received(self, data):
            super().data_received(data)
            if self.cycle and not self.cycle.response_complete:  # a whole head has come
                self.deadline.cancel()
            elif self.deadline.cancelled():  # a further request, of which a part has come
                self.deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

        def connection_lost(self, exc):
            self.deadline.cancel()
            super().connection_lost(exc)

    return Impatient


def raise_limit():
    """Lets this process have as many open connections as it takes; returns how many it takes."""
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = MOST_CONNECTIONS + 100  # files of its own
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        if soft < limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    except (ImportError, ValueError, OSError):  # Windows has no such limit
        return MOST_CONNECTIONS
    if soft < 120:
        raise OSError(f"at most {soft} files may be open at a time. Allow more: ulimit -n 1100")
    return min(MOST_CONNECTIONS, soft - 100)


def serve(model, host, port):
    """Answers until SIGTERM or Ctrl-C, and then finishes what was begun. OSError: port in use."""
    import uvicorn

    if not 0 <= port <= 65535:
        raise ValueError(f"port {port}: give a number from 0 to 65535")
    if not host:  # which would be every address
        raise ValueError("host is empty: is a variable not set?")
    most = raise_limit()
    config = uvicorn.Config(
        make_app(model),
        http=impatient_protocol(min(MOST_OF_ONE, most // 3)),
        log_level="warning",
        timeout_graceful_shutdown=SECONDS,
        limit_concurrency=most,
    )
    server = uvicorn.Server(config)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        hint = "Give another --host or --port"
        raise OSError(f"{host}, port {port}: {error.strerror}. {hint}") from None
    with listening:
        # else the second part of an answer waits 40 ms for word that the first has come
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name, number = listening.getsockname()[:2]
        address = f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"
        print(f"translating at {address}/translate; Ctrl-C ends", file=sys.stderr, flush=True)
        server.run(sockets=[listening])


def main():
    """The command line of an exported folder. Returns the exit status."""
    parser = argparse.ArgumentParser(description="Translate over HTTP, as LibreTranslate does.")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0: every machine may ask")
    parser.add_argument("--port", type=int, default=5000)
    options = parser.parse_args()
    try:
        from run import Model

        serve(Model(), options.host, options.port)
    except ModuleNotFoundError as error:
        print(f"error: {error}. Try: pip install {error.name}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except Exception as error:
        print(f"error: {type(error).__name__}: {error}".replace("\n", " "), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
