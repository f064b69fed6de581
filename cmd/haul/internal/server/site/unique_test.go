package site

import (
	"path"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// A name of the maximum length is shortened to make room for the time.
func TestUniqueLongNames(t *testing.T) {
	stamp := time.Date(2026, 11, 22, 10, 15, 0, 123e6, time.UTC)
	for _, name := range []string{
		strings.Repeat("n", 255),
		"dir/" + strings.Repeat("n", 251) + ".txt",
		strings.Repeat("ü", 127),
		"short.txt",
	} {
		got := path.Base(uniqueName(name, stamp, 12))
		if len(got) > 255 || !utf8.ValidString(got) || !strings.Contains(got, "20261122T101500.123Z-12") || path.Ext(got) == "" {
			t.Errorf("%q becomes %q, %d bytes", name, got, len(got))
		}
	}
}
