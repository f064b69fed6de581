package report

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/haul-project/haul/bench/suite/record"
)

// values returns the figures for the metric m, of all rounds that have one, in the order of the
// rounds.
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

// sum returns the sum of the figures for the metric m over the rounds. It is NaN if no round has a
// figure.
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

// ratio returns the median of the ratios of a's figure to b's figure in the same round. It is NaN
// if no round has both figures.
func ratio(a, b *cell, m record.Metric) float64 { return Median(ratios(a, b, m)) }

// ratios returns a's figure divided by b's figure, for each round that has both figures.
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

// metered lists the figures of the server that come from the meter of its processes. If the meter
// counted no CPU time, it has failed.
var metered = []record.Metric{
	record.ServerCPU, record.CPUPerPacket, record.CPUPerGB, record.CPUPerRequest, record.GigabitsPerCore, record.CoresBusy, record.Memory,
}

// measured returns the figures, without the metered ones if the meter has failed.
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

// mayFail is the share of transfers, 0 to 1, up to which a contender may fail and is still compared
// with others. It is small because a server that drops transfers has more time for the rest.
const mayFail = 0.01

// served reports whether the cell has figures, and the contender did the work: at most the share
// mayFail of its transfers failed.
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

// lacking returns the reason why a cell has no figure for the metric m.
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

// flaws returns descriptions of the problems of a cell that has figures, such as failed rounds.
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
