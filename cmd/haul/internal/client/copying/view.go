package copying

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
)

const (
	// maxFileLines is how many files have a line of their own at most.
	maxFileLines = 16

	// barWidth is how many columns the bar of a file has, with its ends. That of a single
	// file has minBar to maxBar.
	barWidth, minBar, maxBar = 22, 12, 40

	// countersWidth is how many columns "999.9 MB of 999.9 MB" takes, with two spaces in
	// front; percentWidth and sizeWidth those of "100 %" and "999.9 MB", with one.
	countersWidth, percentWidth, sizeWidth = 22, 6, 9

	// From so many columns on, a file has counters, and a bar as well.
	countersFrom, barFrom = 38, 60
)

// lines shows how far a copy is: a line for each file that is under way, the longest
// first, as many as fit, and one for all. A file that is the only one has all in one line.
func (s copyState) lines(c console.Canvas) []string {
	if s.found.Files == 1 && len(s.active) == 1 {
		return []string{s.singleLine(c)}
	}
	total := console.Clip(s.fitting(c.Columns), c.Columns)
	files := s.active[:min(len(s.active), maxFileLines, max(c.Rows-2, 0))]
	if len(files) == 0 {
		return []string{total}
	}
	labels, width := make([]string, len(files)), 0
	for i, f := range files {
		labels[i] = console.BarLabel(f.item.From, c.Columns-columnsBeside(c.Columns))
		width = max(width, console.Columns(labels[i]))
	}
	var lines []string
	for i, f := range files {
		lines = append(lines, f.line(console.Pad(labels[i], width), c))
	}
	if more := len(s.active) - len(files); more > 0 {
		lines = append(lines, console.Clip(fmt.Sprintf("and %d more", more), c.Columns))
	}
	return append(lines, total)
}

// columnsBeside returns how many columns of a file's line are not its name.
func columnsBeside(columns int) int {
	switch {
	case columns >= barFrom:
		return barWidth + 1 + percentWidth + countersWidth
	case columns >= countersFrom:
		return percentWidth + countersWidth
	}
	return sizeWidth
}

// line shows a file behind its name.
func (f activeFile) line(label string, c console.Canvas) string {
	percent, counters := strings.Repeat(" ", percentWidth), console.FormatBytes(f.moved)
	if f.size > 0 {
		percent, counters = fmt.Sprintf(" %3d %%", percentOf(f.moved, f.size)), counters+" of "+console.FormatBytes(f.size)
	} else if c.Columns < countersFrom {
		return console.Clip(label+" "+counters, c.Columns)
	}
	if c.Columns < countersFrom {
		return console.Clip(label+percent, c.Columns)
	}
	if c.Columns < barFrom {
		return console.Clip(label+percent+"  "+counters, c.Columns)
	}
	rest := console.Clip(percent+"  "+counters, c.Columns-console.Columns(label)-1-barWidth)
	return label + " " + console.Bar(f.moved, f.size, barWidth, c.Color) + rest
}

// singleLine shows the only file.
func (s copyState) singleLine(c console.Canvas) string {
	f := s.active[0]
	label := console.BarLabel(f.item.From, c.Columns/3)
	room := c.Columns - console.Columns(label) - 1
	text := console.Clip(s.fitting(room), room)
	if width := min(room-console.Columns(text)-1, maxBar); width >= minBar && f.size > 0 {
		return label + " " + console.Bar(f.moved, f.size, width, c.Color) + " " + text
	}
	return console.Clip(label+" "+text, c.Columns)
}

// percentOf returns how much of a whole is done, at most all.
func percentOf(done, whole int64) int {
	return int(min(max(float64(done)/float64(whole)*100, 0), 100))
}

// String says how far a copy is.
func (s copyState) String() string {
	return s.text(s.percent(), s.bytes(), s.count(), s.speed(), s.wait())
}

// fitting says it in so many columns, as far as that is possible: the end is cut off then.
func (s copyState) fitting(columns int) string {
	for _, text := range []string{
		s.String(),
		s.text(s.percent(), s.bytes(), s.speed(), s.wait()),
		s.text(s.percent(), s.speed(), s.wait()),
		s.text(s.percent(), s.speed()),
	} {
		if console.Columns(text) <= columns {
			return text
		}
	}
	return cmp.Or(s.percent(), console.FormatBytes(s.moved))
}

// text joins the parts that there are.
func (s copyState) text(parts ...string) string {
	var some []string
	for _, p := range parts {
		if p != "" {
			some = append(some, p)
		}
	}
	return strings.Join(some, ", ")
}

func (s copyState) percent() string {
	if !s.found.All || s.found.Bytes <= 0 {
		return ""
	}
	return fmt.Sprintf("%d %%", percentOf(s.moved, s.found.Bytes))
}

func (s copyState) bytes() string {
	text := console.FormatBytes(s.moved)
	if s.found.Bytes == 0 && s.found.Files == 1 { // whose size is not known
		return text
	}
	text += " of " + console.FormatBytes(max(s.found.Bytes, s.moved))
	if !s.found.All {
		text += " or more"
	}
	return text
}

func (s copyState) count() string {
	if s.found.Files <= 1 && s.found.All || s.found.Bytes == 0 && s.found.Files == 1 {
		return ""
	}
	return fmt.Sprintf("%d of %d files", s.files, max(s.found.Files, s.files))
}

func (s copyState) speed() string { return console.FormatRate(s.rate) }

func (s copyState) wait() string {
	if left := s.left(); left > 0 {
		return fmt.Sprintf("%v left", left)
	}
	return ""
}
