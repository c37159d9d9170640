"""ONNX Runtime as the engine of run.py."""

import numpy as np
import onnxruntime

BOS, EOS = 2, 3
PATIENCE = 5  # tokens that a live hypothesis is given to catch up


class Engine:
    """Graphs of encoder and decoder, and a beam that stops when nothing better can come soon."""

    def __init__(self, folder, source, target):
        parts = (str(folder / f"{part}.onnx") for part in ("encoder", "decoder"))
        providers = ["CPUExecutionProvider"]
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(part, providers=providers) for part in parts
        )

    def search(self, rows, limits, beam_size, alpha):
        """The ids of a translation for each row of ids, without EOS; a beam of 1 is greedy."""
        size, longest = beam_size, max(map(len, rows))
        src = np.array([[*row, EOS] + [0] * (longest - len(row)) for row in rows])
        memory = self.encoder.run(["memory"], {"src": src})[0]
        numbers, limits = np.arange(len(rows)), np.array(limits)
        ids, totals = np.full((len(rows), size, 1), BOS), np.full((len(rows), size), -np.inf)
        totals[:, 0] = 0  # all are equal yet, so only the first of each sentence may live
        best = [(-np.inf, [])] * len(rows)
        while len(numbers):
            length = ids.shape[2]  # of the grown ones, BOS not counted
            shares = self.next_shares(ids, memory, src)
            shares[limits <= length, :, EOS + 1 :] = -np.inf  # at its limit it may only end
            flat = (totals[:, :, None] + shares).reshape(len(ids), -1)
            order = all_reduce_max(flat, 2 * size if size > 1 else 1)
            parents, tokens = np.divmod(order, shares.shape[2])
            every = np.arange(len(ids))[:, None]
            grown, found = np.dstack([ids[every, parents], tokens]), flat[every, order]
            for row, place in np.argwhere((tokens == EOS) & (found > -np.inf)):
                score = found[row, place] / ((5 + length) / 6) ** alpha
                kept = score, grown[row, place, 1:-1].tolist()
                best[numbers[row]] = max(best[numbers[row]], kept)
            found[tokens == EOS] = -np.inf
            live = all_reduce_max(found, size)
            ids, totals = grown[every, live], found[every, live]
            soon = ((5 + np.minimum(limits, length + PATIENCE)) / 6) ** alpha
            going = totals[:, 0] / soon > [best[number][0] for number in numbers]
            parts = ids, totals, memory, src, numbers, limits
            ids, totals, memory, src, numbers, limits = (part[going] for part in parts)
        return [ids for _, ids in best]

    def next_shares(self, ids, memory, src):
        """Log-probabilities (B, K, vocabulary) of what may follow ids (B, K, T)."""
        size = ids.shape[1]
        given = {"memory": memory.repeat(size, axis=0), "src": src.repeat(size, axis=0)}
        given["tgt"] = ids.reshape(len(ids) * size, -1)
        logits = self.decoder.run(["logits"], given)[0].reshape(*ids.shape[:2], -1)
        logits[..., :EOS] = -np.inf  # PAD, UNK and BOS are never written
        logits -= logits.max(axis=-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def all_reduce_max(values, count):
    """The places of the highest values of each row, (B, count), highest first."""
    places = np.argpartition(-values, min(count, values.shape[1] - 1), axis=1)[:, :count]
    order = np.argsort(-np.take_along_axis(values, places, axis=1), axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1)
