"""ONNX Runtime as the engine of run.py."""

import numpy as np
import onnxruntime

BOS = 2
EOS = 3
LOOKAHEAD = 5  # tokens that a live hypothesis is given to catch up


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
        size = beam_size
        longest = max(map(len, rows))
        src = np.array([[*row, EOS] + [0] * (longest - len(row)) for row in rows])
        memory = self.encoder.run(["memory"], {"src": src})[0]
        numbers = np.arange(len(rows))
        limits = np.array(limits)
        ids = np.full((len(rows), size, 1), BOS)
        totals = np.full((len(rows), size), -np.inf)
        totals[:, 0] = 0  # all are equal yet, so only the first of each sentence may live
        best = [(-np.inf, [])] * len(rows)
        while len(numbers):
            length = ids.shape[2]  # of the grown ones, BOS not counted
            log_probs = self.next_log_probs(ids, memory, src)
            log_probs[limits <= length, :, EOS + 1 :] = -np.inf  # at its limit it may only end
            flat = (totals[:, :, None] + log_probs).reshape(len(ids), -1)
            order = top_indices(flat, 2 * size if size > 1 else 1)
            parents, tokens = np.divmod(order, log_probs.shape[2])
            every = np.arange(len(ids))[:, None]
            grown = np.dstack([ids[every, parents], tokens])
            scores = flat[every, order]
            for row, index in np.argwhere((tokens == EOS) & (scores > -np.inf)):
                score = scores[row, index] / ((5 + length) / 6) ** alpha
                hypothesis = score, grown[row, index, 1:-1].tolist()
                best[numbers[row]] = max(best[numbers[row]], hypothesis)
            scores[tokens == EOS] = -np.inf
            live = top_indices(scores, size)
            ids = grown[every, live]
            totals = scores[every, live]
            soon = ((5 + np.minimum(limits, length + LOOKAHEAD)) / 6) ** alpha
            going = totals[:, 0] / soon > [best[number][0] for number in numbers]
            parts = ids, totals, memory, src, numbers, limits
            ids, totals, memory, src, numbers, limits = (part[going] for part in parts)
        return [ids for _, ids in best]

    def next_log_probs(self, ids, memory, src):
        """Log-probabilities (B, K, vocabulary) of what may follow ids (B, K, T)."""
        size = ids.shape[1]
        given = {"memory": memory.repeat(size, axis=0), "src": src.repeat(size, axis=0)}
        given["tgt"] = ids.reshape(len(ids) * size, -1)
        logits = self.decoder.run(["logits"], given)[0].reshape(*ids.shape[:2], -1)
        logits[..., :EOS] = -np.inf  # PAD, UNK and BOS are never written
        logits -= logits.max(axis=-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def top_indices(values, count):
    """The indices of the highest values of each row, (B, count), highest first."""
    indices = np.argpartition(-values, min(count, values.shape[1] - 1), axis=1)[:, :count]
    order = np.argsort(-np.take_along_axis(values, indices, axis=1), axis=1, kind="stable")
    return np.take_along_axis(indices, order, axis=1)
