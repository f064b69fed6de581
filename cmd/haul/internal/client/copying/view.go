package copying

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
)

const (
	// maxFileLines is the maximum number of files that are shown with a line each.
	maxFileLines = 16

	// barWidth is the width of a file's bar in columns, including both ends. If there is only one
	// file, its bar has minBar to maxBar columns instead.
	barWidth, minBar, maxBar = 22, 12, 40

	// countersWidth is the width of "999.9 MB of 999.9 MB" with two spaces before it;
	// percentWidth and sizeWidth are the widths of "100 %" and "999.9 MB" with one space.
	countersWidth, percentWidth, sizeWidth = 22, 6, 9

	// A file's line shows counters if it has at least countersFrom columns, and also a bar if it
	// has at least barFrom columns.
	countersFrom, barFrom = 38, 60
)

// lines returns the lines that show the state: a line for each active file, as many as fit,
// beginning with the file that began first, and then a line for the total. If there is only one
// file, there is only one line.
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

// columnsBeside returns how many columns of a file's line are used for everything except the name.
func columnsBeside(columns int) int {
	switch {
	case columns >= barFrom:
		return barWidth + 1 + percentWidth + countersWidth
	case columns >= countersFrom:
		return percentWidth + countersWidth
	}
	return sizeWidth
}

// line returns the line that shows a file and its progress. The line begins with `label`.
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

// singleLine returns the line that shows the copy of a single file.
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

// percentOf returns done as a percentage of whole, from 0 to 100.
func percentOf(done, whole int64) int {
	return int(min(max(float64(done)/float64(whole)*100, 0), 100))
}

// String describes the state with all its parts.
func (s copyState) String() string {
	return s.text(s.percent(), s.bytes(), s.count(), s.speed(), s.wait())
}

// fitting describes the state in at most the given number of columns. If no text fits, it returns a
// short text, which the caller must clip.
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

// text joins the parts that are not empty.
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
	if s.found.Bytes == 0 && s.found.Files == 1 { // there is only one file, and its size is unknown
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
