package main

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp"
)

// The last line of haul get and haul put over TFTP counts the packets per second in both
// directions: in lock-step, one DATA and one ACK for each block.
func TestPacketsPerSecond(t *testing.T) {
	const blocks = 2000
	long := strings.Repeat("x", 512*blocks-1)
	_, url := startServer(t, tftp.CreateUploads, map[string]string{"long": long})
	local := filepath.Join(t.TempDir(), "long")
	line := regexp.MustCompile(`long: 1\.0 MB in (\S+), \S+ \S+/s, (\d+) packets/s, (\d+) resends\n`)
	for _, args := range [][]string{
		{"get", url + "long", local},
		{"put", local, url + "new-long"},
	} {
		code, _, msg := haul(t, append(args, "--blksize", "512", "--windowsize", "1")...)
		m := line.FindStringSubmatch(msg)
		if code != 0 || m == nil {
			t.Fatalf("%q: exit code %d, %q", args, code, msg)
		}
		took, err := time.ParseDuration(m[1])
		if err != nil {
			t.Fatal(err)
		}
		rate, _ := strconv.ParseFloat(m[2], 64)
		resends, _ := strconv.ParseFloat(m[3], 64)
		// The time is rounded, by at most 10 % for 4000 packets.
		least, most := 0.9*2*blocks, 1.1*2*blocks+10+2*resends
		if n := rate * took.Seconds(); n < least || n > most {
			t.Errorf("%q: %v packets in a line that says %q, want %v to %v", args, n, m[0], least, most)
		}
	}
}
