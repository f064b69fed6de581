//go:build unix

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// wantPcap checks that a file is valid pcapng, and contains a request for a name.
func wantPcap(t *testing.T, path, name string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// draft-ietf-opsawg-pcapng: a block consists of its type, its length, its body, and its length
	// again.
	const section, packet, magic = 0x0a0d0d0a, 6, 0x1a2b3c4d
	if len(b) < 12 || binary.LittleEndian.Uint32(b) != section || binary.LittleEndian.Uint32(b[8:]) != magic {
		t.Fatalf("%s does not begin as pcapng does: % x", path, b[:min(len(b), 12)])
	}
	packets, asked := 0, false
	for len(b) > 0 {
		size := 0
		if len(b) >= 12 {
			size = int(binary.LittleEndian.Uint32(b[4:]))
		}
		if size < 12 || size > len(b) || int(binary.LittleEndian.Uint32(b[size-4:])) != size {
			t.Fatalf("%s: a block of %d bytes, with %d left", path, size, len(b))
		}
		if binary.LittleEndian.Uint32(b) == packet {
			packets++
			asked = asked || strings.Contains(string(b[:size]), readRequest(name)[:2+len(name)])
		}
		b = b[size:]
	}
	if !asked || packets < 3 {
		t.Errorf("%s has %d packets, a request for %s among them: %v", path, packets, name, asked)
	}
}

// A line of the log comes after the packets that it is about, received and sent.
func TestServeTraceOrder(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "kernel"), "image")
	c := startChild(t, childOptions{}, dir, "--trace", "--upload", "create")
	for i := range 20 {
		c.wantGet("kernel", "image")
		c.wantPut(fmt.Sprint("new", i), "text", 0)
		c.wantPut("kernel", "text", exitRefused)
		c.wantNoGet("none", exitNotFound)
	}
	c.await("file=none ", "\n")
	before := map[string]string{ // the client's or server's last packet
		"result=done direction=read":     "ACK 1",
		"result=done direction=write":    "ACK 1",
		"result=refused direction=read":  "ERROR 1 ",
		"result=refused direction=write": "ERROR 6 ",
	}
	last, seen := map[string]string{}, 0 // packets, by the client's port
	for line := range strings.Lines(c.stop()) {
		if _, packet, ok := strings.Cut(line, " > "); ok {
			for word := range strings.FieldsSeq(line) {
				last[word] = packet
			}
			continue
		}
		_, rest, _ := strings.Cut(line, " peer=")
		peer, _, ok := strings.Cut(rest, " ")
		if !ok {
			continue
		}
		for result, want := range before {
			if strings.Contains(line, result) {
				seen++
				if !strings.Contains(last[peer], want) {
					t.Errorf("before %q the last packet is %q, want %s", line, last[peer], want)
				}
			}
		}
	}
	if seen != 80 {
		t.Errorf("%d transfers in the log, want 80", seen)
	}
}
