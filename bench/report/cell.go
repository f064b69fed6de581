package report

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/haul-project/haul/bench/suite/record"
)

// values returns a figure for each round that has it, in the order of the rounds.
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

// sum adds up a figure over the rounds. It is NaN if no round has it.
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

// ratio returns the median of a's figure divided by b's in the same round. It is NaN if no round
// has both.
func ratio(a, b *cell, m record.Metric) float64 { return Median(ratios(a, b, m)) }

// ratios returns a's figure divided by b's, for each round that has both.
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

// metered lists the server's figures that depend on one meter. The meter failed if it counted no
// CPU time.
var metered = []record.Metric{
	record.ServerCPU, record.CPUPerPacket, record.CPUPerGB, record.CPUPerRequest, record.GigabitsPerCore, record.CoresBusy, record.Memory,
}

// measured returns figures without those of a failed meter.
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

// mayFail is the share of its transfers that a contender may fail and still be compared with. A
// server that drops load has time for the rest.
const mayFail = 0.01

// served reports whether the cell has figures of a contender that did the work.
func (c *cell) served() bool {
	if c == nil || len(c.rounds) == 0 {
		return false
	}
	failed, of := c.sum(record.Failed), c.sum(record.Transfers)
	return !(failed > mayFail*of)
}

// errors returns the errors of failed rounds, in order.
func (c *cell) errors() []string {
	var all []string
	for _, round := range slices.Sorted(maps.Keys(c.failed)) {
		all = append(all, c.failed[round])
	}
	return all
}

// lacking returns why a cell has no such figure.
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

// flaws returns the problems of a cell that has figures.
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
