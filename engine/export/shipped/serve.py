"""Translates over HTTP, as LibreTranslate's clients ask for it: `python serve.py --port 5000`.

POST /translate with q (a text, or a list of them), source and target, as JSON or as a form, gives
{"translatedText": ...}; GET /languages gives what is translated into what. What is wrong is told as
{"error": ...}. It needs the libraries starlette, uvicorn and python-multipart. Requests that come
together are translated together.
"""

import argparse
import asyncio
import sys
from contextlib import asynccontextmanager

MOST_LINES = 200  # of a request
MOST_SIGNS = 10_000  # of a line: to count the tokens of more would hold all others up
MOST_WAITING = 1000  # lines of all requests; who comes then is told to come again
BATCH = 64  # lines that are translated together
SECONDS = 30  # for what was begun when the service is stopped


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

    async def ask(self, lines):
        """The translations. Raises Refused when too many lines wait already."""
        if self.waiting.qsize() + len(lines) > MOST_WAITING:
            raise Refused(503, "too many texts wait: come again in a moment")
        asked = [(line, asyncio.get_running_loop().create_future()) for line in lines]
        for one in asked:
            self.waiting.put_nowait(one)
        return await asyncio.gather(*(future for _, future in asked))

    async def work(self):
        """Goes on for ever: waits for a line, takes all others that wait, translates them."""
        while True:
            batch = [await self.waiting.get()]
            while len(batch) < BATCH and not self.waiting.empty():
                batch.append(self.waiting.get_nowait())
            lines, futures = zip(*batch)
            try:
                results = await asyncio.to_thread(self.translate, list(lines))
            except Exception as error:  # the next batch may go well
                print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
                results = [Refused(500, "the translation failed")] * len(lines)
            for future, result in zip(futures, results):
                if future.cancelled():
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)


async def read_fields(request):
    """What a request asks for, of JSON or of a form: a dictionary. Raises Refused."""
    kind = request.headers.get("content-type", "").lower()
    try:
        if "form" in kind and (await request.body()).lstrip()[:1] != b"{":  # curl -d sends JSON so
            form = await request.form()
            texts = form.getlist("q") or form.getlist("q[]")
            fields = dict(form)
            if texts:
                fields["q"] = texts[0] if len(texts) == 1 else texts
        else:
            fields = await request.json()
        "".join([fields["q"]] if isinstance(fields["q"], str) else fields["q"]).encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        message = "give q, a text or a list of texts, as JSON or as a form in UTF-8"
        raise Refused(400, message) from None
    return fields


def lines_of(fields, languages, length, longest):
    """The texts of a request, each a list of lines. Raises Refused for what cannot be answered."""
    source, target = languages
    for name, allowed in (("source", (source, "auto")), ("target", (target,))):
        code = str(fields.get(name) or allowed[0]).replace("_", "-").lower()
        code = code.partition("-")[0]  # of zh-Hans, en-US, zh_CN
        if code not in allowed:
            message = f"{name} must be {allowed[0]}: this model translates {source} into {target}"
            raise Refused(400, message)
    texts = [fields["q"]] if isinstance(fields["q"], str) else fields["q"]
    lines = [text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n") for text in texts]
    if sum(map(len, lines)) > MOST_LINES:
        raise Refused(400, f"q has more than {MOST_LINES} lines: ask in several requests")
    for line in (line for text in lines for line in text):
        if len(line) > MOST_SIGNS:
            raise Refused(400, f"a line has {len(line):,} characters: at most {MOST_SIGNS:,}")
        if (tokens := length(line)) > longest:
            raise Refused(400, f"a sentence has {tokens} tokens: at most {longest}, so split it")
    return lines


def make_app(model, origins=()):
    """The application: `model` is a `Model` of run.py, or what has its methods and settings."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.cors import CORSMiddleware
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    names = model.settings["languages"]
    source, target = names
    together = Together(model.translate_typed)

    async def translate(request):
        """POST /translate."""
        fields = await read_fields(request)
        lines = lines_of(fields, names, model.length, model.settings["max_length"])
        done = iter(await together.ask([line for text in lines for line in text]))
        texts = ["\n".join(next(done) for _ in text) for text in lines]
        whole = texts if isinstance(fields["q"], list) else texts[0]
        return JSONResponse({"translatedText": whole})

    async def languages(request):
        """GET /languages."""
        targets = {source: [target], target: []}
        rows = [{"code": code, "name": names[code], "targets": targets[code]} for code in names]
        return JSONResponse(rows)

    async def refuse(request, error):
        """What is wrong, in LibreTranslate's form."""
        refused = isinstance(error, Refused)
        status, message = error.args if refused else (error.status_code, error.detail)
        return JSONResponse({"error": message}, status)

    return Starlette(
        routes=[
            Route("/translate", translate, methods=["POST"]),
            Route("/languages", languages),
        ],
        middleware=[
            Middleware(
                CORSMiddleware,
                allow_origins=list(origins),
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
            ),
        ],
        exception_handlers={Refused: refuse, HTTPException: refuse},
        lifespan=together.lifespan,
    )


def serve(model, host="127.0.0.1", port=5000, origins=()):
    """Answers until SIGTERM or Ctrl-C, and then finishes what was begun."""
    import uvicorn

    app = make_app(model, origins)
    print(
        f"translating at http://{host}:{port}/translate; Ctrl-C ends", file=sys.stderr, flush=True
    )
    uvicorn.run(app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=SECONDS)


def main():
    """The command line of an exported folder. Returns the exit status."""
    parser = argparse.ArgumentParser(description="Translate over HTTP, as LibreTranslate does.")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0: every machine may ask")
    parser.add_argument("--port", type=int, default=5000)
    parser.add_argument("--origin", action="append", default=[], help="a web page that may ask; *")
    options = parser.parse_args()
    try:
        from run import Model

        serve(Model(), options.host, options.port, options.origin)
    except ModuleNotFoundError as error:
        print(f"error: {error}. Try: pip install {error.name}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
