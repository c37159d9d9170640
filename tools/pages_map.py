"""The map of the course as a drawing in a page: its parts are links to their lessons."""

import html
import re

from markupsafe import Markup

from notebooks.support.course_map import ARROWS, FRAMES, LAYERS, MAP, shortcut

UNIT = 100  # of the drawing, for one of the map
LINE = 25  # from one line of text to the next
TIP = """<marker id="tip" viewBox="0 0 10 10" refX="10" refY="5" markerWidth="9" markerHeight="9"
markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 10 5 0 10z"/></marker>"""


def place(x, y):
    """A point of the map in the drawing, where heights count downwards."""
    return round((x + 0.1) * UNIT), round((11.1 - y) * UNIT)


def box(left, bottom, width, height, look):
    """A rectangle of the map; `look` is its class."""
    x, y = place(left, bottom + height)
    size = f'width="{round(width * UNIT)}" height="{round(height * UNIT)}"'
    return f'<rect class="{look}" x="{x}" y="{y}" {size} rx="10"/>'


def text(x, y, words, look):
    """Lines of text around a height of the map."""
    lines = html.escape(words).split("\n")
    x, y = place(x, y)
    y -= LINE * (len(lines) - 1) / 2
    spans = (f'<tspan x="{x}" y="{y + LINE * n:g}">{line}</tspan>' for n, line in enumerate(lines))
    return f'<text class="{look}">{"".join(spans)}</text>'


def part(number, label, left, bottom, width, height):
    """A part of the map: its box and its name."""
    if number not in FRAMES or height < 1:
        name = text(left + width / 2, bottom + height / 2, label, "middle")
        return box(left, bottom, width, height, "part") + name
    # the name left of the arrow that comes in, what it holds on the right
    y = bottom + (height - 0.35 if number == 10 else 0.19)
    name, *holds = re.split(": |：", label, maxsplit=1)
    names = [text(left + 0.12, y, name, "start")]
    names += [text(left + width / 2 + 0.25, y, held, "start") for held in holds]
    return box(left, bottom, width, height, "frame") + "".join(names)


def series_map(pages, word):
    """The map as SVG; `pages` are the lessons' pages by number, `word` translates a label."""
    drawn = []
    for number, english, *place_of_part in MAP:
        label = word(english)
        name = html.escape(" ".join(label.split()))
        link = f'<a href="{pages[number]}" aria-label="{name}">'
        drawn.append(f"{link}{part(number, label, *place_of_part)}</a>")
    drawn += [box(*layer, "layer") for layer in LAYERS]
    for line in ARROWS + [shortcut(*where) for number, _, *where in MAP if number == 7]:
        points = " ".join(f"{x},{y}" for x, y in (place(*point) for point in line))
        drawn.append(f'<polyline points="{points}"/>')
    label = word("Map of the course: the parts of the Transformer by lesson")
    about = f'class="map" viewBox="0 0 1300 1120" role="group" aria-label="{label}"'
    return Markup(f"<svg {about}>{TIP}{''.join(drawn)}</svg>")
