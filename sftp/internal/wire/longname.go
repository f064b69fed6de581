package wire

import (
	"strconv"
	"time"
)

// recent is how near to now a file was changed whose line shows the time of day
// rather than the year: half a year, as with ls.
const recent = 365 * 24 * time.Hour / 2

// AppendLongName appends a line such as ls -l prints for a file, which is the
// second name that version 3 wants in a NAME reply (draft, section 7). Clients
// are not to take it apart, and do, so the columns are those of the draft:
//
//	-rwxr-xr-x   1 1000     100        348911 Mar 25 14:29 name
//	-rwxr-xr-x   1 1000     100        348911 Mar 25  2019 name
//
// Owners are shown as numbers. The date is in now's time zone, with the year if
// it is more than half a year from now, before or after. Attributes that a does not
// have are shown as zero.
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

// appendRight appends a number that ends at the end of its column.
func appendRight(b []byte, v uint64, width int) []byte {
	var digits [20]byte
	d := strconv.AppendUint(digits[:0], v, 10)
	for range width - len(d) {
		b = append(b, ' ')
	}
	return append(b, d...)
}

// appendLeft appends one that begins at the beginning.
func appendLeft(b []byte, v uint64, width int) []byte {
	n := len(b) + width
	b = strconv.AppendUint(b, v, 10)
	for len(b) < n {
		b = append(b, ' ')
	}
	return b
}
