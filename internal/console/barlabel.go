package console

import (
	"path"
	"strings"

	"github.com/mattn/go-runewidth"
)

// minLabel and maxLabel bound the part of a name that a bar shows, in columns.
const minLabel, maxLabel = 8, 30

// BarLabel shortens a name to so many columns, for a bar; minLabel is the least. A long
// name loses its middle, because files of a directory often begin alike.
func BarLabel(name string, columns int) string {
	label := Visible(path.Base(name))
	columns = min(max(columns, minLabel), maxLabel)
	if runewidth.StringWidth(label) <= columns {
		return label
	}
	half := columns / 2
	return runewidth.Truncate(label, columns-half, "…") + strings.TrimLeft(runewidth.TruncateLeft(label, runewidth.StringWidth(label)-half, ""), " ") // half a wide character is a space
}
