// 7 Why: what the parts of the decoder added to one token's logit and not to another's

const SHOWN_PARTS = 8;

/** What a part of an account is called. */
function partName({ part, layer, key }, words) {
  const names = {
    embedding: () => _("embedding and position"),
    "self-attention": () => _("self-attention {}", layer),
    "cross-attention": () => _("cross-attention {} from {}", layer, words[key]),
    "feed-forward": () => _("feed-forward {}", layer),
    bias: () => _("bias of cross-attention {}", layer),
    norm: () => _("bias of the last norm"),
  };
  return names[part]();
}

/** The bars of an account, each beginning where the one above ends; a touched one lights its word. */
function accountBars(words, read, state, one, other) {
  const account = ledger(model, read, state, one, other);
  account.sort((x, y) => Math.abs(y.amount) - Math.abs(x.amount));
  const rest = account.slice(SHOWN_PARTS);
  const sum = (parts) => parts.reduce((total, { amount }) => total + amount, 0);
  const bars = account.slice(0, SHOWN_PARTS).map((part) => ({ ...part, name: partName(part, words) }));
  bars.push({ amount: sum(rest), name: _("the {} other parts", rest.length) });
  let end = 0;
  for (const bar of bars) [bar.from, bar.to] = [end, (end += bar.amount)];
  const edges = [0, ...bars.map(({ to }) => to)], lowest = Math.min(...edges), width = Math.max(...edges) - lowest || 1;
  const place = (value) => `${(100 * (value - lowest)) / width}%`;
  const lit = make("div"), buttons = [];
  const light = (chosen) => {
    buttons.forEach((button, number) => button.setAttribute("aria-pressed", String(number === chosen)));
    const { part, layer, key } = bars[chosen];
    const heads = part === "cross-attention" ? state.cross[layer - 1].at(-1) : [];
    const weights = heads.length ? heads[0].map((_, word) => heads.reduce((total, head) => total + head[word], 0) / heads.length) : [];
    const below = words.map((_, word) => (weights.length ? percent(weights[word]) : ""));
    const list = wordList(words, below, weights);
    if (weights.length) list.children[key].classList.add("touched");
    const text = weights.length ? _("attention weights of layer {}, mean of its heads", layer) : _("this part reads no English word");
    lit.replaceChildren(list, line(make("span", { class: "soft" }, text)));
  };
  bars.forEach(({ from, to, amount, name }, number) => {
    const bar = make("i", { class: amount < 0 ? "against" : "", style: `left: ${place(Math.min(from, to))}; width: calc(${place(lowest + Math.abs(amount))} + 1px)` });
    const attributes = { "aria-label": `${name}: ${signed(amount)}`, onclick: () => light(number), onfocus: () => light(number), onmouseenter: () => light(number) };
    buttons.push(make("button", attributes, make("span", {}, name), make("span", { class: "track" }, bar), make("em", {}, signed(amount))));
  });
  light(0);
  const difference = state.logits[one] - state.logits[other];
  const total = _("Together {}, and the logits differ by {}: {} is {} times as likely as {}.", signed(sum(account)), signed(difference), sign(one), times(Math.exp(difference)), sign(other));
  return make("div", {}, lit, make("div", { class: "account answer" }, ...buttons), line(make("b", {}, total)));
}

const signed = (value) => (value < 0 ? number(value) : `+${number(value)}`);
const times = (ratio) => (ratio >= 10 ? Math.round(ratio).toLocaleString("en") : ratio.toPrecision(2));

const verbs = () => [..."弹踢打下拉玩"].map((verb) => model.target.indexOf(verb)).filter((id) => id > EOS);

/** The step to begin with: where the verb is written, else where the model was least sure. */
function firstStep({ ids, states }) {
  const found = ids.findIndex((id) => verbs().includes(id));
  const sure = ids.map((id, step) => states[step].logs[id]);
  return found >= 0 ? found : sure.indexOf(Math.min(...sure));
}

function accounting(source, step = -1, rival = -1) {
  const all = written(source.read);
  const at = all.ids[step] === undefined ? firstStep(all) : step;
  const state = all.states[at], one = all.ids[at];
  const likely = highest(state.logs, CHOICES + 1).filter((id) => id !== one).slice(0, CHOICES);
  const rivalVerbs = verbs().includes(one) ? verbs().filter((id) => id !== one) : [];
  rivalVerbs.sort((x, y) => state.logs[y] - state.logs[x]);
  const other = state.logs[rival] > -Infinity && rival !== one ? rival : (rivalVerbs[0] ?? likely[0]);
  const exact = model.norm_place === "pre";
  const signs = all.ids.map((id, place) =>
    make("button", { "aria-pressed": String(place === at), onclick: () => go(accounting(source, place)) }, foreign(sign(id)), " ", make("small", {}, gloss(id))),
  );
  const rivals = [...new Set([other, ...likely])].map((id) =>
    make("button", { "aria-pressed": String(id === other), onclick: () => go(accounting(source, at, id)) }, foreign(sign(id)), " ", make("small", {}, gloss(id))),
  );
  const draw = () => [
    heading(_("Ledger: what made it {} and not {}", named(one), named(other))),
    ways(source, 1),
    row(make("span", {}, _("written")), ...signs),
    row(make("span", {}, _("instead of")), ...rivals),
    exact
      ? accountBars(source.words, source.read, state, one, other)
      : line(_("The norms of this model stand behind its sublayers, so what they add is no sum.")),
    exact ? line(make("span", { class: "soft" }, _("Each bar begins where the one above it ends. It is what a part added to the logit of the first token minus that of the second."))) : "",
  ];
  return {
    scene: 5,
    source,
    address: () => addressOf("why", "ledger", source.sentence, at, other),
    say: _("What made it {} and not {}", named(one), named(other)),
    draw,
    next: () => cutting(source),
  };
}
