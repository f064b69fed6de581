//go:build unix

package main

import (
	"testing"
)

// An upload that announces more than the free space is refused at once, and not when the disk is
// full.
func TestServeUploadThatDoesNotFit(t *testing.T) {
	dir := t.TempDir()
	c := startChild(t, childOptions{}, dir, "--upload", "create", "--max-upload", "9223372036854775807")
	raw := c.dial()
	raw.send("\x00\x02image\x00octet\x00tsize\x009223372036854775806\x00")
	if got := raw.receive(); got != "\x00\x05\x00\x03no space left on the server\x00" {
		t.Errorf("an upload of 8 EiB: %q", got)
	}
	c.wantPut("small", "fits", 0)
	c.stop()
}
