package console

import (
	"fmt"
	"strconv"
	"time"
)

// FormatDuration rounds a duration, so that only the digits remain that matter to a reader.
func FormatDuration(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// PerSecond returns the rate per second of a number of bytes, or of packets, that took the time d.
func PerSecond(bytes int64, d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64(float64(bytes) / d.Seconds())
}

// FormatBytes formats a number of bytes in decimal units, which are usual for networks.
func FormatBytes(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d B", n)
}

// FormatRate formats a rate in bytes per second, in decimal units.
func FormatRate(n int64) string { return FormatBytes(n) + "/s" }

// Plural returns a number followed by the noun `what`, with a plural s if necessary: "1 file",
// "2 files".
func Plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// HumanSize formats a size in units of 1024, as ls -h and df -h do. It rounds up, to one decimal if
// the number is below ten.
func HumanSize(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(max(n, 0), 10)
	}
	const units = "KMGTPE"
	step, unit := uint64(1024), 0
	for uint64(n)/step >= 1024 {
		step *= 1024
		unit++
	}
	whole, rest := uint64(n)/step, uint64(n)%step
	if tenths := whole*10 + (rest*10+step-1)/step; tenths < 100 {
		return fmt.Sprintf("%d.%d%c", tenths/10, tenths%10, units[unit])
	}
	if rest > 0 {
		whole++
	}
	if whole == 1024 {
		return "1.0" + units[unit+1:unit+2]
	}
	return fmt.Sprintf("%d%c", whole, units[unit])
}
