//go:build unix

package main

import (
	"strings"
	"testing"
	"time"
)

// --blksize and --windowsize bound the options of TFTP clients, --refuse ignores some, and
// --max-per-client and --max-transfers bound the number of transfers.
func TestServeTFTPLimits(t *testing.T) {
	image := strings.Repeat("x", 10_000)
	dir := servedDir(t, map[string]string{"image": image})
	const ask = "\x00\x01image\x00octet\x00blksize\x001400\x00tsize\x000\x00windowsize\x0064\x00"
	for flag, refusal := range map[string]string{
		"--max-per-client": "too many transfers of this address",
		"--max-transfers":  "server is busy, try again",
	} {
		c := startChild(t, childOptions{}, dir, "--blksize", "600", "--windowsize", "4", "--refuse", "tsize 127.0.0.0/8", "--loops", "1", flag, "1")
		first := c.dial()
		first.send(ask)
		first.want("\x00\x06blksize\x00600\x00windowsize\x004\x00")
		first.send("\x00\x04\x00\x00")
		for block := range 4 {
			first.want("\x00\x03\x00" + string(rune(block+1)) + image[:600])
		}
		first.send("\x00\x04\x00\x01") // the transfer is now established, and does not make room for others
		first.want("\x00\x03\x00\x05" + image[:600])
		second := c.dial()
		second.send(ask)
		second.want("\x00\x05\x00\x00" + refusal + "\x00")
		first.send("\x00\x05\x00\x00enough\x00")
		c.await(`result="ended by peer"`)
		// Another transfer can begin as soon as a worker has closed the file of the first transfer.
		for late := time.Now().Add(patience); ; {
			code, got, errs := haul(t, "get", "-q", c.url+"image", "-")
			if code == 0 && got == image {
				break
			}
			if !strings.Contains(errs, refusal) || time.Now().After(late) {
				t.Fatalf("%s: exit code %d, %d bytes, %s", flag, code, len(got), errs)
			}
		}
		c.stop()
	}
}
