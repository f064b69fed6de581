package report

import (
	_ "embed" // page.html is embedded
	"fmt"
	"html/template"
	"strings"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{"long": long, "list": list}).Parse(pageText))

// long reports whether the text of a cell is so long that it should be broken into lines.
func long(cell string) bool { return len(cell) > 32 }

// list joins names with commas.
func list(names []string) string { return strings.Join(names, ", ") }

// pageSection is a section with its drawn plots.
type pageSection struct {
	Section
	Figures []drawn
	Folded  bool // the tables are hidden until a reader opens the section
}

type drawn struct {
	Plot
	SVG template.HTML
}

// HTML returns the whole report as one self-contained page, which needs no network, no scripts and
// no other files. HTML returns an error if a plot cannot be drawn.
func (r *Report) HTML() (string, error) {
	var sections []pageSection
	shown, rest := split(r.Sections())
	for _, s := range shown {
		p := pageSection{Section: s}
		for _, plot := range s.Plots {
			if plot.draw == nil {
				continue // nothing that the plot would show was measured
			}
			svg, err := plot.SVG()
			if err != nil {
				return "", err
			}
			// The SVG can be trusted: it comes from our own plotter, which escapes names.
			p.Figures = append(p.Figures, drawn{plot, template.HTML(svg)})
		}
		sections = append(sections, p)
	}
	sections = append(sections, pageSection{Section: r.appendix(), Folded: true})
	var b strings.Builder
	err := page.Execute(&b, map[string]any{
		"Files": strings.Join(r.files, ", "), "Counts": "Made by bench report; nothing here is typed by hand.", "Rest": rest, "Sections": sections,
	})
	if err != nil {
		return "", fmt.Errorf("page: %w", err)
	}
	return b.String(), nil
}
