package report

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/haul-project/haul/bench/suite/record"
)

// A bar shows a contender's figure, or a range between two figures.
type bar struct {
	name     string
	style    draw.LineStyle
	from, to float64
}

// These are heights in a plot with bars, in points: the height of a bar with the gap, of the bar
// itself, and of the axis.
const (
	barPitch  vg.Length = 22
	barWidth  vg.Length = 14
	axisSpace vg.Length = 48
)

// bars draws the metric m of each contender in a scenario as a bar, with the best contender at the
// top.
func (r *Report) bars(title, scenario string, m record.Metric) Plot {
	s := r.of[scenario]
	if s == nil {
		return Plot{Title: title}
	}
	var all []bar
	for _, who := range contenders(s) {
		if f := s.of[who].median(m); finite(f) && f > 0 {
			all = append(all, bar{name: who, style: r.pen(who), to: f})
		}
	}
	higher := unitOf(m).higher
	slices.SortStableFunc(all, func(a, b bar) int {
		if higher {
			return cmp.Compare(a.to, b.to)
		}
		return cmp.Compare(b.to, a.to)
	})
	return barPlot(title, unitOf(m).short, all, func(p *plot.Plot) {
		p.X.Min, p.X.Max = 0, p.X.Max*1.1
	})
}

// ranges draws a bar for each disturbance and contender, from the median latency to the 99th
// percentile.
func (r *Report) ranges(title string, scenarios []*scenario) Plot {
	var all []bar
	least, most := 0.0, 0.0
	for _, s := range slices.Backward(scenarios) {
		for _, who := range slices.Backward(contenders(s)) {
			from, to := s.of[who].median(record.LatencyP50), s.of[who].median(record.LatencyP99)
			if !finite(from) || !finite(to) || from <= 0 || to < from {
				continue
			}
			all = append(all, bar{name: s.Beside + ": " + who, style: r.pen(who), from: from, to: to})
			if least == 0 || from < least {
				least = from
			}
			most = max(most, to)
		}
	}
	return barPlot(title, "ms", all, func(p *plot.Plot) {
		p.X.Scale, p.X.Min, p.X.Max = plot.LogScale{}, least/1.3, most*1.8
		p.X.Tick.Marker = plot.ConstantTicks(decades(p.X.Min, p.X.Max))
	})
}

// barPlot returns a plot of bars, from the bottom up, each with its name next to it. `axis` sets
// the range of the x axis.
func barPlot(title, unit string, all []bar, axis func(*plot.Plot)) Plot {
	p := Plot{Title: title, height: axisSpace + barPitch*vg.Length(len(all))}
	if len(all) == 0 {
		return p
	}
	p.draw = func() (*plot.Plot, error) {
		drawn := newPlot(unit, "")
		var names []string
		for i, b := range all {
			names = append(names, b.name)
			if err := b.addTo(drawn, float64(i)); err != nil {
				return nil, err
			}
		}
		drawn.NominalY(names...)
		drawn.Y.Min, drawn.Y.Max = -0.5, float64(len(all))-0.5
		axis(drawn)
		return drawn, nil
	}
	return p
}

// addTo draws a bar at height y, with its text at the end. The bar is a broad line, which also
// works on a logarithmic axis.
func (b bar) addTo(p *plot.Plot, y float64) error {
	line, err := plotter.NewLine(plotter.XYs{{X: b.from, Y: y}, {X: b.to, Y: y}})
	if err != nil {
		return err
	}
	line.LineStyle = draw.LineStyle{Color: b.style.Color, Width: barWidth}
	p.Add(line)
	said := figure(b.to)
	if b.from > 0 {
		said = figure(b.from) + " to " + said
	}
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: b.to, Y: y}}, Labels: []string{said}})
	if err != nil {
		return err
	}
	style := &labels.TextStyle[0]
	style.Font.Variant, style.Font.Size, style.Color, style.YAlign = "Sans", 9, ink, draw.YCenter
	labels.Offset = vg.Point{X: 5}
	p.Add(labels)
	return nil
}
