// What people type is made easy for the model, as engine/typed_text.py does it

const OWN_SIGNS = ["zh", "ja", "ko"]; // whose sources have a Chinese keyboard's signs themselves
const ENDED = /[.!?…:;,—-][^\p{L}\p{N}]*$/u; // perhaps with a quote or an emoji behind it
const ABBREVIATED = /\b(Mr|Mrs|Ms|Dr|St|Prof|Jr|Sr|vs|No|Mt|e\.g|i\.e|[A-Z])\.\s*$/; // that no sentence ends with
const QUESTION_WORDS = /^(what|who|whom|whose|which|where|when|why|how)$/;
const AUXILIARIES =
  /^(am|is|are|was|were|do|does|did|have|has|had|can|could|will|would|shall|should|may|might|must|(is|are|was|were|do|does|did|have|has|had|ca|could|wo|would|should)n't)$/;

/** The sentences of a text as they are to be translated: {text, added}, a mark was added or not. */
function sentencesOf(typed, language) {
  if (OWN_SIGNS.includes(language)) return [{ text: typed, added: false }];
  const spaced = typed.replace(/([。！？])(?=[\p{L}\p{N}])/gu, "$1 ").replaceAll("。", ".");
  const text = spaced.replace(/[\uFF01-\uFF5E]/g, (sign) => String.fromCharCode(sign.charCodeAt(0) - 0xfee0));
  const apart = text.replace(/(\p{Ll}{2}[.!?])(?=\p{Lu})/gu, "$1 ");
  const sentences = [];
  for (const { segment } of new Intl.Segmenter(language, { granularity: "sentence" }).segment(apart)) {
    const before = sentences.at(-1);
    const goesOn = before && (ABBREVIATED.test(before) || !/\p{L}/u.test(before) || !/\p{L}/u.test(segment));
    if (goesOn) sentences.push(sentences.pop() + segment);
    else sentences.push(segment);
  }
  const filled = sentences.map((sentence) => sentence.trim()).filter((sentence) => sentence);
  return filled.map((sentence) => withEnd(sentence, language));
}

/** Whether an English sentence that begins with these two words is a question. */
function asksWith(first, second) {
  if (["do", "don't", "have"].includes(first)) return ["i", "you", "we", "they"].includes(second);
  if (first === "what") return !["a", "an"].includes(second);
  if (first === "when") return AUXILIARIES.test(second);
  return QUESTION_WORDS.test(first) || (AUXILIARIES.test(first) && !AUXILIARIES.test(second));
}

/** An English sentence of three words and more gets an end mark if it has none. */
function withEnd(text, language) {
  const words = text.toLowerCase().replaceAll("’", "'").split(/\s+/);
  if (language !== "en" || words.length < 3 || ENDED.test(text)) return { text, added: false };
  return { text: text + (asksWith(words[0], words[1]) ? "?" : "."), added: true };
}
