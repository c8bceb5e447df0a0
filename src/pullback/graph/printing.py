"""Graphs as text and as pictures."""

from collections.abc import Sequence
from html import escape

from .op import Apply
from .variable import Constant, SharedVariable, Variable
from .walk import toposort


def debugprint(outputs: Variable | Sequence[Variable]) -> str:
    """The graph as an indented tree, one node a line with its output type; a node met again is shown by its id."""
    lines: list[str] = []
    ids: dict[Apply, int] = {}
    stack = [(v, 0) for v in reversed(_as_list(outputs))]
    while stack:
        v, depth = stack.pop()
        node = v.owner
        text = " |" * depth + (" " if depth else "")
        if node is None:
            lines.append(f"{text}{v!r} <{v.type}>")
            continue
        label = f"{node.op}" + (f".{v.index}" if len(node.outputs) > 1 else "")
        name = f" '{v.name}'" if v.name else ""
        if node in ids:
            lines.append(f"{text}{label} [id {ids[node]}] (above)")
            continue
        ids[node] = len(ids)
        lines.append(f"{text}{label} [id {ids[node]}] <{v.type}>{name}")
        stack.extend((x, depth + 1) for x in reversed(node.inputs))
    return "\n".join(lines)


def to_dot(outputs: Variable | Sequence[Variable]) -> str:
    """The graph in Graphviz' DOT language."""
    boxes, arrows = _picture(outputs)
    lines = ["digraph pullback {", "  rankdir=TB; node [fontname=Helvetica, fontsize=10];"]
    for key, (label, kind) in boxes.items():
        style = {"op": "shape=box, style=rounded", "output": "shape=box, style=bold"}.get(kind, "shape=ellipse")
        quoted = label.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'  {key} [label="{quoted}", {style}];')
    for a, b, label in arrows:
        lines.append(f'  {a} -> {b} [label="{label}", fontsize=8];')
    return "\n".join([*lines, "}"])


def to_svg(outputs: Variable | Sequence[Variable]) -> str:
    """The graph as a standalone SVG picture: inputs at the top, outputs at the bottom, one layer per depth."""
    boxes, arrows = _picture(outputs)
    depth = dict.fromkeys(boxes, 0)
    for a, b, _ in arrows:  # arrows come in topological order of their target
        depth[b] = max(depth[b], depth[a] + 1)
    layers: dict[int, list[str]] = {}
    for key in boxes:
        layers.setdefault(depth[key], []).append(key)
    box_width, box_height, gap_x, gap_y = 170, 30, 20, 46
    width = max(len(keys) for keys in layers.values()) * (box_width + gap_x) + gap_x
    height = (max(layers) + 1) * (box_height + gap_y) + gap_y
    centre: dict[str, tuple[float, float]] = {}
    for level, keys in layers.items():
        left = (width - len(keys) * (box_width + gap_x) + gap_x) / 2
        for i, key in enumerate(keys):
            centre[key] = (left + i * (box_width + gap_x) + box_width / 2, gap_y + level * (box_height + gap_y))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        'font-family="Helvetica,Arial,sans-serif" font-size="11">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#667"/></marker></defs>',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for a, b, label in arrows:
        (x1, y1), (x2, y2) = centre[a], centre[b]
        y1, y2 = y1 + box_height / 2, y2 - box_height / 2
        parts.append(
            f'<path d="M{x1:.0f},{y1:.0f} C{x1:.0f},{y1 + gap_y / 2:.0f} {x2:.0f},{y2 - gap_y / 2:.0f} '
            f'{x2:.0f},{y2:.0f}" fill="none" stroke="#99a" marker-end="url(#tip)"><title>{escape(label)}</title></path>'
        )
    fill = {"op": "#eef3fb", "output": "#fbe9d0", "constant": "#f2f2f2", "shared": "#e3f3e3", "input": "#fff7d6"}
    for key, (label, kind) in boxes.items():
        x, y = centre[key]
        short = label if len(label) <= 26 else label[:25] + "…"
        parts.append(
            f'<g><title>{escape(label)}</title><rect x="{x - box_width / 2:.0f}" y="{y - box_height / 2:.0f}" '
            f'width="{box_width}" height="{box_height}" rx="6" fill="{fill[kind]}" stroke="#889"/>'
            f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle">{escape(short)}</text></g>'
        )
    return "\n".join([*parts, "</svg>"])


def _picture(outputs: Variable | Sequence[Variable]):
    """Boxes {id: (label, kind)} and arrows (from, to, type) in topological order."""
    roots = _as_list(outputs)
    boxes: dict[str, tuple[str, str]] = {}
    arrows: list[tuple[str, str, str]] = []
    ids: dict[object, str] = {}

    def leaf(v: Variable) -> str:
        if v not in ids:
            ids[v] = f"v{len(ids)}"
            kind = "constant" if isinstance(v, Constant) else "shared" if isinstance(v, SharedVariable) else "input"
            boxes[ids[v]] = (repr(v) if v.name or kind == "constant" else f"{v.type}", kind)
        return ids[v]

    for node in toposort(roots):
        inputs = [leaf(v) if v.owner is None else ids[v.owner] for v in node.inputs]
        ids[node] = f"n{len(ids)}"
        boxes[ids[node]] = (str(node.op), "op")
        arrows += [(a, ids[node], str(v.type)) for a, v in zip(inputs, node.inputs)]
    for i, v in enumerate(roots):
        source = leaf(v) if v.owner is None else ids[v.owner]
        boxes[f"o{i}"] = (v.name or f"output {i}", "output")
        arrows.append((source, f"o{i}", str(v.type)))
    return boxes, arrows


def _as_list(outputs: Variable | Sequence[Variable]) -> list[Variable]:
    return [outputs] if isinstance(outputs, Variable) else list(outputs)
