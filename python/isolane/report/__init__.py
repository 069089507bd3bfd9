"""Reports: a run folder as a page, a picture, a document or a table."""

from isolane.report.render import FORMATS, render

__all__ = ["FORMATS", "render"]
