package site

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A form is one in which names and patterns are compared. Many file systems find a
// file by several spellings of its name, so a rule that denies one has to deny all.
// Each form takes more names for the same than the one before. In a class that begins
// with ^ the last one need not: so no form replaces those before it.
type form int

const (
	exact   form = iota
	folded       // without case, as NTFS has it
	spelled      // and whether accents are composed, without what shows nothing, and with ss for ß: HFS+, APFS, ext4 with casefold
	forms
)

// of returns s in a form.
func (f form) of(s string) string {
	switch {
	case f == exact:
		return s
	case f == folded || isASCII(s):
		return fold(s)
	}
	s = fold(norm.NFD.String(expansions.Replace(strings.Map(visible, s))))
	return strings.ReplaceAll(s, "\u0345", "\u0399") // the iota below is a letter, and no mark that changes places
}

// fold maps all spellings of s that strings.EqualFold takes as equal to one.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			least = min(least, o)
		}
		return least
	}, s)
}

// visible drops characters that some file systems pass over
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
