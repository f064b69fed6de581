package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/bench/report"
)

const reportHelp = `Make tables and plots of what "bench run" wrote to results files.

Without a flag the report goes to standard output, as Markdown. Everything in
it comes from the lines of the files, and the same lines always give the same
report. Where several runs have a scenario, the latest one counts.

--readme and --docs put tables into documents that people write: between
"<!-- bench:begin -->" and "<!-- bench:end -->" a few figures, and
between "<!-- bench:NAME:begin -->" and "<!-- bench:NAME:end -->" the tables of
that name, for every such pair. A NAME that is none is answered with all names.
--chart draws the few figures as an SVG picture, and --charts writes pictures
of throughput by windowsize and by round trip, of CPU by concurrency, and of
the first seconds of a large file.`

// outputs holds the paths of the files into which a report is written. An empty path means that
// there is no such file.
type outputs struct {
	markdown, html, readme, chart, charts string
	docs                                  []string
}

func reportCommand() *cobra.Command {
	var to outputs
	cmd := &cobra.Command{
		Use:     "report FILE...",
		Short:   "Make tables and plots of results",
		Long:    reportHelp,
		Example: "  bench report full.jsonl --html report.html\n  bench report bench/results/latest/*.jsonl --readme README.md --docs docs/benchmarks.md --docs bench/results/latest/README.md --chart docs/img/figures.svg --charts docs/img",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := to.spare(files); err != nil {
				return err
			}
			r, err := report.Load(files...)
			if err != nil {
				return err
			}
			return to.write(cmd.OutOrStdout(), r)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&to.markdown, "md", "", "write the report to this `file`, as Markdown")
	flags.StringVar(&to.html, "html", "", "write it to this `file`, as a page with plots that needs nothing else")
	flags.StringVar(&to.readme, "readme", "", "replace the few figures in this `document`")
	flags.StringArrayVar(&to.docs, "docs", nil, "replace the named tables in this `document`; several times for several")
	flags.StringVar(&to.chart, "chart", "", "write a chart of the few figures to this `file`, as SVG for light and dark pages")
	flags.StringVar(&to.charts, "charts", "", "write the other charts into this `directory`, as SVG")
	return cmd
}

// spare returns an error if the report would overwrite one of the results files in `files`.
func (to outputs) spare(files []string) error {
	for _, path := range append([]string{to.markdown, to.html, to.readme, to.chart}, to.docs...) {
		out, err := os.Stat(path)
		if err != nil {
			continue // there is no such file
		}
		for _, f := range files {
			if in, err := os.Stat(f); err == nil && os.SameFile(in, out) {
				return fmt.Errorf("report: %s holds results, and would be written over; name another file", path)
			}
		}
	}
	return nil
}

// none reports whether the report is written to standard output.
func (to outputs) none() bool {
	return len(to.docs) == 0 && to.markdown+to.html+to.readme+to.chart+to.charts == ""
}

func (to outputs) write(stdout io.Writer, r *report.Report) error {
	if to.none() {
		_, err := io.WriteString(stdout, r.Markdown())
		return err
	}
	type output struct {
		path string
		make func(path string) error
	}
	all := []output{
		{to.markdown, func(path string) error { return save(path, r.Markdown()) }},
		{to.html, func(path string) error { return savePage(path, r) }},
		{to.readme, r.Readme},
		{to.chart, func(path string) error { return save(path, r.Chart()) }},
		{to.charts, func(path string) error { return saveCharts(path, r) }},
	}
	for _, path := range to.docs {
		all = append(all, output{path, r.Docs})
	}
	for _, o := range all {
		if o.path == "" {
			continue
		}
		if err := o.make(o.path); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	return nil
}

func savePage(path string, r *report.Report) error {
	page, err := r.HTML()
	if err != nil {
		return err
	}
	return save(path, page)
}

func saveCharts(dir string, r *report.Report) error {
	charts, err := r.Charts()
	if err != nil {
		return err
	}
	if len(charts) == 0 {
		return errors.New("--charts: the results are of nothing that there is a chart of")
	}
	for name, svg := range charts {
		if err := save(filepath.Join(dir, name), svg); err != nil {
			return err
		}
	}
	return nil
}

func save(path, content string) error { return os.WriteFile(path, []byte(content), 0o644) }
