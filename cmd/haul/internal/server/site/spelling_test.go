package site_test

import (
	"context"
	"io/fs"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/store"
	"golang.org/x/text/unicode/norm"
)

// A respelling is a store that finds files by other spellings of their names, as some file systems
// do.
type respelling struct {
	store.Store
	key   func(string) string
	names map[string]string // by key
}

func respell(t *testing.T, key func(string) string, files ...string) respelling {
	s := respelling{mem(t, "", files...), key, map[string]string{}}
	for _, name := range files {
		s.names[key(name)] = name
	}
	return s
}

func (s respelling) real(name string) string {
	if real := s.names[s.key(name)]; real != "" {
		return real
	}
	return name
}

func (s respelling) Open(ctx context.Context, name string) (store.File, error) {
	return s.Store.Open(ctx, s.real(name))
}

func (s respelling) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return s.Store.Stat(ctx, s.real(name))
}

// Foldings of file systems, independent of the code of the rules.
func ntfsKey(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "\u212a", "k")) }
func hfsKey(s string) string {
	return norm.NFD.String(ntfsKey(strings.NewReplacer("\u200c", "", "\u200d", "", "\ufeff", "", "\ufe0f", "", "\u2062", "").Replace(s)))
}
func apfsKey(s string) string {
	return hfsKey(strings.NewReplacer("ß", "ss", "ẞ", "ss", "ﬁ", "fi", "ﬃ", "ffi", "ᾳ", "αι").Replace(s))
}

// A rule that denies a file denies it under all spellings that lead to it.
func TestDenySpellings(t *testing.T) {
	tests := []struct {
		key              func(string) string
		file, rule, name string
	}{
		{ntfsKey, "disk.key", "*.key", "disk.\u212aey"},
		{ntfsKey, "DISK.\u212aEY", "*.\u212aEY", "disk.key"},
		{hfsKey, "café/f", "/café/**", "cafe\u0301/f"},
		{hfsKey, "cafe\u0301/f", "/cafe\u0301/**", "café/f"},
		{hfsKey, "café/f", "/cafe\u0301/**", "CAFÉ/f"},
		{hfsKey, "café", "caf?", "CAFE\u0301"},
		{hfsKey, "café", "caf[éè]", "cafe\u0301"},
		{hfsKey, "Å.key", "Å.key", "\u212b.KEY"},
		{hfsKey, "a\u0323\u0307", "\u1ea1\u0307", "\u0227\u0323"},
		{hfsKey, "가", "가", "\u1100\u1161"},
		{hfsKey, "disk.key", "*.key", "disk.k\u200dey"},
		{hfsKey, "disk.key", "*.key", "\ufeffdisk.key\ufe0f"},
		{hfsKey, "disk.key", "disk.key", "di\u2062sk.key"},
		{apfsKey, "straße", "straße", "STRASSE"},
		{apfsKey, "strasse", "strasse", "straße"},
		{apfsKey, "strasse", "s*sse", "STRAẞE"},
		{apfsKey, "office", "office", "oﬃce"},
		{apfsKey, "file", "[a-f]ile", "ﬁle"},
		{apfsKey, "ᾳ", "ᾳ", "αι"},
		{apfsKey, "straße", "stra?e", "strasse"},
		{apfsKey, "straße", "stra[ß]e", "STRASSE"},
		{apfsKey, "straße", "stra[a-zß]e", "strasse"},
		{apfsKey, "straße", "stra[^0-9]e", "strasse"},
		{apfsKey, "ßass", "?a??", "ssaß"},
		{apfsKey, "oﬃce", "o?ce", "office"},
		{apfsKey, "ᾳ", "[ᾳ]", "αι"},
		{hfsKey, "café", "caf[^e]", "cafe\u0301"},
		{hfsKey, "cafe\u0301", "cafe?", "café"},
		{hfsKey, "\u0958", "?", "\u0915\u093c"},
		{hfsKey, "가", "[나가]", "\u1100\u1161"},
		{hfsKey, "가", "?", "\u1100\u1161"},
	}
	for _, test := range tests {
		s := &site.Site{Roots: []site.Root{{Files: respell(t, test.key, test.file)}}}
		for _, name := range []string{test.file, test.name} {
			if got := read(t, s, client("10.0.0.1"), name); got != test.file {
				t.Errorf("without a rule %q leads to %q, not to %q", name, got, test.file)
			}
		}
		s.Access = rules(t, "deny read * "+test.rule)
		for _, name := range []string{test.file, test.name} {
			if got := read(t, s, client("10.0.0.1"), name); got != "refused: access denied" {
				t.Errorf("%s denied: %+q leads to %q", test.rule, name, got)
			}
		}
	}
}

// A rule denies only spellings of the names that it matches. An allowing rule ignores other
// spellings.
func TestDenyNoMore(t *testing.T) {
	s := &site.Site{Roots: []site.Root{{Files: mem(t, "", "cafe", "café", "strase", "straße", "file2", "file²", "k", "κ")}}, FoldCase: true}
	for rule, name := range map[string]string{"café": "cafe", "cafe": "café", "straße": "strase", "file2": "file²", "k": "κ",
		"stra?se": "café", "caf": "cafe", "[^a-z]ile2": "file2", "f[^a-z]le2": "file2", "caf?e": "cafe", "stra[a-z]": "strase"} {
		s.Access = rules(t, "deny read * "+rule)
		if got := read(t, s, client("10.0.0.1"), name); got != name {
			t.Errorf("%s denied: %q leads to %q", rule, name, got)
		}
	}
	s.Access = rules(t, "allow read * strasse", "allow read * cafe\u0301", "deny all *")
	for _, name := range []string{"straße", "café"} {
		if got := read(t, s, client("10.0.0.1"), name); got != "refused: access denied" {
			t.Errorf("%q is allowed by another spelling: %q", name, got)
		}
	}
}

// A text that is a pattern in one form only is refused.
func TestPatternForms(t *testing.T) {
	for _, text := range []string{"a\\\u200d", "[\u200d]", "[a-z\u0301]"} {
		if _, err := site.ParsePattern(text); err == nil {
			t.Errorf("%+q is a pattern", text)
		}
	}
}
