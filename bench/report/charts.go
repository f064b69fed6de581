package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/haul-project/haul/bench/suite/record"
)

// Charts returns the pictures for documents as SVG files, by name: TFTP's throughput by
// windowsize over each link and its CPU by concurrency, SFTP's throughput by round trip, and the
// first seconds of a large file. It leaves out loads that were not measured.
func (r *Report) Charts() (map[string]string, error) {
	plots := map[string]Plot{
		"tftp-concurrency": r.byConcurrency("TFTP: server CPU for a packet, by transfers at the same time", "many"),
	}
	for _, l := range links {
		plots["tftp-windows-"+l] = r.byWindowsize("TFTP: MB/s by windowsize, over the link "+l, byWindow(r.group("links-"+l)), nil)
	}
	for _, way := range []struct{ word, title string }{{"get", "down"}, {"put", "up"}} {
		plots["sftp-distance-"+way.word] = r.byRoundTrip("SFTP: MB/s of 256 MiB "+way.title+", by round trip", "sftp-"+way.word)
		if s := r.of["sftp-"+way.word+"-ramp-rtt100"]; s != nil {
			plots["sftp-ramp-"+way.word] = r.ramp("SFTP: MB in each tenth of a second, 1 GiB "+way.title+" at 100 ms", s)
		}
	}
	files := make(map[string]string)
	for name, p := range plots {
		if p.draw == nil {
			continue
		}
		svg, err := p.file()
		if err != nil {
			return nil, err
		}
		files[name+".svg"] = svg
	}
	return files, nil
}

// byRoundTrip draws SFTP's throughput over the round trip. It leaves out loopback, which a
// logarithmic axis cannot show.
func (r *Report) byRoundTrip(title, group string) Plot {
	scenarios := slices.DeleteFunc(r.byDistance(group), func(s *scenario) bool { return s.RoundTrip == 0 })
	x := func(s *scenario) float64 { return s.RoundTrip }
	var curves []curve
	for _, who := range contenders(scenarios...) {
		curves = append(curves, curve{who, r.pen(who), points(scenarios, who, record.DataRate, x)})
	}
	return linePlot(title, "ms there and back", "MB/s of the data", curves)
}

// These are the dimensions of a picture's file: the height of a line of the legend, the number of
// the legend's columns, the height of the title, and the width of the margin around everything.
// Lengths are in points.
const (
	legendLine    = 16
	legendColumns = 3
	titleHeight   = 24
	fileEdge      = 10
)

// file returns the plot with its title and legend, as a self-contained SVG document. The background
// is white even on a dark page, because the colors of the lines are chosen for white.
func (p Plot) file() (string, error) {
	inner, err := p.SVG()
	if err != nil {
		return "", err
	}
	height := float64(cmp.Or(p.height, plotHeight))
	lines := (len(p.Legend) + legendColumns - 1) / legendColumns
	width, whole := float64(plotWidth)+2*fileEdge, titleHeight+height+float64(lines*legendLine)+2*fileEdge
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" aria-label="%s" font-family="sans-serif" font-size="11">`+"\n",
		width, whole, attribute.Replace(p.Title))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/><text x="%d" y="%d" font-size="13" font-weight="bold" fill="%s">%s</text>`+"\n",
		fileEdge, fileEdge+12, hex(ink), attribute.Replace(p.Title))
	placed := fmt.Sprintf(`<svg x="%d" y="%d" width="%g" height="%g" `, fileEdge, fileEdge+titleHeight, float64(plotWidth), height)
	b.WriteString(strings.Replace(inner, "<svg ", placed, 1) + "\n")
	for i, s := range p.Legend {
		x := fileEdge + i%legendColumns*int(plotWidth)/legendColumns
		y := fileEdge + titleHeight + height + float64(i/legendColumns*legendLine) + 8
		fmt.Fprintf(&b, `<path d="M%d %gh22" stroke="%s" stroke-width="%g" stroke-dasharray="%s"/><text x="%d" y="%g" fill="%s">%s</text>`+"\n",
			x, y, s.Color, s.Width, s.Dashes, x+28, y+4, hex(ink), attribute.Replace(s.Name))
	}
	return b.String() + "</svg>\n", nil
}
