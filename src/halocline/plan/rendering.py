"""An explanation as text for a terminal, as Markdown for a pull request, and as an HTML page that stands alone."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from halocline.plan.explanation import CHANGES, COMES, GOES, Explanation, ToldLine

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1c2733; }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 1.8rem; border-bottom: 1px solid #d5dde5 }
li { list-style: none; margin: .3rem 0; padding-left: 1.4rem; text-indent: -1.4rem } ul { padding-left: .5rem }
b { display: inline-block; width: 1.4rem; font-family: monospace; text-indent: 0 }
.comes b { color: #18794e } .changes b { color: #9a6700 } .goes b { color: #c4302b }
small { display: block; text-indent: 0; color: #5c6b7a }
footer { margin-top: 2rem; padding: .8rem 1rem; background: #eef3f8; border-radius: 6px; font-weight: 600 }
"""
_CLASSES = {COMES: "comes", CHANGES: "changes", GOES: "goes", "": "remark"}


def to_text(told: Explanation) -> str:
    """For a terminal, the summary last.

    Example:
        >>> from halocline.plan.core.plan import Plan
        >>> from halocline.plan.explanation import explain
        >>> print(to_text(explain(Plan(()), title="lake")))
        lake
        <BLANKLINE>
        Plan: nothing to do.
    """
    lines = [told.title]
    for section in told.sections:
        lines += ["", section.title]
        for line in section.lines:
            lines.append(f"  {line.mark or ' '} {_sentence(line)}")
            lines += [f"      {each}" for each in line.remarks]
    return "\n".join([*lines, "", told.summary])


def to_markdown(told: Explanation) -> str:
    """For a pull request; marks stand in code spans, so that they stay marks."""
    lines = [f"## {told.title}", "", f"**{told.summary}**"]
    for section in told.sections:
        lines += ["", f"### {section.title}", ""]
        for line in section.lines:
            mark = f"`{line.mark}` " if line.mark else ""
            lines.append(f"- {mark}{_escaped(_sentence(line))}")
            lines += [f"  - {_escaped(each)}" for each in line.remarks]
    return "\n".join([*lines, ""])


def to_html(told: Explanation) -> str:
    """A page without anything from elsewhere."""
    return "\n".join(_page(told))


def _page(told: Explanation) -> Iterator[str]:
    yield "<!doctype html>"
    yield f'<html lang="en"><head><meta charset="utf-8"><title>{escape(told.title)}</title>'
    yield """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">"""
    yield f"<style>{_STYLE}</style></head><body><h1>{escape(told.title)}</h1>"
    for section in told.sections:
        yield f"<h2>{escape(section.title)}</h2><ul>"
        for line in section.lines:
            remarks = "".join(f"<small>{escape(each)}</small>" for each in line.remarks)
            yield f'<li class="{_CLASSES[line.mark]}"><b>{line.mark}</b>{escape(_sentence(line))}{remarks}</li>'
        yield "</ul>"
    yield f"<footer>{escape(told.summary)}</footer></body></html>"


def _sentence(line: ToldLine) -> str:
    return f"{line.change}  ({line.subjects})" if line.subjects else line.change


def _escaped(text: str) -> str:
    return "".join(f"\\{each}" if each in "\\`*_<>|" else each for each in text)
