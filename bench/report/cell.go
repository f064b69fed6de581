package report

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/haul-project/haul/bench/suite/record"
)

// values returns a figure of each round that has it, in the order of rounds.
func (c *cell) values(m record.Metric) []float64 {
	var v []float64
	if c == nil {
		return v
	}
	for _, round := range slices.Sorted(maps.Keys(c.rounds)) {
		if f, ok := c.rounds[round][m]; ok && finite(f) {
			v = append(v, f)
		}
	}
	return v
}

func (c *cell) spread(m record.Metric) Spread  { return SpreadOf(c.values(m)) }
func (c *cell) median(m record.Metric) float64 { return Median(c.values(m)) }

// sum adds a figure up over the rounds; NaN if no round has it.
func (c *cell) sum(m record.Metric) float64 {
	v := c.values(m)
	if len(v) == 0 {
		return math.NaN()
	}
	total := 0.0
	for _, f := range v {
		total += f
	}
	return total
}

// ratio returns the median of what a's figure is divided by b's in the same
// round; NaN if no round has both.
func ratio(a, b *cell, m record.Metric) float64 { return Median(ratios(a, b, m)) }

// ratios returns what a's figure is divided by b's, of each round that has both.
func ratios(a, b *cell, m record.Metric) (each []float64) {
	if a == nil || b == nil {
		return nil
	}
	for round, of := range a.rounds {
		x, inA := of[m]
		y, inB := b.rounds[round][m]
		if inA && inB && y != 0 {
			each = append(each, x/y)
		}
	}
	return each
}

// metered are the figures of the server that come from one meter, which failed if it
// counted no CPU time.
var metered = []record.Metric{
	record.ServerCPU, record.CPUPerPacket, record.CPUPerGB, record.CPUPerRequest, record.GigabitsPerCore, record.CoresBusy, record.Memory,
}

// measured returns figures without those of a meter that failed.
func measured(figures map[record.Metric]float64) map[record.Metric]float64 {
	if cpu, ok := figures[record.ServerCPU]; !ok || cpu > 0 {
		return figures
	}
	figures = maps.Clone(figures)
	for _, m := range metered {
		delete(figures, m)
	}
	return figures
}

// mayFail is the share of its transfers that a contender may fail and still
// count as one to compare with: a server that drops load has time for the rest.
const mayFail = 0.01

// served reports whether the cell has figures of somebody who did the work.
func (c *cell) served() bool {
	if c == nil || len(c.rounds) == 0 {
		return false
	}
	failed, of := c.sum(record.Failed), c.sum(record.Transfers)
	return !(failed > mayFail*of)
}

// errors returns why rounds failed, in their order.
func (c *cell) errors() []string {
	var all []string
	for _, round := range slices.Sorted(maps.Keys(c.failed)) {
		all = append(all, c.failed[round])
	}
	return all
}

// lacking says why a cell has no such figure.
func (c *cell) lacking(m record.Metric) string {
	switch {
	case c == nil:
		return "took no part"
	case c.absent != "":
		return "not tried: " + c.absent
	case len(c.rounds) == 0 && len(c.failed) > 0:
		return "failed: " + c.errors()[0]
	case len(c.rounds) == 0:
		return "was not measured"
	}
	return fmt.Sprintf("%s was not measured", unitOf(m).what)
}

// flaws says what is wrong with a cell that has figures.
func (c *cell) flaws() []string {
	if c == nil || len(c.rounds) == 0 {
		return nil
	}
	var all []string
	if n := len(c.failed); n > 0 {
		all = append(all, fmt.Sprintf("%d of %d rounds failed: %s", n, n+len(c.rounds), c.errors()[0]))
	}
	if failed := c.sum(record.Failed); failed > 0 {
		all = append(all, fmt.Sprintf("%s of %s transfers failed", whole(failed), whole(c.sum(record.Transfers))))
	}
	return all
}
