package console

import (
	"time"
	"unicode/utf8"
)

// Unknown stands in a column for a value that is not known.
const Unknown = "-"

// ListTime formats a time as ls -l does: with the hour if it is within the last half year,
// otherwise with the year.
func ListTime(t, now time.Time) string {
	const halfYear = 365 * 24 * time.Hour / 2
	switch t = t.Local(); {
	case t.IsZero():
		return Unknown
	case t.After(now.Add(-halfYear)) && t.Before(now.Add(time.Minute)):
		return t.Format("Jan _2 15:04")
	}
	return t.Format("Jan _2  2006")
}

// ColumnWidths returns the width of each column, in characters.
func ColumnWidths(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		widths = append(widths, make([]int, max(0, len(row)-len(widths)))...)
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}
