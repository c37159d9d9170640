"""Every exercise: the empty hole is told so, the folded solution is right.

And a typical wrong answer is refused with a hint.
"""

import ast

import pytest
from conftest import NOTEBOOKS
from exercises import exercises, namespace, verdict

# (notebook, exercise): (part of the solution, a typical mistake in its place, part of the hint)
WRONG = {
    ("00", 1): ("cross_attention(y, memory, memory, src_mask)",
                "self_attention(y, y, y, tgt_mask)", "the decoder still sees the English"),
    ("00", 2): ("dim=1", "dim=0", "mean over the sentences, axis 0"),
    ("00", 3): ("num_heads=128 // 16", "num_heads=16", "each has 8 and not 16"),
    ("01", 1): ("row + [PAD] * (longest - len(row))", "[PAD] * (longest - len(row)) + row",
                "PAD belongs at the end"),
    ("01", 2): ("seen[pair] += count", "seen[pair] += 1", "five merges give"),
    ("01", 3): (" & not_later", " & not_later & (ids != PAD)[:, None, :, None]",
                "only keys are to be closed"),
    ("02", 1): ("math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))",
                "sum(a * a for a in one)", "piano and play have a cosine"),
    ("02", 2): ("return gradient.index_add(0, ids, upstream)",
                "gradient[ids] = upstream; return gradient", "only its last"),
    ("02", 3): ("torch.nn.functional.normalize(table, dim=1)", "table", "only because it is long"),
    ("03", 1): ("(2 * i / d_model)", "(i / d_model)", "does i count pairs?"),
    ("03", 2): ("torch.arange(start, start + x.shape[1]", "torch.arange(x.shape[1]",
                "`start` has no effect"),
    ("03", 3): ("x[..., 0::2], x[..., 1::2]", "x.chunk(2, dim=-1)", "numbers 2i and 2i + 1"),
    ("04", 1): ("transpose(1, 2).flatten(2)", "reshape(len(heads), heads.shape[2], -1)",
                "the words are mixed"),
    ("04", 2): ("/ math.sqrt(len(query)) for", "for", "not divided by √d_k"),
    ("04", 3): ("repeat_interleave(times, dim=1)", "repeat(1, times, 1, 1)",
                "the heads take turns"),
    ("05", 1): ("x.square().mean(dim=-1).sqrt()", "x.norm(dim=-1)", "take the mean of the squares"),
    ("05", 2): ("return x / ", "x = x - x.mean(-1, keepdim=True); return x / ",
                "that is layer norm"),
    ("05", 3): ("(g * y).sum(dim=0)", "(g * x).sum(dim=0)", "it multiplies y, not x"),
    ("06", 1): ("[1, -1, 0, 0, 0], 0", "[1, 0, 0, 0, 0], 0", "what should piano do to the sum?"),
    ("06", 2): ("[[1.0, -1.0], [-1.0, 1.0]]", "[[1.0, 0.0], [0.0, 1.0]]", "that is the sum"),
    ("06", 3): ("nn.functional.silu(self.gate(x))", "self.gate(x).relu()", "that is ReGLU"),
    ("07", 1): ("norm(x + sublayer(x))", "x + norm(sublayer(x))", "comes after the sum"),
    ("07", 2): ("nn.Parameter(torch.zeros(()))", "torch.zeros(())", "alpha is not a parameter"),
    ("08", 1): ("layer(stages[-1], src_mask)", "layer(x, src_mask)", "the first has written"),
    ("08", 2): ("real.sum(dim=1)", "mask.shape[1]", "divide by the real tokens only"),
    ("08", 3): ("norms[0](x + attention(x, x, x, src_mask))", "x + attention(x, x, x, src_mask)",
                "is x added before each"),
    ("09", 1): ("read[: step + 1]", "read[: step + 2]", "at first only <bos> is read"),
    ("09", 2): ("causal_mask(length) | (place < prefix)", "causal_mask(length)",
                "inside the prefix all see all"),
    ("09", 3): ("src_mask, causal_mask(known))", "src_mask)", "does token 0 look ahead?"),
    ("10", 1): ("memory, src_mask, tgt_mask)", "memory, src_mask)", "mask is not passed to decode"),
    ("10", 2): (" & causal_mask(ids.shape[1], ids.device)", "",
                "the row needs a causal mask"),
    ("10", 3): ("2 * 2 * T * D * D + 2 * 2 * S * D * D", "4 * 2 * T * D * D",
                "cross keys and values come from S tokens"),
    ("11", 1): ("fan_in * std**2", "fan_in * std", "is it the variance"),
    ("11", 2): ("generator.projection.weight =", "generator.projection.weight.data[:] =",
                "generator are two parameters"),
    ("11", 3): ("(2 * len(encoder.layers))", "len(encoder.layers)",
                "each of the 8 layers adds two changes"),
    ("12", 1): ("math.exp(sum(losses) / len(losses))", "sum(losses) / len(losses)",
                "that is the mean loss"),
    ("12", 2): ("[:, PAD + 1 :].log_softmax(dim=-1)", ".log_softmax(dim=-1)[:, PAD + 1 :]",
                "is right, not"),
    ("12", 3): ("(sure * 10).long()", "(sure * 5).long()", "there are ten bins"),
    ("13", 1): ("sum(loss for loss, _ in measured) / sum(count for _, count in measured)",
                "sum(loss / count for loss, count in measured) / len(measured)",
                "the mean of the batches' means"),
    ("13", 2): ("[BOS, *ids] for ids in sentences])",
                "[BOS, *ids, EOS] for ids in sentences])[:, :-1]", "cut each row"),
    ("13", 3): ("batch_loss(part)", "batch_loss(part); total = _", "weighs small parts too much"),
    ("14", 1): ("warmup_steps + 1", "1", "is in the warm-up"),
    ("14", 2): ("(step - warmup_steps) / (total_steps - warmup_steps)", "step / total_steps",
                "does t begin after the warm-up"),
    ("14", 3): ("m = 0.9", "gradient, decay = gradient + decay * weight, 0; m = 0.9",
                "the decay is in the gradient"),
    ("15", 1): ("return min(", "return max(", "dev was lowest at step 200"),
    ("15", 2): ("(loss / tokens).back", "(loss / count).back", "by the tokens of the whole"),
    ("15", 3): ("if norm > max_norm:", "if True:", "was scaled up"),
    ("16", 1): ("one[0] / length_penalty", "one[0] * length_penalty", "the longer one wins"),
    ("16", 2): ("100 * brevity * math", "100 * math", "the brevity penalty is missing"),
    ("16", 3): ("length_penalty(limit, alpha) <=", "length_penalty(len(tokens) + 1, alpha) <=",
                "was its prefix left out?"),
}  # fmt: skip

# and answers that look right: (notebook, exercise, part of the solution, mistake, part of the hint)
LOOK_RIGHT = [
    ("01", 2, "max(seen, key=seen.get)", "min(seen, key=lambda pair: (-seen[pair], pair))",
     "whatever its letters"),
    ("02", 3, "directions = torch.nn.functional.normalize(table, dim=1)",
     "table /= table.norm(dim=1, keepdim=True) + 1e-9; directions = table", "itself was changed"),
    ("02", 3, "cosine[[PAD, number]] = -torch.inf\n    return cosine.topk(count).indices.tolist()",
     "cosine[PAD] = -torch.inf; return cosine.argsort(stable=True, descending=True)[1:count + 1]",
     "by its number"),
    ("02", 2, "return gradient.index_add(0, ids, upstream)",
     "gradient = gradient.index_add(0, ids, upstream); gradient[0] = 0; return gradient",
     "PAD is a token like others"),
    ("03", 2, "return x + self.table(places)", "x += self.table(places); return x",
     "x itself was changed"),
    ("03", 3, "device=x.device) / d_k)", "device=x.device) / 8)", "is d_k fixed?"),
    ("04", 2, "max(scores)", "max(0, *scores)", "ZeroDivisionError"),
    ("04", 2, "max(scores)", "scores[-1]", "subtract the largest"),
    ("04", 2, "math.sqrt(len(query))", "math.sqrt(len(keys))", "number of keys"),
    ("04", 2, "math.exp(score - max(scores))", "math.exp(min(score, 700))", "1000 and 2000"),
    ("05", 2, "return x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()",
     "x /= (x.square().mean(dim=-1, keepdim=True) + eps).sqrt(); return x",
     "`x` itself was changed"),
    ("05", 3, "y = (x - x.mean(dim=-1, keepdim=True)) / x.std",
     "x -= x.mean(dim=-1, keepdim=True); y = x / x.std", "`x` itself was changed"),
    ("07", 2, "return x + self.alpha * sublayer(x)", "x += self.alpha * sublayer(x); return x",
     "x itself is changed"),
    ("08", 2, "return (states * real).sum(dim=1) / real.sum(dim=1)",
     "return ((states * real).sum(dim=1) / real.sum(dim=1)).squeeze()", "batch of one"),
    ("08", 2, " / real.sum(dim=1)", " // real.sum(dim=1)", "is right, not"),
    ("08", 3, "x = norms[0](x + attention(x, x, x, src_mask))",
     "x += attention(x, x, x, src_mask); x = norms[0](x)", "`x` itself was changed"),
    ("08", 2, "    return", "    states[~mask] = 0\n    return", "`states` itself was changed"),
    ("12", 2, "logits[real][:, PAD + 1 :]", "logits.index_fill_(1, torch.tensor([PAD]), -torch.inf)"
     "[real][:, PAD + 1 :]", "`logits` itself was changed"),
    ("12", 2, "    return", "    targets += 1\n    return", "`targets` itself was changed"),
    ("12", 3, ".clamp(max=9)\n    for low in range(10)", "\n    for low in range(11)",
     "exactly 1 belongs to the last"),
    ("09", 3, "    return torch.cat(steps, dim=1)",
     "    return torch.cat([steps[0], torch.cat(steps[1:], dim=1)], dim=1)", "It stopped with"),
    ("10", 2, "causal_mask(ids.shape[1], ids.device)",
     "(causal_mask(ids.shape[1]) | (torch.arange(ids.shape[1]) < src.shape[1]))",
     "one for the whole row"),
    ("10", 2, "self.positions(self.tgt_embedding(tgt))", "self.tgt_embedding(tgt)",
     "order of the target's tokens"),
    ("10", 3, "2 * 2 * T * D * d_ff", "2 * 2 * T * D * 40", "with other sizes"),
    ("11", 2, "generator.projection.weight = model.tgt_embedding.lookup.weight",
     "generator.projection = model.tgt_embedding.lookup", "assign its weight alone"),
    ("11", 3, "(2 * len(encoder.layers)) ** -0.5", "0.25", "with 2 layers it is 1/√4"),
    ("12", 3, "chosen = number == low",
     "chosen = (sure >= low / 10) & (sure <= (low + 1) / 10)", "one bin, not to two"),
    ("12", 3, "chosen = number == low",
     "chosen = (sure > low / 10) & (sure <= (low + 1) / 10)", "exactly 0 belongs to the first"),
    ("13", 2, "[*ids, EOS] for ids in sentences])",
     "[*ids, EOS] for ids in sentences]).float()", "torch.long"),
    ("13", 2, "    return", "    sentences = sorted(sentences, key=len)[::-1]\n    return",
     "the order of the sentences"),
    ("13", 2, "[*ids, EOS] for", "ids.append(EOS) or ids for", "make new lists"),
    ("13", 3, "for part in parts:\n        loss, _ = batch_loss(part)",
     "for loss, _ in [batch_loss(part) for part in parts]:", "graphs of all parts"),
    ("13", 3, "(loss / total).backward()",
     "whole = loss / total + (whole if part is not parts[0] else 0)\n    whole.backward()",
     "graphs of all parts"),
    ("13", 3, "BatchLoss(model, criterion)", "BatchLoss(model, LabelSmoothing(0))", "its size is"),
    ("14", 2, "peak / 2 * (1 + math.cos(math.pi * t))", "peak * (1 - 3 * t * t + 2 * t**3)",
     "of 10 and 40 steps"),
    ("14", 3, " + 1e-9)", ")", "unless ε is added"),
    ("14", 3, ".sqrt() + 1e-9)", " + 1e-9).sqrt()", "the last thing"),
    ("15", 2, "    for batch in batches:\n        optimizer.zero_grad()\n",
     "    optimizer.zero_grad()\n    for batch in batches:\n", "gradients of its own batch"),
    ("15", 2, "        optimizer.step()\n        losses.append(total / tokens.item())\n",
     "        losses.append(total / tokens.item())\n    optimizer.step()\n", "want two steps"),
    ("15", 2, "LabelSmoothing(smoothing)", "LabelSmoothing(0.1)", "each by itself"),
    ("00", 2, "x.mean(dim=1)", "x.mean(dim=1, keepdim=True).squeeze()", "of one sentence"),
    ("01", 2, "        joined = []\n",
     "        joined = []\n        if len(pieces) < 2:\n            continue\n", "of one piece"),
    ("01", 2, "(joined[-1], piece) == best", "joined[-1] + piece == ''.join(best)",
     "same letters, and are another pair"),
    ("02", 2, "return gradient.index_add(0, ids, upstream)",
     "return gradient.index_add(0, ids, upstream) * upstream.shape[1] ** 0.5", "the factor √D"),
    ("04", 2, "math.exp(score - max(scores))",
     "math.exp(score - math.sqrt(len(query)) * max(scores))", "ZeroDivisionError"),
    ("05", 2, "dim=-1", "dim=2", "IndexError"),
    ("16", 2, "if matches == 0:", "if matches / total == 0:", "ZeroDivisionError"),
    ("10", 2, "padding_mask(ids)", "padding_mask(ids[:1])", "its own padding"),
    ("10", 2, "padding_mask(ids)", "padding_mask(torch.cat([src, tgt.clamp(min=1)], dim=1))",
     "behind the target"),
    ("10", 2, "InputEmbedding(src_vocab_size, ", "InputEmbedding(tgt_vocab_size, ", "which vocab"),
    ("10", 2, "InputEmbedding(tgt_vocab_size, ", "InputEmbedding(src_vocab_size, ", "which vocab"),
    ("15", 2, "split_rows(batch, parts)", "[batch]", "worked through in `parts` parts"),
    ("15", 2, "split_rows(batch, parts)", "split_rows(batch, tokens)", "in `parts` parts"),
    ("15", 2, "LabelSmoothing(0)), dev_batches)", "LabelSmoothing(0)), batches)",
     "of all dev batches"),
    ("15", 2, "return losses, evaluate(BatchLoss(model, LabelSmoothing(0)), dev_batches)",
     "dev = evaluate(BatchLoss(model, LabelSmoothing(0)), dev_batches); model.train()\n"
     "    return losses, dev", "it was in eval mode before"),
    ("15", 3, "for gradient in gradients:\n            gradient.mul_(max_norm / norm)",
     "for one in [one for one in parameters if one.grad is not None]:\n"
     "            one.grad = one.grad * max_norm / norm", "in place"),
    ("15", 3, "    if norm > max_norm:\n", "    for max_norm in [min(max_norm, norm)]:\n",
     "gradients of size 0"),
]  # fmt: skip

# and right ones in another form
RIGHT = [
    ("05", 3, "return (g * y).sum(dim=0), g.sum(dim=0)", "return [(g * y).sum(0), g.sum(0)]"),
    ("05", 3, "return", "g, y = g.float(), y.float(); return"),
    ("10", 2, "Generator(", "nn.Linear("),
    ("11", 3, "for matrix in (layer.self_attention.output.weight, layer.feed_forward.outer.weight):"
     "\n                matrix.mul_((2 * len(encoder.layers)) ** -0.5)",
     "for last in (layer.self_attention.output, layer.feed_forward.outer):\n                "
     "last.weight = torch.nn.Parameter(last.weight * (2 * len(encoder.layers)) ** -0.5)"),
    ("12", 2, ".sum()", ".sum().item()"),
    ("13", 3, "sum((part.tgt_out != PAD).sum() for part in parts)",
     "sum(BatchLoss(model, criterion)(part)[1] for part in parts)"),
    ("14", 2, "math.cos(math.pi * t)", "torch.cos(torch.tensor(math.pi * t))"),
    ("14", 3, "m = 0.9 * m + 0.1 * gradient\n    v = 0.98 * v + 0.02 * gradient**2",
     "m.mul_(0.9).add_(0.1 * gradient); v.mul_(0.98).add_(0.02 * gradient**2)"),
    ("15", 2, "tokens, total = (batch.tgt_out != PAD).sum(), 0.0",
     "with torch.no_grad(): _, tokens = batch_loss(batch)\n        total = 0.0"),
    ("15", 2, "tokens, total = (batch.tgt_out != PAD).sum(), 0.0",
     "tokens = sum(batch_loss(part)[1] for part in split_rows(batch, parts))\n        total = 0.0"),
]  # fmt: skip


@pytest.fixture(params=WRONG, ids=lambda key: f"{key[0]}-{key[1]}")
def exercise(request):
    return read_exercise(request.param)


def read_exercise(key):
    """The key, what runs before the exercise, and its hole, check and solution."""
    notebook, number = key
    path = NOTEBOOKS[int(notebook)]
    return key, namespace(path), exercises(path)[number - 1]


def answer(names, code, check, capsys):
    """What the check prints about this code."""
    verdict(names, code, check)
    return capsys.readouterr().out.strip()


def test_every_exercise_has_a_typical_wrong_answer():
    assert list(WRONG) == [
        (path.stem[:2], number + 1) for path in NOTEBOOKS for number in range(len(exercises(path)))
    ]


def test_hole_error_solution_and_wrong_answer_are_told_apart(exercise, capsys):
    key, names, (hole, check, solution) = exercise
    name = f"Exercise {key[1]}"
    assert answer(names, hole, check, capsys) == f"{name}: not filled yet"
    broken = hole.replace("raise NotImplementedError", "raise KeyError('my slip')")
    stopped = f"{name}: not yet. It stopped with KeyError: 'my slip'"
    assert answer(names, broken, check, capsys) == stopped
    # a check may show what it found before it says so
    assert answer(names, solution, check, capsys).splitlines()[-1] == f"{name}: right"
    part, mistake, hint = WRONG[key]
    assert part in solution
    printed = answer(names, solution.replace(part, mistake), check, capsys)
    assert printed.startswith(f"{name}: not yet. ")
    assert hint in printed


@pytest.mark.parametrize("notebook, number, part, mistake, hint", LOOK_RIGHT)
def test_an_answer_that_looks_right_is_told_apart(notebook, number, part, mistake, hint, capsys):
    _, names, (_, check, solution) = read_exercise((notebook, number))
    assert solution.count(part) == 1
    printed = answer(names, solution.replace(part, mistake), check, capsys)
    assert "not yet." in printed and hint in printed


@pytest.mark.parametrize("notebook, number, part, other", RIGHT)
def test_a_right_answer_in_another_form_is_right(notebook, number, part, other, capsys):
    _, names, (_, check, solution) = read_exercise((notebook, number))
    assert solution.count(part) == 1
    assert answer(names, solution.replace(part, other), check, capsys).endswith(": right")


def test_every_assert_of_a_check_says_what_is_wrong():
    checks = [one.check for path in NOTEBOOKS for one in exercises(path)]
    nodes = [node for check in checks for node in ast.walk(ast.parse(check))]
    asserts = [node for node in nodes if isinstance(node, ast.Assert)]
    assert asserts
    assert [ast.unparse(node) for node in asserts if node.msg is None] == []
