// The account of one step, as `ledger` of notebooks/support/story.py keeps it.

/**
 * What every part of the decoder adds to the logit of the token `one` minus that of `other`, where
 * `state`, an answer of `write`, says what comes next: [{part, layer, key, amount}], cross-attention
 * for each source word by itself. The last norm divides by the deviation of the finished vector; with
 * that number fixed the norm is linear, so the amounts add up to the difference. For models whose
 * norms stand before the sublayers.
 */
function ledger(model, read, state, one, other) {
  const { d_model, num_heads, num_layers, weights } = model;
  const product = (x, y) => x.reduce((sum, value, column) => sum + value * y[column], 0);
  const mean = (x) => x.reduce((sum, value) => sum + value, 0) / d_model;
  const centred = (x) => {
    const middle = mean(x);
    return x.map((value) => value - middle);
  };
  const row = (id) => weights["generator.projection.weight"].subarray(id * d_model, (id + 1) * d_model);
  const direction = row(one).map((value, column) => value - row(other)[column]);
  const along = direction.map((value, column) => value * weights["decoder.norm.weight"][column]);
  const finished = centred(state.stream.at(-1));
  const deviation = Math.sqrt(product(finished, finished) / d_model + 1e-5);
  const worth = (x) => product(centred(x), along) / deviation;
  const added = (stage) => state.stream[stage].map((value, column) => value - state.stream[stage - 1][column]);

  const account = [{ part: "embedding", layer: 0, amount: worth(state.stream[0]) }];
  for (let layer = 1; layer <= num_layers; layer++) {
    const output = `decoder.layers.${layer - 1}.cross_attention.output`, stage = 3 * (layer - 1);
    const heads = state.cross[layer - 1].at(-1), { values } = read.cross[layer - 1];
    account.push({ part: "self-attention", layer, amount: worth(added(stage + 1)) });
    values.forEach((vector, key) => {
      const taken = vector.map((value, column) => value * heads[Math.floor((column * num_heads) / d_model)][key]);
      account.push({ part: "cross-attention", layer, key, amount: worth(model.linear(output, taken, null)) });
    });
    account.push({ part: "bias", layer, amount: worth(weights[`${output}.bias`]) });
    account.push({ part: "feed-forward", layer, amount: worth(added(stage + 3)) });
  }
  account.push({ part: "norm", layer: num_layers, amount: product(weights["decoder.norm.bias"], direction) });
  return account;
}
