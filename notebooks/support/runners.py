"""Lesson 08's invented texts: runners as they came in, and questions about who came in next."""

import itertools
import random

import torch

from notebooks.data_preparation import PAD, pad_rows

NAMES = "Ann Ben Eva Leo Max Mia Tom Zoe".split()
WORDS = ["<pad>", "?", *NAMES]  # a word's id is its index here


def write_text(draw):
    """Three to six runners, a question mark, two of their names; and who came in behind these."""
    names = draw.sample(NAMES, draw.randint(3, 6))
    asked = draw.sample(range(len(names) - 1), 2)
    return [*names, "?", *(names[n] for n in asked)], [names[n + 1] for n in asked]


def make_texts(count, seed):
    """Ids of that many texts (count, S), padded, and of their answers (count, 2)."""
    draw = random.Random(seed)
    rows = zip(*(write_text(draw) for _ in range(count)))  # all texts, then all answers
    return [pad_rows([[WORDS.index(word) for word in row] for row in part]) for part in rows]


def best_guess():
    """The most answers that can be right without any order but who was first: a share of all.

    Such a guess knows the names, and which two are asked about; the others are alike to it.
    """
    total = 0
    for count in range(3, 7):
        pairs = list(itertools.permutations(range(count - 1), 2))
        weights = {}  # of the other one asked about, and of each that is not
        for asked, other in pairs:
            rest = count - len({0, asked, other})
            each = weights.setdefault((asked == 0, other == 0), [0, 0])
            if asked + 1 == other:
                each[0] += 1 / len(pairs)
            else:
                each[1] += 1 / len(pairs) / rest
        total += sum(map(max, weights.values()))
    return total / 4


def spell(ids):
    """The words of some ids, without padding."""
    return " ".join(WORDS[number] for number in ids if number != PAD)


def is_question(ids):
    """True at the names behind the question mark. Shapes: ids (B, S) to the same."""
    mark = ids == WORDS.index("?")
    return mark.cumsum(dim=1).bool() & ~mark & (ids != PAD)


@torch.no_grad()
def share_right(reader, texts, answers, masked=True):
    """The share of questions at which a reader scores the answer highest."""
    return share_of_scores(reader(texts, masked), texts, answers)


def share_of_scores(scores, texts, answers):
    """The share of questions at which the answer has the highest score, of (B, S, words)."""
    predicted = scores[is_question(texts)].argmax(dim=-1)
    return (predicted == answers.flatten()).float().mean().item()


@torch.no_grad()
def attention_map(reader, ids, layer):
    """The attention weights (B, S, S) of a reader's layer (from 0), which has one head."""
    attention = reader.encoder.layers[layer].self_attention
    attention.keep_weights = True
    reader(ids)
    attention.keep_weights = False
    return attention.weights[:, 0]


def shares_of_runners(reader, texts):
    """What a runner gives in layer 1 to the one before, and to each other one, in the mean."""
    before, others = [], []
    for text, weights in zip(texts.tolist(), attention_map(reader, texts, 0)):
        mark = text.index(WORDS.index("?"))
        for runner in range(1, mark):
            before.append(weights[runner, runner - 1].item())
            rest = weights[runner, :mark].sum() - weights[runner, runner - 1 : runner + 1].sum()
            others.append(rest.item() / (mark - 2))
    return sum(before) / len(before), sum(others) / len(others)
