package main

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const sizesHelp = `A SIZE on the command line is a whole number of bytes, or a whole number with a
unit. Upper and lower case mean the same.

  K, KiB   1,024                   KB   1,000
  M, MiB   1,048,576               MB   1,000,000
  G, GiB   1,073,741,824           GB   1,000,000,000
  T, TiB   1,099,511,627,776       TB   1,000,000,000,000

So --limit 20M is 20,971,520 bytes a second, and --limit 20MB is 20,000,000. dd, head,
split and others of coreutils read sizes in the same way.

What haul prints is in kB, MB and GB of 1,000, 1,000,000 and 1,000,000,000 bytes.
There are three exceptions: "haul ls -h" and "haul df -h" print K, M and G of 1,024, as ls
and df do; "haul df" without -h prints KiB; and "haul user list" prints each limit as an
exact SIZE.

The lengths of packets (--blksize, --mtu, --trace-hex) are plain numbers of bytes.`

// newSizes is "haul help sizes".
func newSizes() *cobra.Command {
	return &cobra.Command{Use: "sizes", Short: "How sizes are written: 20M, 20MiB, 20MB", Long: sizesHelp}
}

// A byteSize is a flag's number of bytes, as sizesHelp explains it.
type byteSize int64

// byteUnits are the units, in lower case.
var byteUnits = map[string]int64{
	"": 1, "b": 1,
	"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
	"t": 1 << 40, "tib": 1 << 40, "tb": 1e12,
}

// errSize is what is wrong with a size; the caller names the flag.
var errSize = errors.New(`not a size: write a number of bytes, or 20M (20,971,520 bytes) or 20MB (20,000,000 bytes); see "haul help sizes"`)

// Set reads a size as it is typed.
func (s *byteSize) Set(text string) error {
	digits := strings.TrimRight(text, "bBiIkKmMgGtT")
	unit, ok := byteUnits[strings.ToLower(text[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 0 || n > math.MaxInt64/unit {
		return errSize
	}
	*s = byteSize(n * unit)
	return nil
}

// String returns the size as Set reads it.
func (s *byteSize) String() string {
	if *s == 0 {
		return "0" // which package pflag knows not to print as a default
	}
	return formatSize(int64(*s))
}

// Type names what Set takes, for the help text.
func (s *byteSize) Type() string { return "SIZE" }

// sizeVar adds a flag that takes a size.
func sizeVar(flags *pflag.FlagSet, to *int64, name string, value int64, usage string) {
	*to = value
	flags.Var((*byteSize)(to), name, usage)
}

// formatSize writes a size exactly and so that Set reads it, in the largest unit
// that divides it.
func formatSize(n int64) string {
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "kB"} {
		if size := byteUnits[strings.ToLower(unit)]; n != 0 && n%size == 0 {
			return strconv.FormatInt(n/size, 10) + unit
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}
