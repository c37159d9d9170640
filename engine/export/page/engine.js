// The model of the course once more, in plain JavaScript: what the translating page computes with.
// Lessons 02 to 10 and 16 say why. A vector is a Float32Array, a sentence a list of vectors.
// tests/test_translating_page.py compares this file with the course's own classes.

const [PAD, UNK, BOS, EOS] = [0, 1, 2, 3];
const LOOKAHEAD = 5; // tokens that a live hypothesis is given to catch up

/** All numbers of 16 bits as floating-point numbers: sign, 5 bits of exponent, 10 of fraction. */
const HALVES = Float32Array.from({ length: 65536 }, (_, bits) => {
  const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = (bits & 1023) / 1024;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction) : 2 ** -14 * fraction);
});

const add = (x, y) => x.map((value, index) => value + y[index]);

/** Of scores of which -Infinity are masked; where all are, all weights are 0, as in lesson 04. */
function softmax(scores) {
  const highest = scores.reduce((one, other) => Math.max(one, other), -Infinity);
  if (highest === -Infinity) return scores.map(() => 0);
  const powers = scores.map((score) => Math.exp(score - highest));
  const sum = powers.reduce((one, other) => one + other, 0);
  return powers.map((power) => power / sum);
}

/** The numbers of the highest values, highest first. */
function highest(values, count) {
  const best = [];
  for (let number = 0; number < values.length; number++) {
    if (best.length === count && values[number] <= values[best[count - 1]]) continue;
    let place = best.length;
    while (place && values[best[place - 1]] < values[number]) place--;
    best.splice(place, 0, number);
    if (best.length > count) best.pop();
  }
  return best;
}

/**
 * Of the tokens of a text, the quotes that close though they open elsewhere, or the other way round,
 * and those that open and close by turns.
 */
function quotesThatTurn(tokens) {
  const count = (quote) => tokens.filter((token) => token === quote).length;
  const turned = ["„“", "‚‘"].filter(([low]) => tokens.includes(low)).map(([, high]) => high);
  const byTurns = count("'") % 2 ? ['"'] : ['"', "'"];
  for (const [left, right] of ["«»", "‹›", "“”"]) {
    const [lefts, rights] = [count(left), count(right)];
    if (lefts === 0 && rights % 2 === 0 && !tokens.includes("„")) byTurns.push(right);
    const inward = lefts > 0 && lefts === rights && tokens.indexOf(right) < tokens.indexOf(left);
    if (left !== "“" && inward) turned.push(left, right);
  }
  return [new Set(turned), new Set(byTurns)];
}

/** The numbers of a base64 text that holds numbers of 16 bits. */
function halves(text) {
  const digits = new Uint8Array(128);
  [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].forEach((digit, value) => (digits[digit.charCodeAt(0)] = value));
  const bytes = new Uint8Array((text.length / 4) * 3);
  for (let from = 0, to = 0; from < text.length; from += 4, to += 3) {
    const digit = (place) => digits[text.charCodeAt(from + place)];
    const bits = (digit(0) << 18) | (digit(1) << 12) | (digit(2) << 6) | digit(3);
    [bytes[to], bytes[to + 1], bytes[to + 2]] = [bits >> 16, bits >> 8, bits];
  }
  const values = new Float32Array(bytes.length >> 1);
  for (let number = 0; number < values.length; number++) values[number] = HALVES[bytes[2 * number] | (bytes[2 * number + 1] << 8)];
  return values;
}

class Model {
  /** `file`: settings, tokens and weights, as page_form.py writes them. */
  constructor(file) {
    Object.assign(this, file.settings, { broken: {}, weights: {}, shapes: {} });
    const numbers = halves(file.weights);
    for (const [name, [start, ...shape]] of Object.entries(file.tensors)) {
      const end = shape.reduce((size, count) => size * count, 1) + start;
      if (end > numbers.length) throw new Error(`${name} is cut short`);
      this.weights[name] = numbers.subarray(start, end);
      this.shapes[name] = shape;
    }
    this.ids = new Map(this.source.map((token, number) => [token, number]));
    this.pattern = new RegExp(this.token, "gu");
    this.blanks = new RegExp(this.blank, "gu");
    this.apostrophes = new RegExp(this.apostrophe, "gu");
    this.invisibles = new RegExp(this.invisible, "gu");
  }

  /**
   * The same model with something broken, `positions: false` (lesson 03) or `mask: false` (09), or
   * with other weights.
   */
  but(broken, weights = this.weights) {
    return Object.assign(Object.create(Model.prototype), this, { broken, weights });
  }

  // lesson 01

  segment(text) {
    // then the hyphen that breaks no line
    const visible = text.replace(this.invisibles, "");
    const hyphens = visible.normalize("NFC").replaceAll("\u2011", "-");
    const straight = hyphens.replace(this.apostrophes, "'");
    const plain = straight.replace(/./gsu, (sign) => this.quotes[sign] ?? sign);
    const line = plain.replace(this.blanks, " ").trim();
    return (this.lowercase ? line.toLowerCase() : line).match(this.pattern) || [];
  }

  /** The ids that the encoder reads: the tokens', cut to the longest input, and EOS. */
  encode(text) {
    const ids = this.segment(text).map((token) => this.ids.get(token) ?? UNK);
    return [...ids.slice(0, this.max_length), EOS];
  }

  /** Whether a text is longer than the longest input. */
  isCut(text) {
    return this.segment(text).length > this.max_length;
  }

  /** The text of these target ids. */
  text(ids) {
    const tokens = ids.filter((id) => id > EOS).map((id) => this.target[id]);
    if (!this.spaced) return tokens.join("");
    let [text, glue, address] = ["", true, false];
    const [turned, byTurns] = quotesThatTurn(tokens);
    const counts = Object.fromEntries([...byTurns].map((quote) => [quote, 0]));
    const isNumber = (sign) => /\p{Nd}/u.test(sign ?? "");
    for (const [place, token] of tokens.entries()) {
      let [opening, closing] = [this.opening.includes(token), this.closing.includes(token)];
      if (turned.has(token)) [opening, closing] = [closing, opening];
      const number = isNumber([...(tokens[place + 1] ?? "")][0]);
      const behindNumber = isNumber([...(tokens[place - 1] ?? "")].at(-1));
      if (token === "—") opening = closing = this.dash;
      else if (/\p{Sc}$/u.test(token)) opening = number;
      else if (token === "~") opening = number && !behindNumber;
      else if (token === "/" && number && behindNumber) opening = closing = false;
      if (byTurns.has(token)) {
        opening = ++counts[token] % 2 === 1;
        closing = !opening;
      }
      glue = (glue || closing) && !(address && /[\p{L}\p{N}/]/u.test(token));
      text += glue ? token : ` ${token}`;
      address = /:\/\/|^www[.]/.test(token) || (address && glue);
      glue = opening;
    }
    return text;
  }

  // lessons 02 to 07

  embed(table, id, position) {
    const { d_model } = this, from = this.weights[table].subarray(id * d_model, (id + 1) * d_model);
    return from.map((value, column) => {
      const angle = position / 10000 ** ((column - (column % 2)) / d_model);
      const wave = this.broken.positions === false ? 0 : column % 2 ? Math.cos(angle) : Math.sin(angle);
      return value * Math.sqrt(d_model) + wave;
    });
  }

  /** Matrix times vector, plus its bias if there is one, or another one. */
  linear(name, x, bias = this.weights[`${name}.bias`]) {
    const matrix = this.weights[`${name}.weight`], width = x.length;
    const y = new Float32Array(matrix.length / width);
    for (let row = 0, place = 0; row < y.length; row++) {
      let one = 0, two = 0, three = 0, four = 0; // four sums that do not wait for each other
      for (let column = 0; column < width; column += 4, place += 4) {
        one += matrix[place] * x[column];
        two += matrix[place + 1] * x[column + 1];
        three += matrix[place + 2] * x[column + 2];
        four += matrix[place + 3] * x[column + 3];
      }
      y[row] = one + two + three + four + (bias ? bias[row] : 0);
    }
    return y;
  }

  norm(name, x) {
    const weight = this.weights[`${name}.weight`], bias = this.weights[`${name}.bias`];
    const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
    const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
    const scale = 1 / Math.sqrt(variance + 1e-5);
    return x.map((value, index) => (value - mean) * scale * weight[index] + bias[index]);
  }

  /** Every vector of `rows` with the sublayer's answer added; the norm before it, or after. */
  sublayer(name, rows, compute) {
    if (this.norm_place === "pre") {
      const answers = compute(rows.map((x) => this.norm(`${name}.norm`, x)));
      return rows.map((x, row) => add(x, answers[row]));
    }
    const answers = compute(rows);
    return rows.map((x, row) => this.norm(`${name}.norm`, add(x, answers[row])));
  }

  /** One query over keys and values but the `masked` keys: the output, and the weights of each head. */
  attend(name, query, keys, values, masked = []) {
    const size = this.d_model / this.num_heads, mixed = new Float32Array(this.d_model), weights = [];
    for (let start = 0; start < this.d_model; start += size) {
      const scores = keys.map((key, number) => {
        if (masked.includes(number)) return -Infinity;
        let sum = 0;
        for (let place = start; place < start + size; place++) sum += query[place] * key[place];
        return sum / Math.sqrt(size);
      });
      const shares = softmax(scores);
      shares.forEach((share, number) => {
        for (let place = start; place < start + size; place++) mixed[place] += share * values[number][place];
      });
      weights.push(shares);
    }
    return [this.linear(`${name}.output`, mixed), weights];
  }

  /**
   * Self-attention of new rows, behind those in `past`; with `mask` a row sees none behind it, and
   * `masked` lists further keys that a row does not see.
   */
  look(name, rows, mask, past = { keys: [], values: [] }, masked = []) {
    const kept = {};
    for (const part of ["key", "value"]) kept[`${part}s`] = [...past[`${part}s`], ...rows.map((x) => this.linear(`${name}.${part}`, x))];
    const answers = rows.map((x, row) => {
      const end = mask ? past.keys.length + row + 1 : undefined;
      return this.attend(name, this.linear(`${name}.query`, x), kept.keys.slice(0, end), kept.values.slice(0, end), masked[row]);
    });
    return [answers.map(([answer]) => answer), answers.map(([, weights]) => weights), kept];
  }

  forward(name, rows) {
    return rows.map((x) => this.linear(`${name}.outer`, this.linear(`${name}.inner`, x).map((value) => Math.max(0, value))));
  }

  // lessons 08 to 10

  /**
   * Reads source ids once: {memory, stages, maps: [layer][query][head][key], ...}. The stages are the
   * vectors of all tokens: as they come in, behind each sublayer, and at last the memory.
   *
   * `change.patch`, {stage, place, vector}, puts another vector there; `change.masked` lists for a
   * word the words that it does not attend to, `change.hidden` those that the decoder does not see.
   */
  read(ids, { patch = null, masked = [], hidden = [] } = {}) {
    const stages = [], maps = [];
    const behind = (rows) => {
      const here = patch?.stage === stages.length;
      stages.push(here ? rows.map((x, place) => (place === patch.place ? patch.vector : x)) : rows);
      return stages.at(-1);
    };
    let rows = behind(ids.map((id, position) => this.embed("src_embedding.lookup.weight", id, position)));
    for (let layer = 0; layer < this.num_layers; layer++) {
      const name = `encoder.layers.${layer}`;
      rows = behind(this.sublayer(`${name}.sublayers.0`, rows, (x) => {
        const [answers, weights] = this.look(`${name}.self_attention`, x, false, undefined, masked);
        maps.push(weights);
        return answers;
      }));
      rows = behind(this.sublayer(`${name}.sublayers.1`, rows, (x) => this.forward(`${name}.feed_forward`, x)));
    }
    const memory = behind(this.norm_place === "pre" ? rows.map((x) => this.norm("encoder.norm", x)) : rows);
    const cross = maps.map((_, layer) => {
      const all = (part) => memory.map((x) => this.linear(`decoder.layers.${layer}.cross_attention.${part}`, x));
      return { keys: all("key"), values: all("value") };
    });
    return { memory, stages, maps, cross, hidden, limit: Math.min(2 * ids.length + 10, this.max_length + 1) };
  }

  /**
   * Reads target ids behind `past`, an earlier answer of this method, and gives {logs: of what may
   * follow, own and cross: maps as above, stream: the last vector as the sublayers add to it, ...}.
   * PAD, UNK and BOS never follow. Nothing is changed, so a text can be continued in two ways.
   */
  write(read, ids, past = { ids: [], kept: [] }) {
    const all = [...past.ids, ...ids], mask = this.broken.mask !== false;
    if (!mask) [ids, past] = [all, { ids: [], kept: [] }]; // what was read before would see what is new
    let rows = ids.map((id, row) => this.embed("tgt_embedding.lookup.weight", id, past.ids.length + row));
    const kept = [], own = [], cross = [], stream = [rows.at(-1)];
    for (let layer = 0; layer < this.num_layers; layer++) {
      const name = `decoder.layers.${layer}`;
      rows = this.sublayer(`${name}.sublayers.0`, rows, (x) => {
        const [answers, weights, keep] = this.look(`${name}.self_attention`, x, mask, past.kept[layer]);
        own.push(weights);
        kept.push(keep);
        return answers;
      });
      stream.push(rows.at(-1));
      rows = this.sublayer(`${name}.sublayers.1`, rows, (x) => {
        const { keys, values } = read.cross[layer], part = `${name}.cross_attention`;
        const answers = x.map((row) => this.attend(part, this.linear(`${part}.query`, row), keys, values, read.hidden));
        cross.push(answers.map(([, weights]) => weights));
        return answers.map(([answer]) => answer);
      });
      stream.push(rows.at(-1));
      rows = this.sublayer(`${name}.sublayers.2`, rows, (x) => this.forward(`${name}.feed_forward`, x));
      stream.push(rows.at(-1));
    }
    const last = this.norm_place === "pre" ? this.norm("decoder.norm", rows.at(-1)) : rows.at(-1);
    const logits = this.linear("generator.projection", last);
    logits.fill(-Infinity, 0, EOS);
    return { ids: all, kept, own, cross, stream, logits, logs: softmax([...logits]).map(Math.log) };
  }

  // searches: lessons 10 and 16

  greedy(read) {
    for (let state = this.write(read, [BOS]); ; ) {
      const [id] = state.ids.length < read.limit ? highest(state.logs, 1) : [EOS];
      if (id === EOS) return [...state.ids.slice(1), EOS];
      state = this.write(read, [id], state);
    }
  }

  penalty(length, alpha) {
    return ((5 + length) / 6) ** alpha;
  }

  /**
   * Beam search: {ended: [{ids, total, score}] best first, steps: all that was weighed, for a picture:
   * [[{parent, id, total, place}]], where `place` is the number among the live ones of that step}.
   */
  beam(read, size, alpha = this.alpha) {
    let live = [{ state: this.write(read, [BOS]), total: 0 }];
    const ended = [], steps = [];
    for (let length = 1; ; length++) {
      const wide = live.flatMap(({ state: { logs }, total }, parent) => {
        const ids = length < read.limit ? highest(logs, 2 * size) : [EOS];
        return ids.map((id) => ({ parent, id, total: total + logs[id] }));
      });
      const candidates = highest(wide.map(({ total }) => total), 2 * size).map((number) => wide[number]);
      steps.push(candidates);
      for (const one of candidates.filter(({ id }) => id === EOS)) {
        const ids = [...live[one.parent].state.ids.slice(1), EOS];
        ended.push({ ids, total: one.total, score: one.total / this.penalty(length, alpha), step: one });
      }
      const going = candidates.filter(({ id, total }) => id !== EOS && total > -Infinity).slice(0, size);
      going.forEach((one, place) => (one.place = place));
      ended.sort((one, other) => other.score - one.score);
      const soon = this.penalty(Math.min(read.limit, length + LOOKAHEAD), alpha);
      if (!going.length || (ended.length && !(going[0].total / soon > ended[0].score))) return { ended, steps };
      live = going.map(({ parent, id, total }) => ({ state: this.write(read, [id], live[parent].state), total }));
    }
  }

  translate(sentence, size = 1) {
    const ids = this.encode(sentence), read = this.read(ids);
    if (ids.length === 1) return "";
    return this.text(size === 1 ? this.greedy(read) : this.beam(read, size).ended[0].ids);
  }
}
