"""What people type, as they type it: on the command line, in files, in the service."""

import pytest

from engine.typed_text import sentences_of, translate_typed
from notebooks.support.box import load_pretrained

# what is typed: the sentences that it means; a last one without its mark is written without one
TYPED = {
    "He plays the violin": ["He plays the violin."],
    "He plays the violin.": ["He plays the violin."],
    "he plays the violin": ["He plays the violin."],
    "Where is the train station": ["Where is the train station?"],
    "Where is the train station？": ["Where is the train station?"],
    "However，he did not come。": ["However, he did not come."],
    "Ｗｅ ｐｌａｙ ｃｈｅｓｓ．": ["We play chess."],
    "Hello": ["hello"],
    "good morning": ["Good morning"],
    "Hello!": ["Hello!"],
    "We play chess. We play the piano.": ["We play chess.", "We play the piano."],
    "We play chess. How are you? I love you": ["We play chess.", "How are you?", "I love you."],
    "Good morning.  We play football!": ["Good morning.", "We play football!"],
    "": [],
    "   ": [],
    "We play football ": ["We play football."],
    "We play football\tevery day": ["We play football every day."],
    "Mr. Smith plays chess.": ["Mr. Smith plays chess."],
    "“We play chess.”": ['"We play chess."'],
    "We play chess.We play football.": ["We play chess.", "We play football."],
    "i like chess。where is he": ["i like chess.", "where is he?"],
    "Have a nice day": ["Have a nice day."],
}


def test_twenty_things_as_people_type_them():
    box = load_pretrained()
    for text, written in zip(TYPED, box.translate_typed(list(TYPED)), strict=True):
        expected = "".join(box.translate(TYPED[text]))
        if len(text.split()) > 2 and text.strip()[-1].isalpha():
            expected = expected[:-1]
        assert written == expected, text


@pytest.mark.parametrize(
    "text, language, sentences",
    [
        ("Is he here", "en", ["Is he here?"]), ("He is here", "en", ["He is here."]),
        ("He is here!", "en", ["He is here!"]), ('He said "yes."', "en", ['He said "yes."']),
        ("Good morning", "en", ["Good morning"]), ("Wo ist er hier", "de", ["Wo ist er hier"]),
        ("It is 3.5 km to Mr. Lee.", "en", ["It is 3.5 km to Mr. Lee."]),
        ("他来了。我走了。", "zh", ["他来了。我走了。"]), ("One. Two.", "de", ["One.", "Two."]),
        ("（Ａ）：１２？", "en", ["(A):12?"]),
        ("Have a nice day", "en", ["Have a nice day."]), ("Do you swim", "en", ["Do you swim?"]),
        ("Don't be late again", "en", ["Don't be late again."]),
        ("What a nice day", "en", ["What a nice day."]),
        ("When I was young I swam", "en", ["When I was young I swam."]),
        ("When does it begin", "en", ["When does it begin?"]),
        ("Will is my brother", "en", ["Will is my brother."]),
        ("hello。how are you", "en", ["hello.", "how are you?"]),
        ("1. Buy some milk", "en", ["1. Buy some milk."]),
        ("I love you. 😀", "en", ["I love you. 😀"]),
    ],
)  # fmt: skip
def test_sentences_of_a_line(text, language, sentences):
    assert [sentence for sentence, _ in sentences_of(text, language)] == sentences


def test_lines_stay_lines_and_keep_their_numbers():
    asked = []

    def translate(sentences, numbers):
        asked.extend(zip(numbers, sentences))
        return [f"<{sentence}>" for sentence in sentences]

    lines = ["One. Two.", "", "Three four five"]
    assert translate_typed(translate, lines, ("en", "de"), first=7) == [
        "<One.> <Two.>", "<>", "<Three four five.>"
    ]  # fmt: skip
    assert asked == [(7, "One."), (7, "Two."), (8, ""), (9, "Three four five.")]
