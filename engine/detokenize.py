"""A text of words and punctuation. Exported folders have this file, so it imports nothing."""

OPENING = set("([{“‘¿¡$£€#")
CLOSING = set(".,;:!?)]}”’…%'")


def join_words(tokens):
    """The text of these tokens: no space before a closing mark or after an opening one.

    Straight quotes open and close by turns.
    """
    text = ""
    glue = True
    quotes = 0
    for token in tokens:
        quotes += token == '"'
        opening = token in OPENING or (token == '"' and quotes % 2 == 1)
        closing = token in CLOSING or (token == '"' and quotes % 2 == 0)
        text += token if glue or closing else " " + token
        glue = opening
    return text
