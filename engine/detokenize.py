"""A text of words and punctuation. Exported folders have this file, so it imports nothing."""

# a sign that is in both has no space on either side
OPENING = set("([{“‘«¿¡$£€#/—")
CLOSING = set(".,;:!?)]}”’»…%'/—।॥،؛؟")


def join_words(tokens):
    """The text of these tokens: no space before a closing mark or after an opening one.

    Straight quotes open and close by turns; an odd single one is an apostrophe.
    """
    tokens = list(tokens)
    text = ""
    glue = True
    counts = {'"': 0, "'": 0}
    by_turns = {'"'} if tokens.count("'") % 2 else {'"', "'"}
    for token in tokens:
        opening = token in OPENING
        closing = token in CLOSING
        if token in by_turns:
            counts[token] += 1
            opening = counts[token] % 2 == 1
            closing = not opening
        text += token if glue or closing else " " + token
        glue = opening
    return text
