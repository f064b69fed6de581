package report

import (
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/haul-project/haul/bench/suite/record"
)

// A curve is a line through points, with its name in the legend.
type curve struct {
	name   string
	style  draw.LineStyle
	points plotter.XYs
}

// wide is the ratio of the largest to the smallest figure above which an axis is logarithmic. On a
// linear axis, small figures could then not be distinguished.
const wide = 12

// linePlot returns a plot of curves over a logarithmic x axis, with a tick for each x value of a
// point.
func linePlot(title, x, y string, curves []curve) Plot {
	p := Plot{Title: title}
	for _, c := range curves {
		if len(c.points) > 0 {
			p.Legend = append(p.Legend, stroke(c.name, c.style))
		}
	}
	if !spans(curves) {
		return p // no plot is needed for one x value, because a table shows the figures too
	}
	p.draw = func() (*plot.Plot, error) {
		drawn := newPlot(x, y)
		drawn.Add(grid())
		for _, c := range curves {
			if err := c.addTo(drawn); err != nil {
				return nil, err
			}
		}
		scale(drawn, curves)
		return drawn, nil
	}
	return p
}

// spans reports whether the points have at least two different x values.
func spans(curves []curve) bool {
	var first *plotter.XY
	for _, c := range curves {
		for _, at := range c.points {
			if first == nil {
				first = &at
			}
			if at.X != first.X {
				return true
			}
		}
	}
	return false
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = nil, plotter.DefaultGridLineStyle.Color
	g.Vertical.Width = 0
	return g
}

func (c curve) addTo(p *plot.Plot) error {
	if len(c.points) == 0 {
		return nil
	}
	line, err := plotter.NewLine(c.points)
	if err != nil {
		return err
	}
	line.LineStyle = c.style
	p.Add(line)
	dots, err := plotter.NewScatter(c.points)
	if err != nil {
		return err
	}
	dots.GlyphStyle = draw.GlyphStyle{Color: c.style.Color, Radius: c.style.Width, Shape: draw.CircleGlyph{}}
	p.Add(dots)
	return nil
}

// scale sets the range and the ticks of both axes. A logarithmic axis must not reach zero, even if
// all points are at the same place.
func scale(p *plot.Plot, curves []curve) {
	var ticks []plot.Tick
	seen := make(map[float64]bool)
	least, most := 0.0, 0.0
	for _, c := range curves {
		for _, at := range c.points {
			if !seen[at.X] {
				seen[at.X] = true
				ticks = append(ticks, plot.Tick{Value: at.X, Label: whole(at.X)})
			}
			if least == 0 || at.Y < least {
				least = at.Y
			}
			most = max(most, at.Y)
		}
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.X.Scale, p.X.Min, p.X.Max = plot.LogScale{}, p.X.Min/1.2, p.X.Max*1.2
	p.Y.Min, p.Y.Max = 0, most*1.08
	if most > wide*least {
		p.Y.Scale, p.Y.Min, p.Y.Max = plot.LogScale{}, least/1.2, most*1.2
		p.Y.Tick.Marker = plot.ConstantTicks(decades(p.Y.Min, p.Y.Max))
	}
}

// decades returns ticks at 1, 2 and 5 times the powers of ten, in the range from `from` to `to`.
func decades(from, to float64) []plot.Tick {
	var ticks []plot.Tick
	for power := -9; power <= 12; power++ {
		for _, digit := range []string{"1", "2", "5"} {
			v, err := strconv.ParseFloat(digit+"e"+strconv.Itoa(power), 64)
			if err == nil && v >= from && v <= to {
				ticks = append(ticks, plot.Tick{Value: v, Label: plain(v)})
			}
		}
	}
	return ticks
}

func plain(f float64) string {
	if f >= 1000 {
		return whole(f)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// byConcurrency draws the server's cost of a packet over the number of concurrent transfers. Of
// several scenarios with the same number of transfers, it uses the one with the largest files.
func (r *Report) byConcurrency(title, group string) Plot {
	largest := make(map[int]*scenario)
	var order []int
	for _, s := range r.group(group) {
		if old := largest[s.Concurrency]; old == nil {
			order = append(order, s.Concurrency)
			largest[s.Concurrency] = s
		} else if s.Size > old.Size {
			largest[s.Concurrency] = s
		}
	}
	var at []*scenario
	slices.Sort(order)
	for _, c := range order {
		at = append(at, largest[c])
	}
	x := func(s *scenario) float64 { return float64(s.Concurrency) }
	var curves []curve
	for _, who := range contenders(at...) {
		curves = append(curves, curve{who, r.pen(who), points(at, who, record.CPUPerPacket, x)})
	}
	return linePlot(title, "transfers at the same time", "us of server CPU a packet", curves)
}

// byWindowsize draws throughput over windowsize: in the scenarios without and with loss, the bound,
// and haul without any tuning.
func (r *Report) byWindowsize(title string, plain, lossy []*scenario) Plot {
	x := func(s *scenario) float64 { return float64(s.Window) }
	var curves []curve
	if bound := boundOf(plain); len(bound) > 0 {
		curves = append(curves, curve{"bound", draw.LineStyle{Color: ink, Width: 1, Dashes: dashed}, bound})
	}
	for _, who := range contenders(plain...) {
		curves = append(curves, curve{who, r.pen(who), points(plain, who, record.Rate, x)})
	}
	for _, who := range contenders(lossy...) {
		pen := r.pen(who)
		pen.Dashes = dotted
		curves = append(curves, curve{who + ", 1 % lost", pen, points(lossy, who, record.Rate, x)})
	}
	if len(plain) > 0 {
		curves = append(curves, r.untuned(plain))
	}
	return linePlot(title, "windowsize", "MB/s", curves)
}

// untuned returns a level line at haul's rate without any flags, from the first to the last
// windowsize.
func (r *Report) untuned(windows []*scenario) curve {
	first, last := windows[0], windows[len(windows)-1]
	c := curve{name: "haul, nothing tuned", style: draw.LineStyle{Color: ours, Width: 1.2, Dashes: []vg.Length{2, 4}}}
	rate := r.get(first.Group+"-untuned", "haul").median(record.Rate)
	if finite(rate) && rate > 0 && first.Link != "" {
		c.points = plotter.XYs{{X: float64(first.Window), Y: rate}, {X: float64(last.Window), Y: rate}}
	}
	return c
}

// boundOf returns the bound at each windowsize, from the first cell that has a bound.
func boundOf(windows []*scenario) plotter.XYs {
	var at plotter.XYs
	for _, s := range windows {
		for _, who := range contenders(s) {
			if f := s.of[who].median(record.Bound); finite(f) && f > 0 {
				at = append(at, plotter.XY{X: float64(s.Window), Y: f})
				break
			}
		}
	}
	return at
}

func xy(x, y float64) plotter.XY { return plotter.XY{X: x, Y: y} }

// points returns the medians of the contender `who` as points. It leaves out medians that a
// logarithmic axis cannot show.
func points(at []*scenario, who string, m record.Metric, x func(*scenario) float64) plotter.XYs {
	var all plotter.XYs
	for _, s := range at {
		f := s.of[who].median(m)
		if finite(f) && f > 0 && x(s) > 0 {
			all = append(all, plotter.XY{X: x(s), Y: f})
		}
	}
	return all
}
