package bootload

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// These are lengths in the picture, in pixels.
const (
	svgWidth, svgHeight  = 640, 320
	svgLeft, svgRight    = 60, 16
	svgTop, svgBottom    = 28, 44
	svgAcross, svgUpward = svgWidth - svgLeft - svgRight, svgHeight - svgTop - svgBottom
	svgPoints            = 400 // largest number of points of a curve
)

// WriteSVG draws two curves over the time span: how many machines were switched on, and how many
// were up. on and up hold the times at which machines were switched on and came up, since the
// start, sorted.
func WriteSVG(out io.Writer, on, up []time.Duration, machines int, span time.Duration) error {
	span = max(span, time.Millisecond)
	x := func(at time.Duration) float64 {
		return svgLeft + svgAcross*min(1, at.Seconds()/span.Seconds())
	}
	y := func(n float64) float64 { return svgTop + svgUpward*(1-n/float64(max(machines, 1))) }
	curve := func(times []time.Duration, style string) string {
		var path strings.Builder
		fmt.Fprintf(&path, "M%.1f %.1f", x(0), y(0))
		step := max(1, len(times)/svgPoints)
		for i := 0; i < len(times); i += step {
			last := min(i+step, len(times))
			fmt.Fprintf(&path, "H%.1fV%.1f", x(times[last-1]), y(float64(last)))
		}
		fmt.Fprintf(&path, "H%.1f", x(span))
		return fmt.Sprintf("<path d=%q fill=\"none\" %s/>\n", path.String(), style)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"machines up over time\""+
		" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", svgWidth, svgHeight)
	for i := range 5 {
		part := float64(i) / 4
		at := time.Duration(part * float64(span))
		fmt.Fprintf(&b, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>\n", svgLeft, y(part*float64(machines)), svgWidth-svgRight)
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>\n", svgLeft-6, y(part*float64(machines))+4, part*float64(machines))
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.3g s</text>\n", x(at), svgHeight-svgBottom+18, at.Seconds())
	}
	b.WriteString(curve(on, `stroke="#666" stroke-dasharray="6 3"`))
	b.WriteString(curve(up, `stroke="#0050b3" stroke-width="2.5"`))
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"16\">machines up (line) and switched on (dashes)</text>\n</svg>\n", svgLeft)
	_, err := io.WriteString(out, b.String())
	return err
}
