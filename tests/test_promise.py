"""Edit a class or a function of a lesson, save, and training and every search use your version.

Each edit is made in a copy of the course, which then trains two steps and searches in a process of
its own. What it prints is compared with what the course itself prints.
"""

import multiprocessing
import shutil

import nbformat
import pytest
from conftest import ROOT
from promise_probe import probe

# notebook, what is edited, the line, the edited line, what has to change
EDITS = [
    ("01", "TokenBatchSampler.__iter__", "yield rows.tolist()", "yield rows.tolist()[:2]", "t"),
    ("02", "InputEmbedding.forward", "self.lookup(ids) * self.scale", "self.lookup(ids)", "tgb"),
    ("03", "sinusoids", "angles.sin(), angles.cos()", "angles.cos(), angles.sin()", "tgb"),
    ("03", "PositionalEncoding.forward", "x + self.table", "x - self.table", "tgb"),
    ("04", "scaled_dot_product_attention", "weights @ value,", "-weights @ value,", "tgb"),
    ("04", "MultiHeadAttention.forward", "self.output(heads", "self.output(-heads", "tgb"),
    ("05", "LayerNorm.forward", "return F.layer_norm", "return -F.layer_norm", "tgb"),
    ("06", "PositionwiseFeedForward.forward", "(x).relu())", "(x).tanh())", "tgb"),
    ("07", "SublayerConnection.forward", "return x + self", "return x - self", "tgb"),
    ("08", "EncoderLayer.forward", "return self.sublayers[1]", "return self.sublayers[0]", "tgb"),
    ("08", "Encoder.forward", "return self.norm(x)", "return -self.norm(x)", "tgb"),
    ("09", "DecoderLayer.forward", "y: self.cross_attention(", "y: -self.cross_attention(", "tgb"),
    ("09", "KVCache.append", "        return new", "        return new[0], -new[1]", "gb"),
    ("09", "KVCache.once", "return self.cross[attention]", "return self.cross[attention][::-1]",
     "gb"),
    ("09", "KVCache.select", "[part.index_select", "[-part.index_select", "gb"),
    ("09", "Decoder.forward", "return self.norm(x)", "return -self.norm(x)", "tgb"),
    ("10", "Generator.forward", "return self.projection(x)", "return -self.projection(x)", "tgb"),
    ("10", "Transformer.forward", "return self.generator(", "return 2 * self.generator(", "t"),
    ("10", "Transformer.decode", "return self.decoder(", "return -self.decoder(", "tgb"),
    ("11", "make_model", "std=config.d_model**-0.5", "std=1.0", "t"),
    ("12", "LabelSmoothing.forward", "return F.cross_entropy", "return 2 * F.cross_entropy", "t"),
    ("13", "BatchLoss.forward", "loss = self.criterion(", "loss = 2 * self.criterion(", "t"),
    ("13", "evaluate", "return (sum(losses)", "return (2 * sum(losses)", "t"),
    ("14", "linear_rate", "return peak * step", "return 2 * peak * step", "t"),
    ("14", "noam_rate", "return d_model", "return 2 * d_model", "t"),
    ("14", "SCHEDULES", "config.d_model, config.warmup", "1, config.warmup", "t"),
    ("14", "make_optimizer", "betas=(0.9, 0.98)", "betas=(0.1, 0.98)", "t"),
    ("15", "train_step", "    optimizer.step()", "    pass", "t"),
    ("15", "batches_after", "start=done + 1", "start=done + 2", "t"),
    ("15", "train", "        scheduler.step()", "        pass", "t"),
    ("16", "next_logits", "[:, -1].float()", "[:, -1].float().neg()", "gb"),
    ("16", "length_limits", "sum(dim=1) + 10", "sum(dim=1) + 2", "gb"),
    ("16", "length_penalty", "return ((5 + length)", "return ((9 + length)", "b"),
    ("16", "pick", "rows.shape[2]))", "rows.shape[2])).clamp(max=6)", "gb"),
    ("16", "extend", "None] + step_log_probs", "None] + 2 * step_log_probs", "b"),
    ("16", "set_aside", "goes_on, -math.inf) /", "goes_on, -math.inf) *", "b"),
    ("16", "keep_live", "return log_probs, parents.g", "return -log_probs, parents.g", "b"),
    ("16", "can_win", "> scores[:, :1])", "> scores[:, -1:])", "b"),
    ("16", "beam_search", "max_length)[:, None]", "max_length)[:, None] // 5", "gb"),
    ("16", "hypotheses", "(score, row[1 :", "(-score, row[1 :", "b"),
    ("16", "bleu", "return metric", "return 7, metric", "t"),
]  # fmt: skip

# what a copy of the course needs of others; the forked processes find it imported
LIBRARIES = ["torch", "torch._dynamo", "numpy", "sacrebleu", "tokenizers", "tyro",
             "jieba", "matplotlib.pyplot", "nbformat", "IPython"]  # fmt: skip


def copied(folder, notebook="", old="", new=""):
    """A copy of the course with one edit."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("engine", "notebooks"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "utils.py", folder)
    if notebook:
        [path] = (folder / "notebooks").glob(f"{notebook}_*.ipynb")
        content = nbformat.read(path, as_version=4)
        cells = [cell for cell in content.cells if cell.source.startswith("#| export")]
        assert "\n".join(cell.source for cell in cells).count(old) == 1, (notebook, old)
        for cell in cells:
            cell.source = cell.source.replace(old, new)
        nbformat.write(content, path)
    return folder


@pytest.fixture(scope="module")
def found(small_data, tmp_path_factory, request):
    """For each edit, and for none, what the probe gives: two processes at a time."""
    folder = tmp_path_factory.mktemp("courses")

    names = {item.callspec.params["edit"][1] for item in request.session.items
              if item.path == request.path and hasattr(item, "callspec")}  # fmt: skip
    edits = {"": ()}
    edits |= {name: (notebook, *lines) for notebook, name, *lines, _ in EDITS if name in names}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    results = {}
    with context.Pool(2, maxtasksperchild=1) as pool:
        runs = {
            name: pool.apply_async(probe, (copied(folder / (name or "plain"), *edit), small_data))
            for name, edit in edits.items()
        }
        for name, run in runs.items():
            try:
                results[name] = run.get()
            except Exception as error:  # the test of this edit fails, and says why
                results[name] = repr(error)
    return results


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: f"{edit[0]}-{edit[1]}")
def test_training_and_searches_use_the_edited_version(edit, found):
    _, name, _, _, changes = edit
    assert isinstance(found[name], dict), found[name]
    changed = {part for part in "tgb" if found[name][part] != found[""][part]}
    assert changed == set(changes), "training, greedy search, beam search"
