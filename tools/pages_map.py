"""The map of the course as a drawing in a page: its parts are links to their lessons."""

import html
import re

from notebooks.support.course_map import ARROWS, FRAMES, LAYERS, MAP, shortcut

UNIT = 100  # of the drawing, for one of the map
LEFT = -0.1
TOP = 11.1
WIDTH = 13.0
HEIGHT = 11.2  # what of the map is seen
LINE = 25  # from one line of text to the next


def across(x):
    """A place on the map as one in the drawing."""
    return round((x - LEFT) * UNIT)


def down(y):
    """The same for a height: in a drawing it counts downwards."""
    return round((TOP - y) * UNIT)


def box(left, bottom, width, height, look):
    """A rectangle of the map; `look` is its class."""
    place = f'x="{across(left)}" y="{down(bottom + height)}"'
    size = f'width="{round(width * UNIT)}" height="{round(height * UNIT)}"'
    return f'<rect class="{look}" {place} {size} rx="10"/>'


def text(x, y, lines, look):
    """Lines of text around a height of the map."""
    first = down(y) - LINE * (len(lines) - 1) / 2
    spans = [
        f'<tspan x="{across(x)}" y="{first + LINE * number:g}">{html.escape(line)}</tspan>'
        for number, line in enumerate(lines)
    ]
    return f'<text class="{look}">{"".join(spans)}</text>'


def part(number, label, left, bottom, width, height):
    """A part of the map: its box and its name."""
    if number in FRAMES and height > 1:  # the name left of the arrow that comes in
        name, holds = (re.split(": |：", label, maxsplit=1) + [""])[:2]
        y = bottom + (height - 0.35 if number == 10 else 0.19)
        named = text(left + 0.12, y, [name], "start")
        if holds:
            named += text(left + width / 2 + 0.25, y, [holds], "start")
        return box(left, bottom, width, height, "frame") + named
    named = text(left + width / 2, bottom + height / 2, label.split("\n"), "middle")
    return box(left, bottom, width, height, "part") + named


def series_map(pages, word):
    """The map as SVG; `pages` are the lessons' pages by number, `word` translates a label."""
    lines = ARROWS + [shortcut(*place) for number, _, *place in MAP if number == 7]
    drawn = []
    for number, english, *place in MAP:
        label = word(english)
        name = html.escape(" ".join(label.split()))
        link = f'<a href="{pages[number]}" aria-label="{name}">'
        drawn.append(f"{link}{part(number, label, *place)}</a>")
    drawn += [box(*place, "layer") for place in LAYERS]
    for points in lines:
        places = " ".join(f"{across(x)},{down(y)}" for x, y in points)
        drawn.append(f'<polyline points="{places}"/>')
    size = f"0 0 {round(WIDTH * UNIT)} {round(HEIGHT * UNIT)}"
    tip = '<marker id="tip" viewBox="0 0 10 10" refX="10" refY="5" markerWidth="9" markerHeight="9"'
    tip += ' markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 10 5 0 10z"/></marker>'
    label = word("Map of the course: the parts of the Transformer by lesson")
    name = f'role="group" aria-label="{label}"'
    return f'<svg class="map" viewBox="{size}" {name}>{tip}{"".join(drawn)}</svg>'
