package report

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, nan},
		{[]float64{nan}, nan},
		{[]float64{0}, 0},
		{[]float64{3, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{1, nan, 3, inf}, 2},
	} {
		if got := Median(c.values); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

func TestSpread(t *testing.T) {
	got := SpreadOf([]float64{5, 1, 4, 2, 3})
	if want := (Spread{Median: 3, Min: 1, Max: 5, Q1: 2, Q3: 4, N: 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := SpreadOf([]float64{7}).String(); got != none {
		t.Errorf("one round has the spread %q", got)
	}
	given := []float64{2, 1}
	SpreadOf(given)
	if given[0] != 2 {
		t.Error("the caller's values were sorted")
	}
}

func TestFigure(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 1234567: "1,234,567", 99.96: "100", 12.345: "12.3", 9.996: "10.0", 1: "1.00", 0.9996: "1.00",
		0.1234: "0.123", 0.000123: "0.000123", -1234.4: "-1,234", math.Inf(1): none, 999.5: "1,000",
	} {
		if got := figure(f); got != want {
			t.Errorf("figure(%v) is %q, want %q", f, got, want)
		}
	}
	if figure(math.NaN()) != none || percent(math.NaN()) != none || times(math.NaN()) != none || whole(math.NaN()) != none {
		t.Error("NaN is written as a number")
	}
}
