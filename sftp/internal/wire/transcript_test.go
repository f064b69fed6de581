package wire

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestPackets parses the packets in testdata/packets.txt and writes them again. Other programs made
// these packets, so the test finds even a mistake that the reading and the writing code share.
func TestPackets(t *testing.T) {
	script, err := os.ReadFile("testdata/packets.txt")
	if err != nil {
		t.Fatal(err)
	}
	want, seen := "", map[string]bool{}
	var packet []byte
	for line := range strings.Lines(string(script) + "end\n") {
		line = strings.TrimSuffix(line, "\n")
		if part, ok := strings.CutPrefix(line, "  "); ok {
			b, err := unhex(part)
			if err != nil {
				t.Fatalf("%s: %s: %v", want, line, err)
			}
			packet = append(packet, b...)
		} else if line != "" && line[0] != '#' {
			if want != "" {
				bothWays(t, want, packet)
				kind, rest, _ := strings.Cut(want, " ")
				extension, _, _ := strings.Cut(rest, " ")
				seen[kind], seen[extension] = true, true
			}
			want, packet = line, nil
		}
	}
	for _, name := range typeNames {
		if name != "" && !seen[name] {
			t.Errorf("no %s", name)
		}
	}
	for e := Extension(1); e < numExtensions; e++ {
		if !seen[e.String()] {
			t.Errorf("no %v", e)
		}
	}
}

// bothWays parses a packet, compares it with the expected result, and writes it again.
func bothWays(t *testing.T, want string, packet []byte) {
	var got string
	var again []byte
	h, err := ParseHeader(packet)
	if err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	if h.Type == TypeVersion || h.Type > TypeSymlink && h.Type != TypeExtended {
		p := mustParseReply(t, packet)
		var e Extension
		if fields := strings.Fields(want); h.Type == TypeExtendedReply {
			e = extensionNamed([]byte(fields[1]))
		}
		if got, err = p.text(e); err == nil {
			again, err = p.again(nil, e)
		}
		if len(p.Language) > 0 {
			again = packet // a language is never sent
		}
	} else {
		var q Request
		if q, err = ParseRequest(packet); err == nil {
			got, again = q.text(), q.again(nil)
		}
	}
	if err != nil || got != want {
		t.Errorf("want %s,\n got %s, %v", want, got, err)
	} else if string(again) != string(packet) {
		t.Errorf("%s:\nwant %x,\n got %x", want, packet, again)
	}
}

// unhex reads bytes in hexadecimal, and text in quotes.
func unhex(s string) (b []byte, err error) {
	for s = strings.TrimLeft(s, " "); s != ""; s = strings.TrimLeft(s, " ") {
		if s[0] == '"' {
			text, rest, ok := strings.Cut(s[1:], `"`)
			if !ok {
				return nil, fmt.Errorf("no end of %s", s)
			}
			b, s = append(b, text...), rest
			continue
		}
		word, rest, _ := strings.Cut(s, " ")
		bytes, err := hex.DecodeString(word)
		if err != nil {
			return nil, err
		}
		b, s = append(b, bytes...), rest
	}
	return b, nil
}
