package report

import (
	"math"
	"slices"
)

// A Spread holds the median and the range of the values of several rounds. If N is 0, all other
// fields are NaN.
type Spread struct {
	Median   float64
	Min, Max float64
	Q1, Q3   float64 // quartiles: the middle half of the values lies between them
	N        int     // number of values
}

// SpreadOf returns the spread of the values. It ignores values that are not finite.
func SpreadOf(values []float64) Spread {
	v := slices.DeleteFunc(slices.Clone(values), func(f float64) bool { return !finite(f) })
	slices.Sort(v)
	return Spread{
		Median: quantile(v, 0.5), Min: quantile(v, 0), Max: quantile(v, 1),
		Q1: quantile(v, 0.25), Q3: quantile(v, 0.75), N: len(v),
	}
}

// Median returns the value in the middle, or the mean of the middle two. It is NaN if no value is
// finite.
func Median(values []float64) float64 { return SpreadOf(values).Median }

// quantile returns the quantile q, 0 to 1, of sorted values. It interpolates between the two
// nearest values.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	part := at - float64(below)
	return sorted[below]*(1-part) + sorted[above]*part
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
