package console

import (
	"path"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
)

// LineEvery is the time between two progress lines of a transfer, if the output is not a terminal.
const LineEvery = 5 * time.Second

// minLabel and maxLabel bound the width of a bar's label, in columns.
const minLabel, maxLabel = 8, 30

// BarLabel shortens a name to `columns` columns; a value below minLabel counts as minLabel, and one
// above maxLabel as maxLabel. It removes the middle of a long name, because names of files in one
// directory often begin with the same letters.
func BarLabel(name string, columns int) string {
	label := Visible(path.Base(name))
	columns = min(max(columns, minLabel), maxLabel)
	if runewidth.StringWidth(label) <= columns {
		return label
	}
	half := columns / 2
	// Half of a wide character becomes a space.
	return runewidth.Truncate(label, columns-half, "…") + strings.TrimLeft(runewidth.TruncateLeft(label, runewidth.StringWidth(label)-half, ""), " ")
}

const (
	// RedrawEvery is the time between two drawings of the bars.
	RedrawEvery = 100 * time.Millisecond

	// rateOver is the time over which a RateMeter measures the rate.
	rateOver = 5 * time.Second
)

// Bar returns a bar that is `columns` columns wide and shows `done` as a part of `whole`.
func Bar(done, whole int64, columns int, color bool) string {
	inside := columns - 2
	n := 0
	if whole > 0 {
		n = int(float64(min(max(done, 0), whole)) / float64(whole) * float64(inside))
	}
	fill := strings.Repeat("=", n)
	if n > 0 && n < inside {
		fill = fill[1:] + ">"
	}
	if color && n > 0 {
		fill = Green(fill)
	}
	return "[" + fill + strings.Repeat(" ", inside-n) + "]"
}

// Clip cuts off the part of a line that does not fit into `columns` columns.
func Clip(line string, columns int) string {
	return runewidth.Truncate(line, max(columns, 0), "")
}

// Pad appends spaces to a line until it is `columns` columns wide.
func Pad(line string, columns int) string { return runewidth.FillRight(line, columns) }

// Columns returns the width of a line on a terminal, in columns.
func Columns(line string) int { return runewidth.StringWidth(line) }

// A RateMeter measures the average rate of the last few seconds.
type RateMeter struct {
	times []time.Time
	bytes []int64
}

// Add records the total number of bytes that were transferred up to the time `now`.
func (r *RateMeter) Add(now time.Time, bytes int64) {
	if n := len(r.times); n > 0 && now.Sub(r.times[n-1]) < RedrawEvery {
		return // bound the number of entries: at most rateOver / RedrawEvery
	}
	r.times, r.bytes = append(r.times, now), append(r.bytes, bytes)
	for len(r.times) > 2 && now.Sub(r.times[1]) >= rateOver {
		r.times, r.bytes = r.times[1:], r.bytes[1:]
	}
}

// PerSecond returns the rate in bytes per second.
func (r *RateMeter) PerSecond() int64 {
	n := len(r.times)
	if n < 2 {
		return 0
	}
	return max(PerSecond(r.bytes[n-1]-r.bytes[0], r.times[n-1].Sub(r.times[0])), 0)
}
