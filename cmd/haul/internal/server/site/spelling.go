package site

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A form is a form in which names and patterns are compared. Many file systems find a file by
// several spellings of its name, so a rule that denies one spelling has to deny all of them. Each
// form treats more names as equal than the form before it. A class that begins with ^ is an
// exception, because it may match in an earlier form but not in the form `spelled`. So a name is
// compared in all forms up to the last one.
type form int

const (
	exact  form = iota
	folded      // ignores case, as NTFS does
	// spelled, too, ignores case. It also ignores invisible characters and the composition of
	// accents, and treats ß as ss, as HFS+, APFS, and ext4 with casefold do.
	spelled
	forms
)

// of returns s in the form f.
func (f form) of(s string) string {
	switch {
	case f == exact:
		return s
	case f == folded || isASCII(s):
		return fold(s)
	}
	s = fold(norm.NFD.String(expansions.Replace(strings.Map(visible, s))))
	// Replace the iota subscript by the letter iota. As a mark, it could change places with other
	// marks.
	return strings.ReplaceAll(s, "\u0345", "\u0399")
}

// fold returns s with a canonical case: strings that are equal by strings.EqualFold have the same
// result.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			least = min(least, o)
		}
		return least
	}, s)
}

// visible returns r, or -1 for a character that some file systems ignore
// (Default_Ignorable_Code_Point).
func visible(r rune) rune {
	if r >= utf8.RuneSelf && unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
		return -1
	}
	return r
}

// expansions are the full foldings (status F in CaseFolding.txt of Unicode) of
// characters that have no canonical decomposition.
var expansions = strings.NewReplacer(
	"ß", "ss", "ẞ", "ss", "ŉ", "ʼn", "ẚ", "aʾ", "և", "եւ",
	"ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "st", "ﬆ", "st",
	"ﬓ", "մն", "ﬔ", "մե", "ﬕ", "մի", "ﬖ", "վն", "ﬗ", "մխ",
)

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
