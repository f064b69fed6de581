package wire

import (
	"strconv"
	"time"
)

// recent is half a year, as in ls. A line shows the time of day if the file was changed less than
// that before or after now, and otherwise the year.
const recent = 365 * 24 * time.Hour / 2

// AppendLongName appends a line like those of ls -l for a file. Version 3 requires it as the second
// name in a NAME reply (draft, section 7). Clients should not parse it, but some do, so the columns
// are those of the draft:
//
//	-rwxr-xr-x   1 1000     100        348911 Mar 25 14:29 name
//	-rwxr-xr-x   1 1000     100        348911 Mar 25  2019 name
//
// Owners are shown as numbers. The date is in the time zone of `now`, and shows the year if it is
// more than half a year before or after `now`. Attributes that are missing in a are shown as zero.
func AppendLongName(b []byte, name string, a Attrs, links uint64, now time.Time) []byte {
	b = appendMode(b, a.Mode)
	b = appendRight(append(b, ' '), links, 3)
	b = appendLeft(append(b, ' '), uint64(a.UID), 8)
	b = appendLeft(append(b, ' '), uint64(a.GID), 8)
	b = appendRight(append(b, ' '), uint64(a.Size), 8)
	t := a.Modified().In(now.Location())
	layout := " Jan _2 15:04 "
	if t.Sub(now).Abs() > recent {
		layout = " Jan _2  2006 "
	}
	return append(t.AppendFormat(b, layout), name...)
}

// appendRight appends a number, aligned right in a column of at least `width` characters.
func appendRight(b []byte, v uint64, width int) []byte {
	var digits [20]byte
	d := strconv.AppendUint(digits[:0], v, 10)
	for range width - len(d) {
		b = append(b, ' ')
	}
	return append(b, d...)
}

// appendLeft appends a number, aligned left in a column of at least `width` characters.
func appendLeft(b []byte, v uint64, width int) []byte {
	n := len(b) + width
	b = strconv.AppendUint(b, v, 10)
	for len(b) < n {
		b = append(b, ' ')
	}
	return b
}
