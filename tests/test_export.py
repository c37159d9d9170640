"""A run for CTranslate2: the same translations."""

import ctranslate2
import pytest
import torch

import export as program
from notebooks.data_preparation import pad_rows, read_pairs
from notebooks.make_model import make_model
from notebooks.setup import replace
from notebooks.support import export
from notebooks.support.proofs import shake
from notebooks.transformer import greedy_search


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_ctranslate2_finds_the_same(translator, small_data, tmp_path, monkeypatch, norm):
    torch.manual_seed(1)
    config = replace(translator.config, norm=norm)
    model = shake(make_model(config, len(translator.source), len(translator.target))).eval()
    parts = config, translator.source, translator.target, model
    monkeypatch.setattr(export.RunFolder, "load", lambda run: parts)
    export.export_ctranslate2("any", tmp_path / "out")
    engine = ctranslate2.Translator(str(tmp_path / "out"))
    texts = [english for english, _ in read_pairs(small_data, "test", config)]
    tokens = [translator.source.segmenter.segment(text) for text in texts]
    src = pad_rows([translator.encode(text) for text in texts])
    decode = translator.target.vocabulary.decode
    ours = [decode(ids) for ids in greedy_search(model, src, config.max_length)]
    results = engine.translate_batch(tokens, beam_size=1, max_decoding_length=config.max_length + 1)
    theirs = [result.hypotheses[0] for result in results]
    assert sum(a == b[: len(a)] for a, b in zip(ours, theirs)) >= 0.99 * len(texts)
    assert len(set(map(tuple, ours))) > 3
    assert not {"<pad>", "<unk>", "<bos>"} & {token for tokens in theirs for token in tokens}


def test_a_folder_that_is_there_is_not_written_into(finished_run, tmp_path, capsys):
    options = ["--run", str(finished_run), "--ctranslate2"]
    assert program.main([*options, str(tmp_path)]) == 2
    told = f"error: {tmp_path}: is there already. Give a folder that does not exist yet\n"
    assert capsys.readouterr().err == told
    assert program.main([*options, str(tmp_path / "new")]) == 0
    assert {"model.bin", "config.json"} <= {path.name for path in (tmp_path / "new").iterdir()}
