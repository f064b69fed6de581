package protocol

import (
	"bytes"
	"testing"
)

func TestNetascii(t *testing.T) {
	for text, want := range map[string]string{
		"":             "",
		"plain":        "plain",
		"a\nb\n":       "a\r\nb\r\n",
		"\n\n":         "\r\n\r\n",
		"a\rb":         "a\r\x00b",
		"a\r\nb":       "a\r\x00\r\nb",
		"\r":           "\r\x00",
		"\x00\xff\r\r": "\x00\xff\r\x00\r\x00",
	} {
		if got := AppendNetascii(nil, []byte(text)); string(got) != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		if got := decodeNetascii([]byte(want), len(want)+1); string(got) != text {
			t.Errorf("%q became %q, want %q", want, got, text)
		}
	}
	// Bytes that are not valid netascii are kept.
	for ascii, want := range map[string]string{
		"a\nb": "a\nb", "a\rb": "a\rb", "a\r": "a\r", "\r\r\n": "\r\n", "\r\r\x00": "\r\r", "\r\r": "\r\r",
	} {
		if got := decodeNetascii([]byte(ascii), len(ascii)+1); string(got) != want {
			t.Errorf("%q became %q, want %q", ascii, got, want)
		}
	}
}

func decodeNetascii(b []byte, piece int) []byte {
	var d NetasciiDecoder
	var dst []byte
	for len(b) > 0 {
		n := min(piece, len(b))
		dst = d.Append(dst, b[:n])
		b = b[n:]
	}
	return d.End(dst)
}

func FuzzNetascii(f *testing.F) {
	f.Add([]byte("a\r\nb\rc\n\r"), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, n uint8) {
		piece := int(n)%16 + 1
		ascii := AppendNetascii(nil, text)
		if got := decodeNetascii(ascii, piece); !bytes.Equal(got, text) {
			t.Fatalf("%q by way of %q became %q", text, ascii, got)
		}
		// Any text decodes to the same bytes, however it is cut into pieces, and never becomes
		// longer.
		if got := decodeNetascii(text, piece); !bytes.Equal(got, decodeNetascii(text, len(text)+1)) || len(got) > len(text) {
			t.Fatalf("%q became %q in pieces of %d", text, got, piece)
		}
	})
}
