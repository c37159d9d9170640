"""What `make bench` compares with: a published course, PyTorch's model and Hugging Face's.

The course is github.com/Allenem/transformer: its way to train, to translate and to prepare data.
"""

import math
from collections import Counter

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from notebooks.data_preparation import BOS, EOS, PAD, UNK
from notebooks.positional_encoding import sinusoids
from notebooks.transformer import Generator, Transformer


class Norm(nn.Module):
    """Layer norm from its parts, with Bessel's correction."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        deviation = x.std(-1, keepdim=True)
        return self.weight * (x - mean) / (deviation + 1e-6) + self.bias


class Attention(nn.Module):
    """Two matrix products and a softmax, the mask by `masked_fill`, dropout on the weights."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.maps = nn.ModuleList(nn.Linear(width, width) for _ in range(4))

    def forward(self, query, key, value, mask):
        rows = len(query)
        query, key, value = (
            layer(x).view(rows, -1, self.heads, x.shape[-1] // self.heads).transpose(1, 2)
            for layer, x in zip(self.maps, (query, key, value))
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        scores = scores.masked_fill(mask == 0, -1e9)
        weights = F.dropout(scores.softmax(dim=-1), self.dropout, self.training)
        out = (weights @ value).transpose(1, 2).contiguous()
        return self.maps[3](out.view(rows, -1, self.heads * value.shape[-1]))


class Layer(nn.Module):
    """A layer of the encoder (one attention) or of the decoder (two).

    Pre-norm, dropout inside the feed-forward too.
    """

    def __init__(self, config, attentions):
        super().__init__()
        self.dropout = config.dropout
        self.attentions = nn.ModuleList(
            Attention(config.d_model, config.num_heads, config.dropout) for _ in range(attentions)
        )
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.outer = nn.Linear(config.d_ff, config.d_model)
        self.norms = nn.ModuleList(Norm(config.d_model) for _ in range(attentions + 1))

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training)

    def forward(self, x, own_mask, memory=None, memory_mask=None):
        y = self.norms[0](x)
        x = x + self.drop(self.attentions[0](y, y, y, own_mask))
        if memory is not None:
            x = x + self.drop(self.attentions[1](self.norms[1](x), memory, memory, memory_mask))
        return x + self.drop(self.outer(self.drop(self.inner(self.norms[-1](x)).relu())))


class Allenem(nn.Module):
    """The model of Allenem/transformer: nothing shared, log-softmax at its end."""

    def __init__(self, config, src_vocab_size, tgt_vocab_size):
        super().__init__()
        self.width = config.d_model
        self.dropout = config.dropout
        self.embeddings = nn.ModuleList(
            nn.Embedding(size, config.d_model) for size in (src_vocab_size, tgt_vocab_size)
        )
        self.register_buffer("table", sinusoids(1024, config.d_model), persistent=False)
        self.encoder = nn.ModuleList(Layer(config, 1) for _ in range(config.num_layers))
        self.decoder = nn.ModuleList(Layer(config, 2) for _ in range(config.num_layers))
        self.norms = nn.ModuleList(Norm(config.d_model) for _ in range(2))
        self.projection = nn.Linear(config.d_model, tgt_vocab_size)

    def embed(self, ids, side):
        x = self.embeddings[side](ids) * math.sqrt(self.width) + self.table[: ids.shape[1]]
        return F.dropout(x, self.dropout, self.training)

    def encode(self, src, src_mask):
        x = self.embed(src, 0)
        for layer in self.encoder:
            x = layer(x, src_mask)
        return self.norms[0](x)

    def decode(self, tgt, memory, src_mask, tgt_mask):
        x = self.embed(tgt, 1)
        for layer in self.decoder:
            x = layer(x, tgt_mask, memory, src_mask)
        return self.norms[1](x)

    def forward(self, src, tgt, src_mask, tgt_mask):
        x = self.decode(tgt, self.encode(src, src_mask), src_mask, tgt_mask)
        return self.projection(x).log_softmax(dim=-1)


def allenem_step(model, batch, optimizer, smoothing=0.1):
    """Trains as Allenem/transformer does: float32, the whole matrix of smoothed one-hot targets.

    The loss is the Kullback-Leibler divergence to it.
    """
    log_probs = model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    log_probs = log_probs.reshape(-1, log_probs.shape[-1])
    targets = batch.tgt_out.reshape(-1)
    target_probs = torch.full_like(log_probs, smoothing / (log_probs.shape[-1] - 2))
    target_probs.scatter_(1, targets[:, None], 1 - smoothing)
    target_probs[:, PAD] = 0
    target_probs[targets == PAD] = 0
    count = (targets != PAD).sum()
    loss = F.kl_div(log_probs, target_probs, reduction="sum") / count
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return count


@torch.no_grad()
def allenem_translate(model, src, steps=60):
    """Greedy search as in Allenem/transformer: one sentence at a time, always 60 steps.

    Each step reads the whole prefix again.
    """
    written = []
    for row in src:
        row = row[row != PAD][None]
        src_mask = torch.ones(1, 1, 1, row.shape[1], dtype=torch.bool)
        memory = model.encode(row, src_mask)
        ids = torch.full((1, 1), BOS)
        for length in range(1, steps + 1):
            mask = torch.ones(1, 1, length, length, dtype=torch.bool).tril()
            hidden = model.decode(ids, memory, src_mask, mask)
            token = model.projection(hidden[:, -1]).log_softmax(dim=-1).argmax(dim=-1)
            ids = torch.cat([ids, token[:, None]], dim=1)
        written.append(ids[0, 1:].tolist())
    return written


def allenem_data(path, source, target, rows=64):
    """From a file to batches as in Allenem/transformer: all at once, sorted by length once.

    A batch has `rows` sentences, padded by numpy.
    """
    sides = [[], []]
    for line in open(path, encoding="utf-8").read().splitlines():
        for side, tokenizer, text in zip(sides, (source, target), line.split("\t")):
            side.append(["<bos>", *tokenizer.segmenter.segment(text), "<eos>"])
    ids = []
    for side in sides:
        counts = Counter(token for tokens in side for token in tokens)
        known = enumerate(counts.most_common(50_000), start=4)
        table = {token: number for number, (token, _) in known}
        ids.append([[table.get(token, UNK) for token in tokens] for tokens in side])
    order = sorted(range(len(ids[0])), key=lambda row: len(ids[0][row]))
    batches = []
    for start in range(0, len(order), rows):
        chosen = order[start : start + rows]
        padded = []
        for side in ids:
            longest = max(len(side[row]) for row in chosen)
            even = [side[row] + [PAD] * (longest - len(side[row])) for row in chosen]
            padded.append(np.array(even))
        src, tgt = (torch.from_numpy(side) for side in padded)
        tgt_in = tgt[:, :-1]
        tgt_out = tgt[:, 1:]
        square = np.ones((1, tgt_in.shape[1], tgt_in.shape[1]), dtype="uint8")
        look_ahead = torch.from_numpy(np.tril(square))
        src_mask = (src != PAD)[:, None]
        tgt_mask = (tgt_in != PAD)[:, None] & look_ahead.bool()
        batches.append((src, tgt_in, tgt_out, src_mask, tgt_mask))
    return batches


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` between our embeddings and our generator, for our `WrappedLoss`."""

    def __init__(self, ours, config):
        super().__init__()
        self.src_embedding = ours.src_embedding
        self.tgt_embedding = ours.tgt_embedding
        self.positions = ours.positions
        self.generator = ours.generator
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(
                config.d_model,
                config.num_heads,
                config.d_ff,
                config.dropout,
                batch_first=True,
                norm_first=True,
            ),
            config.num_layers,
            nn.LayerNorm(config.d_model),
            enable_nested_tensor=False,
        )
        self.inner = nn.Transformer(
            config.d_model,
            config.num_heads,
            config.num_layers,
            config.num_layers,
            config.d_ff,
            config.dropout,
            batch_first=True,
            norm_first=True,
            custom_encoder=encoder,
        )

    def encode(self, src, src_mask):
        hidden = None if src_mask is None else ~src_mask[:, 0, 0]
        x = self.positions(self.src_embedding(src))
        return self.inner.encoder(x, src_key_padding_mask=hidden)

    def decode(self, tgt, memory, src_mask, tgt_mask):
        hidden = None if src_mask is None else ~src_mask[:, 0, 0]
        ahead = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).triu(1)
        return self.inner.decoder(
            self.positions(self.tgt_embedding(tgt)),
            memory,
            tgt_mask=ahead,
            tgt_is_causal=True,
            tgt_key_padding_mask=tgt == PAD,
            memory_key_padding_mask=hidden,
        )

    forward = Transformer.forward  # encode, decode, generator


def marian(config, src_vocab_size, tgt_vocab_size):
    """Hugging Face's `MarianMTModel` of the same size, with random weights."""
    from transformers import MarianConfig, MarianMTModel

    return MarianMTModel(
        MarianConfig(
            vocab_size=src_vocab_size,
            decoder_vocab_size=tgt_vocab_size,
            share_encoder_decoder_embeddings=False,
            tie_word_embeddings=False,
            max_position_embeddings=1024,
            d_model=config.d_model,
            dropout=config.dropout,
            encoder_layers=config.num_layers,
            decoder_layers=config.num_layers,
            scale_embedding=True,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            activation_function="relu",
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
        )
    )


class MarianParts(nn.Module):
    """Marian's encoder, decoder and output matrix, to be called by our `WrappedLoss`."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.generator = Generator(*reversed(model.lm_head.weight.shape))
        self.generator.projection = model.lm_head

    def encode(self, src, src_mask):
        return self.model.model.encoder(input_ids=src, attention_mask=src != PAD).last_hidden_state

    def decode(self, tgt, memory, src_mask, tgt_mask):
        mask = None if src_mask is None else src_mask[:, 0, 0]
        return self.model.model.decoder(
            input_ids=tgt,
            attention_mask=tgt != PAD,
            encoder_hidden_states=memory,
            encoder_attention_mask=mask,
            use_cache=False,
        ).last_hidden_state

    forward = Transformer.forward  # encode, decode, generator
