package fileops

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// The lines match those of sha256sum in GNU coreutils 9.7.
func TestFormatSum(t *testing.T) {
	a, _ := algorithmNamed("md5")
	sum, _ := hex.DecodeString("d41d8cd98f00b204e9800998ecf8427e")
	for _, c := range []struct {
		name     string
		tag, raw bool
		want     string
	}{
		{"f", false, false, "d41d8cd98f00b204e9800998ecf8427e  f"},
		{"f", true, false, "MD5 (f) = d41d8cd98f00b204e9800998ecf8427e"},
		{"a\\b\nc\rd", false, false, `\d41d8cd98f00b204e9800998ecf8427e  a\\b\nc\rd`},
		{"a\nb) = ", true, false, `\MD5 (a\nb) = ) = d41d8cd98f00b204e9800998ecf8427e`},
		{"a\\b\nc", false, true, "d41d8cd98f00b204e9800998ecf8427e  a\\b\nc"},
	} {
		got := formatSum(a, sum, c.name, c.tag, c.raw)
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.name, got, c.want)
		}
		if back, ok := new(sumParser).parse(got); !c.raw && (!ok || back.name != c.name || !bytes.Equal(back.sum, sum)) {
			t.Errorf("%q is read as %q, %v", got, back.name, ok)
		}
	}
}

// Lines that sha256sum refuses are refused. Without a given algorithm, the length of the sum or the
// tag decides.
func TestParseSum(t *testing.T) {
	md5, sha1 := strings.Repeat("0a", 16), strings.Repeat("0a", 20)
	for line, want := range map[string]string{
		md5 + "  f": "md5 f", sha1 + " *f": "sha1 f", "  " + sha1 + "  f": "sha1 f", "SHA1 (f) = " + sha1: "sha1 f", "SHA1(f)= " + sha1: "sha1 f",
		strings.ToUpper(md5) + "  f": "md5 f", md5 + " f": "md5 f", md5 + "\t f": "md5 f", md5 + "   f": "md5  f", `\` + md5 + `  a\\b`: `md5 a\b`,
		md5: "", md5 + " ": "", md5 + "x  f": "", md5[1:] + "  f": "", "zz" + md5[2:] + "  f": "", "MD5 (f) = " + sha1: "", "SHA1 (f = " + sha1: "", "SHA1 (f) " + sha1: "",
		`\` + md5 + `  a\b`: "", `\` + md5 + `  a\`: "", md5 + "  a\x00b": "", "MD5 () = " + md5: "", "": "", "(": "", `\`: "", "sha1 (f) = " + sha1: "",
	} {
		l, ok := new(sumParser).parse(line)
		got := ""
		if ok {
			got = l.algorithm.name + " " + l.name
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	// Only lines of the requested algorithm are accepted.
	a, _ := algorithmNamed("sha1")
	for line, want := range map[string]bool{md5 + "  f": false, sha1 + "  f": true, "MD5 (f) = " + md5: false, "SHA1 (f) = " + sha1: true} {
		if _, ok := (&sumParser{only: &a}).parse(line); ok != want {
			t.Errorf("by SHA-1, %q: %v", line, ok)
		}
	}
	// One or two separators may follow the sum, but a list may not mix them.
	p := new(sumParser)
	for i, line := range []string{md5 + " f", md5 + "  f", md5 + " *f"} {
		if l, ok := p.parse(line); !ok || l.name != []string{"f", " f", "*f"}[i] {
			t.Errorf("%q behind others with one space: %q, %v", line, l.name, ok)
		}
	}
	p = new(sumParser)
	for i, line := range []string{md5 + "  f", md5 + " f"} {
		if _, ok := p.parse(line); ok != (i == 0) {
			t.Errorf("%q: %v", line, ok)
		}
	}
}

// Any line is parsed without a panic, and an accepted line has a name and a sum.
func FuzzParseSum(f *testing.F) {
	f.Add(`\` + strings.Repeat("0", 64) + `  a\nb`)
	f.Add("SHA256 (x) = " + strings.Repeat("0", 64))
	f.Fuzz(func(t *testing.T, line string) {
		if l, ok := new(sumParser).parse(line); ok && (l.name == "" || len(l.sum) != l.bytes || strings.ContainsRune(l.name, 0)) {
			t.Errorf("%q: %+v", line, l)
		}
	})
}
