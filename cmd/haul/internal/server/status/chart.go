package status

import (
	"strconv"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
)

// These are the dimensions of the chart, in the units of its SVG paths. The page stretches the
// chart to the page's width.
const (
	chartWidth  = samples
	chartHeight = 160
)

// A chart shows the rate of each protocol over the last hour as a line.
type chart struct {
	Text  string `json:"text"` // a description for readers who cannot see the chart
	Most  string `json:"most"` // the rate at the top of the chart, as text
	Lines []line `json:"lines"`
}

// A line shows the rate of a protocol.
type line struct {
	Name string `json:"-"`
	Text string `json:"text"`
	Path string `json:"path"` // the line as an SVG path
}

func newChart(s Series) chart {
	top := int64(1)
	for _, p := range s.Protocols {
		for _, n := range p.Bytes {
			top = max(top, n)
		}
	}
	step := int64(s.Step)
	c := chart{Most: console.FormatRate(top / step), Text: "Rates in the last hour."}
	for _, p := range s.Protocols {
		latest, most := int64(0), int64(0)
		for _, n := range p.Bytes {
			latest, most = n, max(most, n)
		}
		l := line{Name: strings.ToUpper(p.Protocol), Path: path(p.Bytes, top)}
		l.Text = l.Name + ": now " + console.FormatRate(latest/step) + ", " + console.FormatRate(most/step) + " at most"
		c.Lines = append(c.Lines, l)
		c.Text += " " + l.Text + "."
	}
	return c
}

// path returns an SVG path through values, with the latest value at the right. If several equal
// values follow each other, the path contains only the first and the last of them.
func path(values []int64, top int64) string {
	var b []byte
	y := func(i int) int { return chartHeight - int(float64(values[i])/float64(top)*chartHeight) }
	for i := range values {
		if i > 0 && i < len(values)-1 && y(i-1) == y(i) && y(i) == y(i+1) {
			continue
		}
		b = append(b, "ML"[min(i, 1)])
		b = strconv.AppendInt(b, int64(chartWidth-len(values)+i+1), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(y(i)), 10)
	}
	return string(b)
}
