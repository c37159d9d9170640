// What people type is made easy for the model, as engine/typed_text.py does it

const OWN_SIGNS = ["zh", "ja", "ko"]; // whose sources have a Chinese keyboard's signs themselves
const ENDED = /[.!?…:;,—-]["'”’»)\]]*$/u;
const ABBREVIATED = /\b(Mr|Mrs|Ms|Dr|St|Prof|Jr|Sr|vs|No|Mt|e\.g|i\.e|[A-Z])\.\s*$/; // that no sentence ends with
const QUESTION =
  /^(what|who|whom|whose|which|where|when|why|how|am|is|are|was|were|do|does|did|have|has|had|can|could|will|would|shall|should|may|might|must|(is|are|was|were|do|does|did|have|has|had|ca|could|wo|would|should)n['’]t)$/i;

/** The sentences of a text as they are to be translated: {text, added}, a mark was added or not. */
function sentencesOf(typed, language) {
  if (OWN_SIGNS.includes(language)) return [{ text: typed, added: false }];
  const text = typed.replace(/[\uFF01-\uFF5E]/g, (sign) => String.fromCharCode(sign.charCodeAt(0) - 0xfee0));
  const spaced = text.replaceAll("。", ".").replace(/(\p{L}{2}[.!?])(?=\p{Lu})/gu, "$1 ");
  const pieces = new Intl.Segmenter(language, { granularity: "sentence" }).segment(spaced);
  const sentences = [];
  for (const { segment } of pieces) {
    if (ABBREVIATED.test(sentences.at(-1) ?? "")) sentences.push(sentences.pop() + segment);
    else sentences.push(segment);
  }
  const filled = sentences.map((sentence) => sentence.trim()).filter((sentence) => sentence);
  return filled.map((sentence) => withEnd(sentence, language));
}

/** An English sentence of three words and more gets an end mark if it has none. */
function withEnd(text, language) {
  const words = text.split(/\s+/);
  if (language !== "en" || words.length < 3 || ENDED.test(text)) return { text, added: false };
  return { text: text + (QUESTION.test(words[0]) ? "?" : "."), added: true };
}
