package wire

import (
	"testing"
	"time"
)

func BenchmarkParseRequest(b *testing.B) {
	for name, packet := range map[string][]byte{
		"READ":  AppendRead(nil, 1, "\x00\x00\x00\x01", 1<<20, 1<<15),
		"WRITE": AppendWrite(nil, 1, "\x00\x00\x00\x01", 1<<20, make([]byte, 1<<15)),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := ParseRequest(packet); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParseDataHeader(b *testing.B) {
	packet := AppendDataHeader(nil, 1, 1<<15)
	for b.Loop() {
		if _, _, _, err := ParseDataHeader(packet); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendRead(b *testing.B) {
	buf := make([]byte, 0, 64)
	for b.Loop() {
		buf = AppendRead(buf[:0], 1, "\x00\x00\x00\x01", 1<<20, 1<<15)
	}
}

// BenchmarkListing writes and reads a NAME of a hundred files.
func BenchmarkListing(b *testing.B) {
	now := time.Unix(1_700_000_000, 0)
	var buf, long []byte
	for b.Loop() {
		buf = AppendNames(buf[:0], 1)
		for range 100 {
			long = AppendLongName(long[:0], "a-file-name.txt", someAttrs, 1, now)
			buf = AppendEntry(buf, 0, "a-file-name.txt", long, someAttrs)
		}
		p, err := ParseReply(buf)
		if err != nil {
			b.Fatal(err)
		}
		for e := range p.Names.All() {
			if len(e.Name) == 0 {
				b.Fatal("no name")
			}
		}
	}
}
