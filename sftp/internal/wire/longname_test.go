package wire

import (
	"testing"
	"time"
)

func TestAppendLongName(t *testing.T) {
	zone := time.FixedZone("here", 2*60*60)
	now := time.Date(2026, 3, 25, 18, 0, 0, 0, zone)
	at := func(month time.Month, day, year int) time.Time {
		return time.Date(year, month, day, 14, 29, 59, 0, zone)
	}
	for _, test := range []struct {
		name  string
		mode  Mode
		links uint64
		owner [2]uint32
		size  int64
		mtime time.Time
		want  string
	}{
		{"t-filexfer", 0o100755, 1, [2]uint32{1000, 100}, 348911, at(3, 25, 2026),
			"-rwxr-xr-x   1 1000     100        348911 Mar 25 14:29 t-filexfer"},
		{"dir", 0o040755, 12, [2]uint32{0, 0}, 4096, at(3, 1, 2026),
			"drwxr-xr-x  12 0        0            4096 Mar  1 14:29 dir"},
		{"old", 0o100644, 1, [2]uint32{0, 0}, 0, at(12, 31, 2019),
			"-rw-r--r--   1 0        0               0 Dec 31  2019 old"},
		{"half a year less an hour", 0o100644, 1, [2]uint32{0, 0}, 1, now.Add(-recent + time.Hour),
			"-rw-r--r--   1 0        0               1 Sep 24 07:00 half a year less an hour"},
		{"half a year and an hour", 0o100644, 1, [2]uint32{0, 0}, 1, now.Add(-recent - time.Hour),
			"-rw-r--r--   1 0        0               1 Sep 24  2025 half a year and an hour"},
		{"a clock that is ahead", 0o100644, 1, [2]uint32{0, 0}, 1, now.Add(time.Minute),
			"-rw-r--r--   1 0        0               1 Mar 25 18:01 a clock that is ahead"},
		{"far ahead", 0o100644, 1, [2]uint32{0, 0}, 1, at(1, 2, 2100),
			"-rw-r--r--   1 0        0               1 Jan  2  2100 far ahead"},
		{"wide", 0o100644, 123456, [2]uint32{1<<32 - 1, 1<<32 - 1}, 1<<63 - 1, at(3, 25, 2026),
			"-rw-r--r-- 123456 4294967295 4294967295 9223372036854775807 Mar 25 14:29 wide"},
	} {
		var a Attrs
		a.SetMode(test.mode)
		a.SetOwner(test.owner[0], test.owner[1])
		a.SetSize(test.size)
		a.SetTimes(test.mtime, test.mtime)
		if got := string(AppendLongName([]byte("> "), test.name, a, test.links, now)); got != "> "+test.want {
			t.Errorf("%s:\nwant %s,\n got %s", test.name, test.want, got)
		}
	}
	want := "?---------   0 0        0               0 Jan  1  1970 nothing known"
	if got := string(AppendLongName(nil, "nothing known", Attrs{}, 0, now)); got != want {
		t.Errorf("want %s,\n got %s", want, got)
	}
}
