import itertools
import math

import pytest
import sacrebleu
import torch
from conftest import greedy_ids, logits_of, random_batch, random_model
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.attention_maps import translation_attention
from engine.corpus.formats import read_split
from engine.scoring import measure, score
from notebooks import translation
from notebooks.data_preparation import BOS, EOS, PAD, UNK, Batch, pad_rows
from notebooks.translation import beam_search, next_logits
from utils import device


def exact_score(model, src, ids, alpha):
    """The score of a whole sentence, computed in one pass without a cache."""
    batch = Batch.collate([(src, [BOS, *ids])])
    logits = logits_of(model, batch)[0].clone()
    logits[:, [PAD, UNK, BOS]] = -math.inf
    total = logits.log_softmax(-1).gather(1, batch.tgt_out.T).sum().item()
    return total / ((5 + len(ids)) / 6) ** alpha  # Wu et al. 2016, equation 14


alphas = st.sampled_from([0.0, 0.6, 1.0, 3.0])


@given(seed=st.integers(0, 10**6), alpha=alphas, max_length=st.integers(1, 3))
@settings(max_examples=40)
def test_a_wide_beam_finds_the_best_of_all_sentences(seed, alpha, max_length):
    model, batch = random_model(seed, tgt_size=7), random_batch(seed, [1, 4], [1, 1])
    sentences = [
        [*words, EOS]
        for length in range(max_length + 1)
        for words in itertools.product((4, 5, 6), repeat=length)
    ]
    every = beam_search(model, batch.src, max_length, beam_size=3**max_length, alpha=alpha)
    for src, hypotheses in zip(batch.src.tolist(), every):
        src = src[: src.index(EOS) + 1]
        best = max(exact_score(model, src, ids, alpha) for ids in sentences)
        value, ids = hypotheses[0]
        assert [value, exact_score(model, src, ids, alpha)] == pytest.approx([best] * 2, rel=1e-5)


@given(seed=st.integers(0, 10**6), beam_size=st.integers(1, 5), alpha=st.sampled_from([0.0, 0.6]))
@settings(max_examples=25)
def test_ended_hypotheses_keep_the_score_that_they_ended_with(seed, beam_size, alpha):
    model, batch = random_model(seed), random_batch(seed, [3, 1, 6], [1, 1, 1])
    every = beam_search(model, batch.src, 8, beam_size, alpha)
    for src, hypotheses in zip(batch.src.tolist(), every):
        src = src[: src.index(EOS) + 1]
        values = [value for value, _ in hypotheses]
        assert values == sorted(values, reverse=True)
        assert len({tuple(ids) for _, ids in hypotheses}) == len(hypotheses) <= beam_size
        for value, ids in hypotheses:
            assert ids.index(EOS) == len(ids) - 1 <= 8
            assert not {PAD, UNK, BOS} & set(ids)
            exact = exact_score(model, src, ids, alpha)
            assert value == pytest.approx(exact, rel=1e-5, abs=1e-6)


@given(seed=st.integers(0, 10**6), lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4))
@settings(max_examples=25)
def test_a_batch_gives_what_each_sentence_gives_alone(seed, lengths):
    model, batch = random_model(seed), random_batch(seed, lengths, [1] * len(lengths))
    together = beam_search(model, batch.src, 8)
    for row, length in enumerate(lengths):
        value, ids = beam_search(model, batch.src[row : row + 1, : length + 1], 8)[0][0]
        assert together[row][0] == (pytest.approx(value, rel=1e-6), ids)


def plain_beam(model, src, limit, beam_size, alpha):
    """A beam for one sentence in lists, without a cache, to the limit: (score, ids), best first."""
    live, finished = [(0.0, [])], []
    for length in range(1, limit + 1):
        grown = []
        for total, ids in live:
            batch = Batch.collate([(src, [BOS, *ids, EOS])])
            logits = logits_of(model, batch)[0, len(ids)].clone()
            logits[[PAD, UNK, BOS]] = -math.inf
            values = enumerate(logits.log_softmax(-1).tolist())
            grown += [(total + value, [*ids, token]) for token, value in values
                      if token >= EOS and (length < limit or token == EOS)]  # fmt: skip
        best = sorted(grown, reverse=True)[: 2 * beam_size]
        penalty = ((5 + length) / 6) ** alpha
        finished += [(total / penalty, ids) for total, ids in best if ids[-1] == EOS]
        live = [one for one in best if one[1][-1] != EOS][:beam_size]
    return sorted(finished, reverse=True)[:beam_size]


def test_with_an_endless_lookahead_it_finds_what_a_plain_beam_finds_at_the_limit():
    """Stopping when nothing can win changes nothing, nor do cache, batch and reordered rows."""
    for seed in range(6):
        model, batch = random_model(seed), random_batch(seed, [4, 2], [1, 1])
        every = beam_search(model, batch.src, 8, 3, 0.6, lookahead=math.inf)
        for src, hypotheses in zip(batch.src.tolist(), every):
            src = src[: src.index(EOS) + 1]
            limit = min(2 * len(src) + 10, 9)
            score, ids = plain_beam(model, src, limit, 3, 0.6)[0]
            assert hypotheses[0] == (pytest.approx(score, rel=1e-5), ids)


def test_a_longer_lookahead_costs_steps_and_never_a_score():
    saved = 0
    for seed in range(10):
        model, batch, read = random_model(seed), random_batch(seed, [4, 2], [1, 1]), []

        def note(module, given, read=read):
            read.append(len(given[0]))

        model.generator.register_forward_pre_hook(note)
        scores, steps = [], []
        for lookahead in (0, 2, math.inf):
            read.clear()
            hypotheses = beam_search(model, batch.src, 20, 3, 1.4, lookahead)
            scores.append([best[0][0] for best in hypotheses])
            steps.append(sum(read))
        for each in zip(*scores):  # with a longer lookahead the same, or higher
            assert list(each) == pytest.approx(sorted(each), rel=0, abs=1e-9)
        assert steps == sorted(steps)
        saved += steps[2] - steps[0]
    assert saved > 0


def test_an_unlikely_end_is_not_taken(monkeypatch):
    """Ending at once has probability 0.2, less than both words, more than any longer sentence."""
    first, later = [0, 0, 0, 0.2, 0.5, 0.3], [0, 0, 0, 0.3, 0.3, 0.4]
    table = torch.tensor([later, later, first, later, later, later]).log()
    model = random_model(0, tgt_size=6, src_size=6)

    def by_table(model, tokens, *rest):
        """What the table says; the model fills the cache."""
        next_logits(model, tokens, *rest)
        return table[tokens[:, 0]].clone()

    monkeypatch.setattr(translation, "next_logits", by_table)
    src = torch.tensor([[4, EOS]])
    assert beam_search(model, src, 3, beam_size=1, alpha=0)[0][0][1][0] == 4
    wide = beam_search(model, src, 3, beam_size=4, alpha=0)[0][0]
    assert wide == (pytest.approx(math.log(0.2)), [EOS])


# the translator


@pytest.mark.parametrize("beam_size, first", [(1, 1), (3, 2001)])
def test_order_is_kept_and_no_line_is_lost(translator, small_data, beam_size, first, capsys):
    texts = [english for english, _ in read_split(small_data, "dev", translator.config)]
    strange = ["", "   ", "x" * 10_000, "😀😀", "zzz qqq vvv"]
    strange += ["word " * 500, "<eos> <pad>", "a\u2028b", "中文", "word " * 60]
    texts[3:3] = strange
    together = translator.translate(texts, beam_size, batch_size=7, numbers=itertools.count(first))
    assert together[3:5] == ["", ""]
    assert capsys.readouterr().err == f"line {first + 8}: cut after 60 tokens\n"
    assert together == [translator.translate([text], beam_size)[0] for text in texts]
    assert translator.translate([]) == []


def test_rows_that_have_ended_are_not_computed_any_more(translator, small_data):
    """The generator reads each row once for each token that it writes."""
    texts = [english for english, _ in read_split(small_data, "dev", translator.config)]
    read = []

    def note(module, given):
        read.append(len(given[0]))

    hook = translator.model.generator.register_forward_pre_hook(note)
    src = pad_rows([translator.encode(text) for text in texts]).to(device())
    written = greedy_ids(translator.model, src, translator.config.max_length)
    hook.remove()
    assert (read[0], sum(read)) == (len(texts), sum(map(len, written)))


def test_attention_of_a_translation(translator):
    parts = translator.model, translator.source, translator.target
    columns, rows, maps = translation_attention(*parts, "The phone rang.", "电话响了。")
    assert (columns[-1], rows[0], len(rows)) == ("<eos>", "<bos>", 6)
    assert maps["cross"].shape == (2, 2, len(rows), len(columns))
    assert maps["encoder"].shape[-1] == len(columns)


def test_scores_are_sacrebleus(finished_run, small_data):
    scores, pairs, translations = score(finished_run, small_data, "test")
    (finished_run / "scores.json").unlink(missing_ok=True)  # other tests share this run
    assert set(scores) == {"greedy", "beam"}
    references = [[chinese for _, chinese in pairs]]
    for name, row in scores.items():
        bleu = sacrebleu.BLEU(tokenize="zh").corpus_score(translations[name], references)
        assert row["bleu"] == round(bleu.score, 2)
        assert row["sentences_per_second"] > 0
        assert "tok:zh" in row["bleu_signature"]
        assert "version:" in row["chrf_signature"]


def test_the_tokenizer_of_sacrebleu_goes_by_the_language():
    assert "tok:13a" in measure(["a b c d"], ["a b c d"], "de")["bleu_signature"]
    assert measure(["我很好啊"], ["我很好啊"], "zh")["bleu"] == 100
