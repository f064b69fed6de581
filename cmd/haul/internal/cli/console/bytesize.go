package console

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// A ByteSize is a number of bytes that a user types with a unit, as explained in "haul help sizes".
// A pointer to it can be the value of a flag.
type ByteSize int64

// byteUnits maps the units, in lower case, to their sizes in bytes.
var byteUnits = map[string]int64{
	"": 1, "b": 1,
	"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
	"t": 1 << 40, "tib": 1 << 40, "tb": 1e12,
}

// errSize explains the syntax of sizes. The caller names the flag.
var errSize = errors.New(`not a size: write a number of bytes, or 20M (20,971,520 bytes) or 20MB (20,000,000 bytes); see "haul help sizes"`)

// Set parses a number with a unit, as a user types it.
func (s *ByteSize) Set(text string) error {
	digits := strings.TrimRight(text, "bBiIkKmMgGtT")
	unit, ok := byteUnits[strings.ToLower(text[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 0 || n > math.MaxInt64/unit {
		return errSize
	}
	*s = ByteSize(n * unit)
	return nil
}

// String returns the size in the syntax of Set.
func (s *ByteSize) String() string {
	if *s == 0 {
		return "0" // without a unit, because package pflag does not print the default "0"
	}
	return FormatSize(int64(*s))
}

// Type returns the kind of value, for help texts.
func (s *ByteSize) Type() string { return "SIZE" }

// FormatSize formats a size exactly, in the syntax of [ByteSize.Set], with the largest unit that
// divides it.
func FormatSize(n int64) string {
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "kB"} {
		if size := byteUnits[strings.ToLower(unit)]; n != 0 && n%size == 0 {
			return strconv.FormatInt(n/size, 10) + unit
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}
