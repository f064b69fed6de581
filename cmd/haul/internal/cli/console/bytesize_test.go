package console

import (
	"strings"
	"testing"
)

func TestByteSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "512": 512, "512B": 512, "64k": 65536, "64K": 65536, "64KiB": 65536, "64kB": 64000, "64KB": 64000,
		"10MB": 10_000_000, "20m": 20 << 20, "20M": 20 << 20, "20MiB": 20 << 20, "2G": 2 << 30, "3GB": 3_000_000_000, "1TB": 1e12, "1TiB": 1 << 40,
	} {
		var s ByteSize
		if err := s.Set(text); err != nil || int64(s) != want {
			t.Errorf("%q is %d (%v), want %d", text, int64(s), err, want)
		}
		var again ByteSize
		if err := again.Set(s.String()); err != nil || again != s {
			t.Errorf("%q is written as %q, which is read as %d (%v)", text, s.String(), int64(again), err)
		}
	}
	for _, text := range []string{"", "k", "-1", "1.5M", "1kk", "1X", "9999999999G", "B1", "1 M"} {
		var s ByteSize
		if err := s.Set(text); err == nil || !strings.Contains(err.Error(), "haul help sizes") {
			t.Errorf("%q is taken for %d (%v)", text, int64(s), err)
		}
	}
}
