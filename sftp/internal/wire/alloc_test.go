package wire

import (
	"testing"
	"time"
)

// The packets of a transfer or a listing are written into a buffer with room, and read, without any
// allocation.

func TestWritingAllocatesNothing(t *testing.T) {
	b := make([]byte, 0, 4096)
	data := make([]byte, 1000)
	now := time.Unix(1_700_000_000, 0)
	var long []byte
	for what, f := range map[string]func(){
		"many READs": func() {
			b = b[:0]
			for id := range uint32(64) {
				b = AppendRead(b, id, "\x00\x00\x00\x01", int64(id)<<15, 1<<15)
			}
		},
		"WRITE":     func() { b = AppendWrite(b[:0], 1, "\x00\x00\x00\x01", 1<<15, data) },
		"OPEN":      func() { b = AppendOpen(b[:0], 1, "dir/file", OpenRead, someAttrs) },
		"fsync":     func() { b = AppendFsync(b[:0], 1, "\x00\x00\x00\x01") },
		"DATA":      func() { b = AppendData(b[:0], 1, data) },
		"STATUS":    func() { b = AppendStatus(b[:0], 1, OK, "") },
		"a failure": func() { b = AppendStatus(b[:0], 1, Failure, "disk full") },
		"HANDLE":    func() { b = AppendHandle(b[:0], 1, "\x00\x00\x00\x01") },
		"ATTRS":     func() { b = AppendAttrs(b[:0], 1, someAttrs) },
		"NAME": func() {
			b = AppendNames(b[:0], 1)
			for range 10 {
				long = AppendLongName(long[:0], "file", someAttrs, 1, now)
				b = AppendEntry(b, 0, "file", long, someAttrs)
			}
		},
	} {
		if n := testing.AllocsPerRun(100, f); n > 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	for _, test := range requests {
		var q Request
		if n := testing.AllocsPerRun(100, func() { q, _ = ParseRequest(test.packet) }); n > 0 {
			t.Errorf("%.100s: %v allocations", q.text(), n)
		}
	}
	for _, test := range replies {
		var entries, pairs int
		if n := testing.AllocsPerRun(100, func() {
			p, _ := ParseReply(test.packet)
			for e := range p.Names.All() {
				entries += len(e.Name)
			}
			pairs += int(p.Pairs.Known())
		}); n > 0 {
			t.Errorf("%s: %v allocations", test.want, n)
		}
	}
	packet := AppendData(nil, 7, make([]byte, 1000))
	if n := testing.AllocsPerRun(100, func() {
		if h, err := ParseHeader(packet[:HeaderSize]); err != nil || h.Type != TypeData {
			t.Errorf("%+v, %v", h, err)
		}
		if id, n, extra, err := ParseDataHeader(packet[:DataHeaderSize]); id != 7 || n != 1000 || extra != 0 || err != nil {
			t.Errorf("id %d, %d bytes and %d, %v", id, n, extra, err)
		}
	}); n > 0 {
		t.Errorf("DATA by its header: %v allocations", n)
	}
}
