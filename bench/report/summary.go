package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Summary returns README's figures, which are a few rows of the headline table.
func (r *Report) Summary() string {
	t := Table{Head: []string{"load", "unit", "haul", "best peer", "haul to it"}}
	var n notes
	for _, h := range r.summary() {
		cells := r.headline(h, &n)[:len(t.Head)]
		cells[0] = h.readme
		if !unitOf(h.metric).higher {
			cells[1] += " (less is better)"
		}
		t.Rows = append(t.Rows, Row{Cells: cells})
	}
	t.Notes = n.lines()
	return t.markdown() + "\n" + r.days() + "\n"
}

// summary returns the rows for README whose scenarios were measured.
func (r *Report) summary() []headline {
	return slices.DeleteFunc(r.headlines(), func(h headline) bool { return h.readme == "" || r.of[h.scenario] == nil })
}

// days returns a sentence that says when the figures were measured, and how many cores the machine
// has.
func (r *Report) days() string {
	if len(r.runs) == 0 {
		return "Nothing was measured."
	}
	first, last := r.runs[0], r.runs[len(r.runs)-1]
	when := dayOf(first.began)
	if to := dayOf(last.began); to != when {
		when += " to " + to
	}
	return fmt.Sprintf("Medians on %s, %s.", count(last.Cores, "core"), when)
}

// These are sizes in the chart, in pixels.
const (
	chartWidth  = 720
	chartRow    = 60
	chartBars   = 14  // distance from the top of a row to its first bar; also the height of a bar with its gap
	chartFigure = 190 // width of the space for the figure to the right of a bar
)

// chartStyle adapts the chart to the reader's choice of a light or a dark page.
const chartStyle = `<style>
text{font:12px system-ui,sans-serif;fill:#1f2328}.who{fill:#59636e}.haul{fill:#0050b3}.peer{fill:#b8bec6}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.who{fill:#9da7b3}.haul{fill:#4d9bff}.peer{fill:#57606a}}
</style>
`

// Chart returns the rows of Summary as an SVG document, with a bar for haul and a bar for the best
// peer in each row.
func (r *Report) Chart() string {
	rows := r.summary()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="haul and the best peer, load by load">`+"\n",
		chartWidth, chartRow*len(rows))
	b.WriteString(chartStyle)
	for i, h := range rows {
		r.chartRow(&b, h, i*chartRow)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// A chartBar is one of the two bars of a row: the bar of haul, or the bar of the best peer.
type chartBar struct {
	class, who string
	figure     float64
}

func (r *Report) chartRow(b *strings.Builder, h headline, top int) {
	u := unitOf(h.metric)
	better := "more is better"
	if !u.higher {
		better = "less is better"
	}
	fmt.Fprintf(b, `<text x="0" y="%d">%s <tspan class="who">%s, %s</tspan></text>`+"\n",
		top+chartBars, attribute.Replace(h.readme), headUnit(h.metric), better)
	bars := []chartBar{{"haul", "haul", r.get(h.scenario, "haul").median(h.metric)}}
	if peer, _ := r.bestPeer(h.scenario, h.metric); peer != "" {
		bars = append(bars, chartBar{"peer", peer, r.get(h.scenario, peer).median(h.metric)})
	}
	longest := slices.MaxFunc(bars, func(a, b chartBar) int { return cmp.Compare(a.figure, b.figure) }).figure
	for i, bar := range bars {
		if !finite(bar.figure) || longest <= 0 {
			continue
		}
		y := top + chartBars*(i+1) + 6
		width := max(bar.figure/longest*(chartWidth-chartFigure), 1)
		fmt.Fprintf(b, `<rect class="%s" x="0" y="%d" width="%.0f" height="%d"/><text x="%.0f" y="%d">%s <tspan class="who">%s</tspan></text>`+"\n",
			bar.class, y, width, chartBars-2, width+6, y+chartBars-4, u.show(bar.figure), attribute.Replace(bar.who))
	}
}
