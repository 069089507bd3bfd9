"""The report as one HTML file that opens offline."""

from __future__ import annotations

from datetime import UTC, datetime

from isolane.analysis.objective_words import objective_lines
from isolane.analysis.quality_words import drift_words, lost_words, quality_words
from isolane.analysis.table_rows import older_method
from isolane.report import arm_tables, fact_lists, tables
from isolane.report.answer_box import answer_box
from isolane.report.assets import environment, with_plots
from isolane.report.box_figure import box_figure
from isolane.report.drawing import draw
from isolane.report.figures import figures
from isolane.report.floor_table import NOTE, null_dut
from isolane.report.loaded_run import Run
from isolane.report.over_time import over_time
from isolane.report.profile_section import profile_figure, profile_section
from isolane.report.theme import css_colours


def page(run: Run) -> str:
    """Write the whole page: styles, data, plots and the library that draws them."""
    summary = run.summary
    drawn = over_time(summary, run.trials, run.series, run.spec)
    shown = (*figures(summary), *filter(None, (drawn, profile_figure(run))))
    tested = arm_tables.differences(summary), arm_tables.trends(summary)
    boxes = box_figure(summary)
    plots = with_plots((*shown, *([boxes] if boxes else [])))
    plots["figures"], folded = plots["figures"][: len(shown)], plots["figures"][len(shown) :]
    drift = summary.quality.drift if summary.quality else None
    started = datetime.fromtimestamp(summary.started_unix_s, UTC)
    template = environment().get_template("page.html.j2")
    return template.render(
        summary=summary,
        started=f"{started:%Y-%m-%d %H:%M} UTC",
        started_iso=started.isoformat(),
        badges=[] if summary.verdict.arms else tables.badges(summary),
        answer=answer_box(summary),
        objectives=objective_lines(summary),
        missing=tables.missing(summary),
        refused=tables.refused(summary),
        findings=tables.findings(summary),
        older=older_method(summary),
        facts=[*fact_lists.facts(summary), *fact_lists.capacities(summary)],
        results=tables.results(summary),
        null_dut=null_dut(summary),
        floor_note=NOTE,
        published=tables.published(summary),
        brackets=tables.brackets(summary),
        beside=quality_words(summary),
        lost=lost_words(summary),
        drift=drift_words(drift) if drift else "",
        nothing=tables.NOTHING,
        description=[" ".join(part.split()) for part in summary.description.split("\n\n")],
        drawings=[
            (one.arm, draw(one, css_colours()), draw(one, css_colours(), down=True))
            for one in summary.drawings
        ],
        host=fact_lists.host(run.host),
        profiled=profile_section(run),
        command=run.command,
        experiment=run.experiment,
        differences=tested[0],
        trends=tested[1],
        tested=arm_tables.notes(summary),
        test_hints=arm_tables.meanings(tested),
        folded=folded,
        **plots,
    )
