package main

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// A byteSize is a flag's number of bytes, in the units of coreutils: 64k and
// 64KiB are 65,536, 64kB is 64,000.
type byteSize int64

// byteUnits are the units, in lower case but for what tells them apart.
var byteUnits = map[string]int64{
	"": 1, "b": 1,
	"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
	"t": 1 << 40, "tib": 1 << 40, "tb": 1e12,
}

// Set reads a size as it is typed.
func (s *byteSize) Set(text string) error {
	digits := strings.TrimRight(text, "bBiIkKmMgGtT")
	unit, ok := byteUnits[strings.ToLower(text[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 0 || n > math.MaxInt64/unit {
		return errors.New("no size; give bytes, or a number with k, M, G (of 1024) or kB, MB, GB (of 1000)") // the caller names it
	}
	*s = byteSize(n * unit)
	return nil
}

// String returns the size in bytes.
func (s *byteSize) String() string { return strconv.FormatInt(int64(*s), 10) }

// Type names what Set takes, for the help text.
func (s *byteSize) Type() string { return "bytes" }

// formatSize writes a size exactly, in the largest unit that divides it.
func formatSize(n int64) string {
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if size := byteUnits[strings.ToLower(unit)]; n != 0 && n%size == 0 {
			return strconv.FormatInt(n/size, 10) + unit
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}
