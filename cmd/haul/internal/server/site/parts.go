package site

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// longestSpelling is the maximum length of a single character in the form `spelled`, in characters.
const longestSpelling = 4

// A part is a piece of an element of a pattern. It is either *, or matches one character of a name
// in any of its spellings. The spellings matter because a file system may open straße under the
// name strasse, so a rule that denies stra?e must deny that name too.
type part struct {
	star    bool
	not     bool     // the part matches the characters that are not listed; ? is such a part with an empty list
	listed  []string // the characters of the part, each in the form `spelled`
	low, up []rune   // the first and last character of each range, in the form `folded`
}

// parseParts reads an element that path.Match accepts.
func parseParts(element string) []part {
	var parts []part
	plain := ""
	flush := func() {
		for _, r := range spelled.of(plain) {
			parts = append(parts, part{listed: []string{string(r)}})
		}
		plain = ""
	}
	for rest := element; rest != ""; {
		switch rest[0] {
		case '*':
			flush()
			parts = append(parts, part{star: true})
			rest = rest[1:]
		case '?':
			flush()
			parts = append(parts, part{not: true})
			rest = rest[1:]
		case '[':
			flush()
			var p part
			p, rest = parseClass(rest[1:])
			parts = append(parts, p)
		default:
			var c string
			c, rest = cutCharacter(rest)
			plain += c
		}
	}
	flush()
	return parts
}

// parseClass reads a class such as [a-z]. s begins after the opening bracket, and rest is the text
// after the closing one.
func parseClass(s string) (p part, rest string) {
	s, p.not = strings.CutPrefix(s, "^")
	for s[0] != ']' {
		var low, up string
		low, s = cutCharacter(s)
		if s[0] != '-' {
			p.listed = append(p.listed, spelled.of(low))
			continue
		}
		up, s = cutCharacter(s[1:])
		// The first byte is the whole character, because plainRanges has checked that low and up
		// are ASCII.
		p.low = append(p.low, rune(fold(low)[0]))
		p.up = append(p.up, rune(fold(up)[0]))
	}
	return p, s[1:]
}

// cutCharacter returns the first character of s, without a backslash before it, and the rest of s.
func cutCharacter(s string) (c, rest string) {
	s = strings.TrimPrefix(s, `\`)
	_, n := utf8.DecodeRuneInString(s)
	return s[:n], s[n:]
}

// takes reports whether p matches s, which may be one character of a name in the form `spelled`. p
// must not be *.
func (p *part) takes(s []rune) bool {
	switch {
	case !p.not:
		return p.lists(s)
	case p.lists(s), len(s) > 1 && !isCharacter(s):
		return false
	case len(s) == 1 || !unicode.IsLetter(s[1]):
		return true
	}
	// The character ﬁ has the spelling fi, but that alone must not make [^a-z] match it.
	return !slices.ContainsFunc(s, func(r rune) bool { return p.lists([]rune{r}) })
}

// lists reports whether a part contains s, a character in the form `spelled`, by itself or in a
// range.
func (p *part) lists(s []rune) bool {
	if slices.ContainsFunc(p.listed, func(l string) bool { return l == string(s) }) {
		return true
	}
	for i := range p.low {
		if len(s) == 1 && p.low[i] <= s[0] && s[0] <= p.up[i] {
			return true
		}
	}
	return false
}

// matchParts reports whether parts match an element of a name. Its cost is at most the product of
// the two lengths.
func matchParts(parts []part, name []rune) bool {
	at, next := make([]bool, len(name)+1), make([]bool, len(name)+1) // at[i] says that the parts so far match name[:i]
	at[0] = true
	for i := range parts {
		clear(next)
		taken := false
		for from := range at {
			switch p := &parts[i]; {
			case p.star:
				taken = taken || at[from]
				next[from] = taken
			case at[from]:
				for n := 1; n <= longestSpelling && from+n <= len(name); n++ {
					next[from+n] = next[from+n] || p.takes(name[from:from+n])
				}
			}
		}
		at, next = next, at
	}
	return at[len(name)]
}

// isCharacter reports whether a sequence of characters is the form `spelled` of a single character.
func isCharacter(s []rune) bool {
	const firstJamo, lastJamo = 0x1100, 0x11ff
	if firstJamo <= s[0] && s[0] <= lastJamo { // Hangul has too many syllables for the table, so compose them
		return utf8.RuneCountInString(norm.NFC.String(string(s))) == 1
	}
	return spellings()[string(s)]
}

// spellings returns a set that contains the form `spelled` of each single character, if that form
// consists of several characters. Hangul is left out.
var spellings = sync.OnceValue(func() map[string]bool {
	const firstSyllable, lastSyllable, last = 0xac00, 0xd7a3, 0x1d1ff
	all := make(map[string]bool)
	for r := rune(utf8.RuneSelf); r <= last; r++ {
		if firstSyllable <= r && r <= lastSyllable || !utf8.ValidRune(r) {
			continue
		}
		c := string(r)
		if norm.NFD.IsNormalString(c) && expansions.Replace(c) == c {
			continue
		}
		if s := spelled.of(c); utf8.RuneCountInString(s) > 1 {
			all[s] = true
		}
	}
	return all
})
