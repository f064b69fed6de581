package report

import (
	_ "embed" // for the page
	"fmt"
	"html/template"
	"strings"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{"long": long, "list": list}).Parse(pageText))

// long reports whether a cell is to be broken into lines.
func long(cell string) bool { return len(cell) > 32 }

// list writes names in a row.
func list(names []string) string { return strings.Join(names, ", ") }

// pageSection is a section whose plots are drawn.
type pageSection struct {
	Section
	Figures []drawn
	Folded  bool // its tables are shown on request
}

type drawn struct {
	Plot
	SVG template.HTML
}

// HTML returns the whole report as one page, which needs nothing else: neither
// a network, nor scripts, nor other files. An error means that a plot cannot
// be drawn.
func (r *Report) HTML() (string, error) {
	var sections []pageSection
	shown, rest := split(r.Sections())
	for _, s := range shown {
		p := pageSection{Section: s}
		for _, plot := range s.Plots {
			if plot.draw == nil {
				continue // nothing of it was measured
			}
			svg, err := plot.SVG()
			if err != nil {
				return "", err
			}
			// Its content came from our own plotter, which escapes names.
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
