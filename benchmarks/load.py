"""How fast a service answers: `python benchmarks/load.py --url http://127.0.0.1:5000`, a minute.

For 1, 8 and 32 clients, each asking for one sentence of the test set at a time for so many seconds:
sentences a second, and the time that half of the answers and 99 of 100 took at most.
"""

import argparse
import http.client
import itertools
import json
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import urlsplit

from utils import ROOT


def ask(address, until, texts):
    """The times of a client, one sentence after the other. A refusal ends it with an error."""
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    headers = {"content-type": "application/json"}
    sentences = itertools.cycle(texts)
    times = []
    while time.perf_counter() < until:
        body = json.dumps({"q": next(sentences), "source": "en", "target": "zh", "format": "text"})
        start = time.perf_counter()
        connection.request("POST", "/translate", body, headers)
        answer = connection.getresponse()
        reply = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {reply}")
        times.append(time.perf_counter() - start)
    return times


def load(url, clients, seconds, texts):
    """The times of all answers that so many clients got, sorted."""
    client = partial(ask, urlsplit(url), time.perf_counter() + seconds)
    with ThreadPoolExecutor(clients) as pool:
        times = pool.map(client, [texts[number::clients] for number in range(clients)])
        return sorted(itertools.chain(*times))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:5000")
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    lines = (ROOT / "data_small" / "test.tsv").read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t")[0] for line in lines]
    load(options.url, 1, 1, texts)  # the first batches of a shape take longer
    first = None
    for clients in (1, 8, 32):
        times = load(options.url, clients, options.seconds, texts)
        rate = len(times) / options.seconds
        first = first or rate
        half, most = (1000 * times[int(share * (len(times) - 1))] for share in (0.5, 0.99))
        rated = f"{rate:7.1f} sentences/s ({rate / first:.1f} x)"
        print(f"{clients:3} clients {rated}  50 %: {half:.0f} ms  99 %: {most:.0f} ms", flush=True)


if __name__ == "__main__":
    main()
