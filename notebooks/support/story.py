"""The question of the course, how the model knows the verb: what is masked, moved and added up.

All of it works on a `Translator` whose norms stand before the sublayers, as in `small`. Masks block
attention between chosen words. `transplant` moves a vector from one sentence to another, which is
called activation patching (Vig et al. 2020; Meng et al. 2022). `logit_attribution` adds up what
every part gave to a token, direct logit attribution (Elhage et al. 2021).
"""

import itertools
import re

import torch

from engine.attention_maps import attention_maps, translation_attention
from notebooks.data_preparation import BOS, EOS, PAD, Batch, pad_rows, padding_mask
from notebooks.decoder import KVCache
from notebooks.support.proofs import hooked
from notebooks.translation import length_limits, next_logits

WHO = ("We", "They", "My brothers", "The children", "You", "Many people")
WHEN = ("every day", "on Sunday", "after dinner", "in the evening")
# what is played, the Chinese verb for it, and its noun
THINGS = {
    "football": ("踢", "足球"), "tennis": ("打", "网球"), "cards": ("打", "牌"),
    "chess": ("下", "棋"), "the piano": ("弹", "钢琴"), "the violin": ("拉", "小提琴"),
    "in the garden": ("玩", "花园"),
}  # fmt: skip
# between which words attention is masked, and what the lessons call it
MASKED = {
    "nothing masked": (),
    "encoder: only play attends to the object": [("others", "object")],
    "encoder: all but play attend to it": [("play", "object")],
    "encoder: none attends to it": [("others", "object"), ("play", "object")],
    "decoder: play masked": [("decoder", "play")],
    "decoder: object masked": [("decoder", "object")],
    "only through play": [("others", "object"), ("decoder", "object")],
    "only through the others": [("play", "object"), ("decoder", "object")],
    "all three masked": [("others", "object"), ("play", "object"), ("decoder", "object")],
}
# 打算 is to plan, 下午 the afternoon and 子弹 a bullet: the verb's character is no verb there.
# In 儿子弹 it is one: a son who plays
OTHER_WORDS = re.compile(
    "打算|打开|打扫|打扰|打电话|下午|下课|下班|下雨|下周|以下|一下|(?<![儿孩])子弹|炸弹"
)


def variants(thing):
    """Sentences in which this is played, one for each of WHO and of WHEN."""
    return [f"{who} play {thing} {when}." for who, when in itertools.product(WHO, WHEN)]


def count_right(thing, texts):
    """How many of these translations have the thing's verb, and how many its noun."""
    return [sum(part in OTHER_WORDS.sub("", text) for text in texts) for part in THINGS[thing]]


def encode_sentences(source, sentences):
    """The ids (B, S) that the encoder reads: source tokens and EOS."""
    return pad_rows([[*source.encode(sentence), EOS] for sentence in sentences])


def ids_of(translator, sentences):
    """The same, where the translator's model is."""
    device = next(translator.model.parameters()).device
    return encode_sentences(translator.source, sentences).to(device)


def word_ids(translator, thing):
    """The ids of `play` and of what is played, its last word."""
    ids = translator.source.vocabulary.ids
    return ids["play"], ids[thing.split()[-1]]


# masks


def blocked_masks(ids, play, played, masked=()):
    """Masks for the encoder (B, 1, S, S) and for cross-attention (B, 1, 1, S), of ids (B, S).

    `masked` are pairs (who, whom) between which attention is masked: who is "play", "others" or
    "decoder", whom "play" or "object". `play` and `played` are the ids of these two words.
    """
    src_mask = padding_mask(ids).expand(-1, -1, ids.shape[1], -1)
    cross_mask = padding_mask(ids)
    positions = {"play": ids == play, "object": ids == played}
    queries = {"play": positions["play"], "others": ~positions["play"] & ~positions["object"]}
    for who, whom in masked:
        keys = positions[whom][:, None, None, :]
        if who == "decoder":
            cross_mask = cross_mask & ~keys
        else:
            src_mask = src_mask & ~(queries[who][:, None, :, None] & keys)
    return src_mask, cross_mask


@torch.no_grad()
def translate_masked(translator, thing, masked=()):
    """Greedy translations of the variants of `thing`, attention masked as in `blocked_masks`."""
    ids = ids_of(translator, variants(thing))
    src_mask, cross_mask = blocked_masks(ids, *word_ids(translator, thing), masked)
    return greedy_from_memory(translator, translator.model.encode(ids, src_mask), cross_mask)


@torch.no_grad()
def greedy_from_memory(translator, memory, cross_mask):
    """Greedy translations of memories (B, S, D) under a mask (B, 1, 1, S): texts."""
    model = translator.model
    text = torch.full((len(memory), 1), BOS, device=memory.device)
    with KVCache(model.decoder) as cache:
        for _ in range(length_limits(cross_mask, translator.config.max_length).max()):
            logits = next_logits(model, text[:, -1:], memory, cross_mask, cache)
            text = torch.cat([text, logits.argmax(dim=-1, keepdim=True)], dim=1)
            if (text == EOS).any(dim=1).all():
                break
    return [translator.target.decode(row) for row in text[:, 1:].tolist()]


def zeroed(modules):
    """A context in which these modules return zeros, which is called zero ablation."""
    return hooked(dict(enumerate(modules)), lambda name, output: 0 * output)


# vectors


def encoder_stages(model):
    """Where a token's vector can be read in the encoder: the module that returns it, by name.

    "input", then "attention 1", "feed-forward 1" and so on, the sums behind the sublayers, and at
    last "memory", behind the last norm. Each module returns (B, S, D).
    """
    stages = {"input": model.positions}
    for number, layer in enumerate(model.encoder.layers, start=1):
        stages[f"attention {number}"] = layer.sublayers[0]
        stages[f"feed-forward {number}"] = layer.sublayers[1]
    return stages | {"memory": model.encoder}


@torch.no_grad()
def encoder_vectors(model, ids, src_mask):
    """The vectors of ids (B, S) at every stage of `encoder_stages`: (B, S, D) each, by its name."""
    vectors = {}
    with hooked(encoder_stages(model), vectors.__setitem__):
        model.encode(ids, src_mask)
    return vectors


@torch.no_grad()
def memory_vectors(translator, sentences, word=None):
    """The vectors (N, D) that the decoder reads of these sentences: all, or those of one word."""
    ids = translator.source.vocabulary.ids
    vectors = []
    for start in range(0, len(sentences), 128):
        src = ids_of(translator, sentences[start : start + 128])
        memory = translator.model.encode(src, padding_mask(src))
        vectors.append(memory[src != PAD if word is None else src == ids[word]])
    return torch.cat(vectors)


@torch.no_grad()
def transplant(translator, givers, takers, stage="memory"):
    """Greedy translations of the takers, sentences in which `play` has its giver's vector.

    Each of the sentences has `play` once. Its vector is taken from the giver behind a stage of
    `encoder_stages` and put in its place in the taker; what comes behind computes with it.
    """
    model = translator.model
    number = translator.source.vocabulary.ids["play"]
    given, taken = (ids_of(translator, sentences) for sentences in (givers, takers))
    vectors = encoder_vectors(model, given, padding_mask(given))[stage][given == number]

    def replace_vectors(name, output):
        output[taken == number] = vectors

    mask = padding_mask(taken)
    with hooked({stage: encoder_stages(model)[stage]}, replace_vectors):
        memory = model.encode(taken, mask)
    return greedy_from_memory(translator, memory, mask)


def token_id(translator, token):
    """The id of a target token. Raises ValueError where it is no token that the model knows."""
    ids = translator.target.vocabulary.ids
    if token not in ids:
        raise ValueError(f"{token!r} is not one token that the model knows")
    return ids[token]


def before_token(translator, sentence, token):
    """The batch in which the greedy translation writes `token` next: one sentence, one target.

    Raises ValueError where the translation does not hold the token.
    """
    number = token_id(translator, token)
    translation = translator.translate([sentence], beam_size=1)[0]
    if token not in translation:
        raise ValueError(f"{sentence!r} is translated {translation!r}, without {token!r}")
    written = translator.target.encode(translation)
    read = [BOS, *written[: written.index(number)]]
    src = ids_of(translator, [sentence])
    return Batch.collate([(src[0].tolist(), [*read, EOS])]).to(src.device)


def word_attention(translator, sentence, translation, token):
    """How the decoder's last layer attends to the source when it computes `token`: {word: weight}.

    The mean of the heads of its cross-attention. A word that occurs twice is one entry.
    """
    names = translator.model, translator.source, translator.target
    words, read, maps = translation_attention(*names, sentence, translation)
    row = maps["cross"][-1].mean(dim=0)[read.index(token) - 1]  # what is read one position before
    weights = dict.fromkeys(words, 0.0)
    for word, weight in zip(words, row.tolist()):
        weights[word] += weight
    return weights


@torch.no_grad()
def decoder_vectors(model, batch):
    """The vector at the last place of a batch's one target, as the sublayers add to it: (D,) each.

    "embedding", then "self-attention 1", "cross-attention 1", "feed-forward 1" and so on.
    """
    modules = {"embedding": model.positions}  # its last call is the decoder's
    parts = "self-attention", "cross-attention", "feed-forward"
    for number, layer in enumerate(model.decoder.layers, start=1):
        modules |= {f"{part} {number}": one for part, one in zip(parts, layer.sublayers)}
    vectors = {}
    with hooked(modules, vectors.__setitem__):
        model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    return {name: output[0, -1] for name, output in vectors.items()}


@torch.no_grad()
def logit_attribution(translator, sentence, one, other):
    """What every part of the decoder adds to the logit of `one` minus that of `other`: {part: it}.

    Compared where the greedy translation writes `one`. The parts are all that was added to the
    vector that the generator reads: the embedding, what each attention and each feed-forward
    gave, cross-attention for each source word by itself. The last norm divides by the
    deviation of the finished vector; with that number fixed it is linear, so the sum is exact.
    Raises ValueError where the translation does not hold `one`, or one is no token.
    """
    model = translator.model
    batch = before_token(translator, sentence, one)
    vectors = decoder_vectors(model, batch)
    norm = model.decoder.norm
    deviation = (list(vectors.values())[-1].var(correction=0) + norm.eps).sqrt()
    first, second = (token_id(translator, token) for token in (one, other))
    direction = model.generator.projection.weight[first] - model.generator.projection.weight[second]

    def worth(vector):
        return ((vector - vector.mean()) / deviation * norm.weight @ direction).item()

    parts = {"embedding": worth(vectors["embedding"])}
    for (_, before), (stage, after) in itertools.pairwise(vectors.items()):
        parts[stage] = worth(after - before)
    for number in range(1, len(model.decoder.layers) + 1):
        del parts[f"cross-attention {number}"]
        for word, vector in cross_attention_by_word(translator, batch, number).items():
            parts[f"cross-attention {number} from {word}"] = worth(vector)
        bias = model.decoder.layers[number - 1].cross_attention.output.bias
        parts[f"cross-attention {number}, bias"] = worth(bias)
    return parts | {"the last norm's bias": (norm.bias @ direction).item()}


def cross_attention_by_word(translator, batch, number):
    """What the cross-attention of layer `number` takes from each source word: {word: (D,)}.

    A word that stands there twice is one entry. The bias of the output is not in it.
    """
    model = translator.model
    maps = attention_maps(model, batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    cross = model.decoder.layers[number - 1].cross_attention
    memory = model.encode(batch.src, batch.src_mask)
    weights = maps["cross"][number - 1, 0, :, -1]  # (H, S)
    value = cross.split(cross.value(memory))[0]  # (H, S, d_k)
    output = cross.output.weight.unflatten(1, (cross.num_heads, -1))  # (D, H, d_k)
    rows = torch.einsum("hs,hsd,ohd->so", weights, value, output)
    taken = {}
    for token, row in zip(batch.src[0].tolist(), rows):
        word = translator.source.vocabulary.name(token)
        taken[word] = taken.get(word, 0) + row
    return taken
