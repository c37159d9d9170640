// What page_reference.py compares with the course's own classes, as JSON.

function compared(file, sentences) {
  const model = new Model(file);
  const results = sentences.map((sentence) => {
    const ids = model.encode(sentence), read = model.read(ids), written = model.greedy(read);
    const states = [model.write(read, [BOS])];
    for (const id of written.slice(0, -1)) states.push(model.write(read, [id], states.at(-1)));
    const side = (name) => read.maps.map((_, layer) => states.map((state) => state[name][layer][0]));
    const logits = [...states.at(-1).logits.slice(EOS)];
    return { ids, written, text: model.text(written), beam: ids.length <= 20 ? model.translate(sentence, 4) : null, logits, encoder: read.maps, decoder: side("own"), cross: side("cross") };
  });
  return JSON.stringify(results);
}

/** The logits behind each pair's target ids, where the decoder is given all of them. */
function forced(file, pairs) {
  const model = new Model(file);
  const results = pairs.map(([src, tgt]) => {
    const read = model.read([...src, EOS]);
    const last = tgt.reduce((state, id) => model.write(read, [id], state), model.write(read, [BOS]));
    return [...last.logits.slice(EOS)];
  });
  return JSON.stringify(results);
}
