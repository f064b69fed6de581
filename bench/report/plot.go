package report

import (
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A Plot is a picture of figures. The same figures are also in a table.
type Plot struct {
	Title  string
	Legend []Stroke // empty if the plot itself contains the names
	draw   func() (*plot.Plot, error)
	height vg.Length // 0 means plotHeight
}

// A Stroke is the line style of a contender.
type Stroke struct {
	Name   string
	Color  string // in the form "#0050b3"
	Dashes string // lengths of dashes and gaps in points, such as "6 3"; empty means a solid line
	Width  float64
}

// These are the sizes of a plot, in points. A page scales plots to its width.
const (
	plotWidth  vg.Length = 560
	plotHeight vg.Length = 300
	edge       vg.Length = 14 // margin on the right, for the label of the last tick
)

// SVG returns the plot as an element for an HTML page. The element refers to nothing outside
// itself, and contains no ids that could collide with others.
func (p Plot) SVG() (string, error) {
	drawn, err := p.draw()
	if err != nil {
		return "", fmt.Errorf("plot %q: %w", p.Title, err)
	}
	height := p.height
	if height == 0 {
		height = plotHeight
	}
	c := vgsvg.NewWith(vgsvg.UseWH(plotWidth, height))
	drawn.Draw(draw.Crop(draw.New(c), 0, -edge, 0, 0))
	var b strings.Builder
	if _, err := c.WriteTo(&b); err != nil {
		return "", fmt.Errorf("plot %q: %w", p.Title, err)
	}
	return inlined(b.String(), p.Title), nil
}

// inlined converts an SVG document to an element of a page: it removes the parts that only a file
// needs, and adds a name for readers who cannot see the picture.
func inlined(svg, title string) string {
	_, rest, _ := strings.Cut(svg, "<svg ")
	_, body, _ := strings.Cut(rest, ">")
	view := "0 0 560 300"
	if _, v, ok := strings.Cut(rest, `viewBox="`); ok {
		view, _, _ = strings.Cut(v, `"`)
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="%s" role="img" aria-label="%s">%s`, view, attribute.Replace(title), body)
}

var attribute = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// newPlot returns an empty plot in the report's style.
func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, style := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label,
	} {
		style.Font.Variant = "Sans"
		style.Font.Size = 10
		style.Color = ink
	}
	p.X.Tick.Color, p.Y.Tick.Color, p.X.Color, p.Y.Color = faint, faint, faint, faint
	return p
}

var (
	ink   = color.RGBA{0x22, 0x22, 0x22, 0xff}
	faint = color.RGBA{0x99, 0x99, 0x99, 0xff}
	ours  = color.RGBA{0x00, 0x50, 0xb3, 0xff}
	gray  = color.RGBA{0x66, 0x66, 0x66, 0xff}
)

// palette holds the colors of peers. They are distinct from each other for readers who confuse red
// and green, and dark enough for thin lines on white.
var palette = []color.RGBA{
	{0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xb8, 0x4d, 0x8a, 0xff}, {0xc2, 0x8a, 0x00, 0xff},
	{0x2f, 0x9a, 0xd6, 0xff}, {0x8c, 0x56, 0x4b, 0xff}, {0x5b, 0x3f, 0xa0, 0xff}, {0x7a, 0x8b, 0x1f, 0xff},
}

var (
	dashed = []vg.Length{6, 3}
	dotted = []vg.Length{1.5, 2.5}
	broken = []vg.Length{8, 3, 2, 3}
)

// floorDashes holds the dashes of the floors' lines. Floors that are not in it have solid lines.
var floorDashes = map[string][]vg.Length{"floor-64": dashed, "floor-1": dotted, "floor-epoll": broken, "floor-tcp": dashed, "floor-tcp DEFER_ACCEPT": dotted}

// pen returns the line style of a contender, which is the same in all plots of a report. All
// servers of a family, such as "dnsmasq" and "dnsmasq single-port", have the same color, and differ
// in their dashes.
func (r *Report) pen(name string) draw.LineStyle {
	s := draw.LineStyle{Color: gray, Width: 1.6}
	family, variant, _ := strings.Cut(name, " ")
	switch {
	case isHaul(name):
		s.Color, s.Width = ours, 2.6
	case isFloor(name):
		s.Dashes = floorDashes[name]
		return s
	default:
		i := slices.Index(r.families(), family)
		s.Color = palette[max(i, 0)%len(palette)]
		if i >= len(palette) {
			s.Dashes = broken
		}
	}
	if variant != "" {
		s.Dashes = dashed
	}
	if variant == "before" {
		s.Dashes = dotted
	}
	return s
}

// families returns the first words of the names of all peers, sorted.
func (r *Report) families() []string {
	var all []string
	for _, s := range r.of {
		for name := range s.of {
			if family, _, _ := strings.Cut(name, " "); isPeer(name) && !slices.Contains(all, family) {
				all = append(all, family)
			}
		}
	}
	slices.Sort(all)
	return all
}

func stroke(name string, s draw.LineStyle) Stroke {
	var dashes []string
	for _, d := range s.Dashes {
		dashes = append(dashes, fmt.Sprintf("%g", d))
	}
	return Stroke{Name: name, Color: hex(s.Color), Dashes: strings.Join(dashes, " "), Width: float64(s.Width)}
}

func hex(c color.Color) string {
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}
