"""What `make bench` and gpu.py compare with: a published course, PyTorch's model, Hugging Face's.

The course is github.com/Allenem/transformer: its way to train and to translate. And how all are
compared: the same training step, by turns.
"""

import statistics
import time
import warnings

import torch
import transformers
from torch import nn
from torch.nn import functional as F

from notebooks.data_preparation import BOS, EOS, PAD
from notebooks.feed_forward import PositionwiseFeedForward
from notebooks.label_smoothing import LabelSmoothing
from notebooks.layer_norm import LayerNorm
from notebooks.loss import BatchLoss
from notebooks.make_model import make_model
from notebooks.multi_head_attention import MultiHeadAttention
from notebooks.setup import replace
from notebooks.training import train_step
from notebooks.transformer import Generator, Transformer

warnings.simplefilter("ignore")  # the rivals' own
transformers.logging.set_verbosity_error()
DROPOUT = 0.1  # inside attention and feed-forward


def alternate(jobs, rounds=3):
    """Runs the jobs by turns: {name: work per second, the median of the rounds}.

    `jobs` is {name: function that returns an amount of work}. A first round, in which memory is
    taken and kernels are chosen, is not counted.
    """
    speeds = {name: [] for name in jobs}
    for turn in range(rounds + 1):
        for name, job in jobs.items():
            began = time.perf_counter()
            work = job()
            if turn:
                speeds[name].append(work / (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in speeds.items()}


def adam(model, **options):
    """The paper's Adam at a fixed rate, for a model that is trained."""
    options |= dict(lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    return torch.optim.Adam(model.train().parameters(), **options)


def training_step(model, config, optimizer=None, criterion=None):
    """A function of a batch: trains a model, ours or a library's, with our loss and precision.

    It returns the number of target tokens.
    """
    criterion = criterion or LabelSmoothing(config.label_smoothing)
    loss = BatchLoss(model, criterion)
    optimizer = optimizer or adam(model, fused=True)
    return lambda batch: train_step(loss, batch, optimizer, config)[0][1]


class Norm(LayerNorm):
    """Layer norm from its parts, with Bessel's correction."""

    def forward(self, x):
        deviation = x.std(-1, keepdim=True)
        return self.weight * (x - x.mean(-1, keepdim=True)) / (deviation + 1e-6) + self.bias


class Attention(MultiHeadAttention):
    """Two matrix products and a softmax, the mask by `masked_fill`, dropout on the weights."""

    def attend(self, query, key, value, mask):
        scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        scores = scores.masked_fill(~mask, -1e9)
        return F.dropout(scores.softmax(dim=-1), DROPOUT, self.training) @ value


class FeedForward(PositionwiseFeedForward):
    """The same with dropout inside."""

    def forward(self, x):
        return self.outer(F.dropout(self.inner(x).relu(), DROPOUT, self.training))


def allenem(config, src_vocab_size, tgt_vocab_size):
    """The model of Allenem/transformer: pre-norm, nothing shared, the parts above."""
    config = replace(config, tie_embeddings="none", norm="pre")
    model = make_model(config, src_vocab_size, tgt_vocab_size)
    parts = {
        LayerNorm: lambda: Norm(config.d_model),
        MultiHeadAttention: lambda: Attention(config.d_model, config.num_heads),
        PositionwiseFeedForward: lambda: FeedForward(config.d_model, config.d_ff),
    }
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) in parts:
                setattr(module, name, parts[type(child)]())
    return model


def allenem_step(model, batch, optimizer, smoothing=0.1):
    """Trains as Allenem/transformer does: float32, the whole matrix of smoothed one-hot targets.

    The loss is the Kullback-Leibler divergence to it.
    """
    logits = model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    log_probs = logits.flatten(0, 1).log_softmax(dim=-1)
    targets = batch.tgt_out.flatten()
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
            token = model.generator(hidden[:, -1]).log_softmax(dim=-1).argmax(dim=-1)
            ids = torch.cat([ids, token[:, None]], dim=1)
        written.append(ids[0, 1:].tolist())
    return written


class TorchTransformer(nn.Module):
    """PyTorch's encoder and decoder between our embeddings and generator, for our `BatchLoss`."""

    def __init__(self, config, *vocabulary_sizes):
        super().__init__()
        ours = make_model(config, *vocabulary_sizes)
        for name in ("src_embedding", "tgt_embedding", "positions", "generator"):
            setattr(self, name, getattr(ours, name))
        layers = [config.num_layers] * 2
        sizes = config.d_model, config.num_heads, *layers, config.d_ff, config.dropout
        theirs = nn.Transformer(*sizes, batch_first=True, norm_first=True)
        self.encoder, self.decoder = theirs.encoder, theirs.decoder

    def encode(self, src, src_mask):
        x = self.positions(self.src_embedding(src))
        return self.encoder(x, src_key_padding_mask=~src_mask[:, 0, 0])

    def decode(self, tgt, memory, src_mask, tgt_mask):
        ahead = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).triu(1)
        return self.decoder(
            self.positions(self.tgt_embedding(tgt)),
            memory,
            tgt_mask=ahead,
            tgt_is_causal=True,
            tgt_key_padding_mask=tgt == PAD,
            memory_key_padding_mask=~src_mask[:, 0, 0],
        )

    forward = Transformer.forward  # encode, decode, generator


def marian(config, src_vocab_size, tgt_vocab_size):
    """Hugging Face's `MarianMTModel` of the same size, with random weights."""
    sizes = {
        "layers": config.num_layers,
        "attention_heads": config.num_heads,
        "ffn_dim": config.d_ff,
    }
    theirs = transformers.MarianConfig(
        **{f"encoder_{name}": size for name, size in sizes.items()},
        **{f"decoder_{name}": size for name, size in sizes.items()},
        vocab_size=src_vocab_size,
        decoder_vocab_size=tgt_vocab_size,
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False,
        d_model=config.d_model,
        dropout=config.dropout,
        scale_embedding=True,
        activation_function="relu",
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    return transformers.MarianMTModel(theirs)


class MarianParts(nn.Module):
    """Marian's encoder, decoder and output matrix, to be called by our `BatchLoss`."""

    def __init__(self, config, *vocabulary_sizes):
        super().__init__()
        self.model = marian(config, *vocabulary_sizes)
        self.generator = Generator(config.d_model, vocabulary_sizes[1])
        self.generator.projection = self.model.lm_head

    def encode(self, src, src_mask):
        return self.model.model.encoder(input_ids=src, attention_mask=src != PAD).last_hidden_state

    def decode(self, tgt, memory, src_mask, tgt_mask):
        return self.model.model.decoder(
            input_ids=tgt,
            attention_mask=tgt != PAD,
            encoder_hidden_states=memory,
            encoder_attention_mask=src_mask[:, 0, 0],
            use_cache=False,
        ).last_hidden_state

    forward = Transformer.forward  # encode, decode, generator


RIVALS = {"nn.Transformer": TorchTransformer, "Marian": MarianParts}
