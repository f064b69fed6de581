package site

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// These constants bound a pattern, because matching costs as much as the product of the lengths of
// pattern and name.
const (
	maxPattern  = 1024 // maximum length of a pattern, in bytes
	maxElements = 64   // maximum number of elements, which slashes separate
)

// A Pattern describes file names. The zero Pattern matches every name. See
// [ParsePattern].
type Pattern struct {
	text     string
	elements []string
	folded   []string
	parts    [][]part // the parts of each element, for comparison in the form `spelled`
	plain    bool     // a name in ASCII need not be compared in the form `spelled`
}

// ParsePattern reads a pattern for clean names, which have no leading slash.
//
// Between slashes, * stands for any characters, ? for one character, [a-z] for one of several, and
// \ makes the next character literal, as in path.Match. The element ** stands for any number of
// elements, including zero. A slash at the end stands for /**.
//
// A pattern with a slash matches from the root: /*.cfg matches only there, and /boot/** matches
// everything below boot. A pattern without a slash matches the last element of a name, in any
// directory: *.key, or * for everything.
func ParsePattern(s string) (Pattern, error) {
	p := Pattern{text: s, plain: isASCII(s) && !strings.ContainsAny(s, "?[")}
	if s == "" || len(s) > maxPattern || !utf8.ValidString(s) {
		return Pattern{}, fmt.Errorf("pattern %.40q: not UTF-8 of 1 to %d bytes", s, maxPattern)
	}
	rest := strings.TrimPrefix(s, "/")
	if !strings.Contains(s, "/") {
		rest = "**/" + s
	}
	if rest == "" || strings.HasSuffix(rest, "/") {
		rest += "**"
	}
	elements := strings.Split(rest, "/")
	if len(elements) > maxElements {
		return Pattern{}, fmt.Errorf("pattern %.40q…: more than %d elements", s, maxElements)
	}
	for _, e := range elements {
		switch {
		case e == "" || e == "." || e == "..":
			return Pattern{}, fmt.Errorf("pattern %q: a name has no element %q, so this matches nothing", s, e)
		case e != "**" && strings.Contains(e, "**"):
			return Pattern{}, fmt.Errorf("pattern %q: ** stands alone between slashes", s)
		}
		for _, e := range []string{e, norm.NFC.String(strings.Map(visible, e))} {
			if _, err := path.Match(e, ""); err != nil || !plainRanges(e) {
				return Pattern{}, fmt.Errorf("pattern %q: %q has a [ without ], ends in \\, or has a range that is not within a-z, A-Z or 0-9", s, e)
			}
		}
		p.elements = append(p.elements, e)
		p.folded = append(p.folded, folded.of(e))
		p.parts = append(p.parts, parseParts(e))
	}
	return p, nil
}

// plainRanges reports whether each range of an element is within a-z, A-Z or 0-9, so that folding
// both ends of the range folds the whole range. The element must be valid for path.Match.
func plainRanges(element string) bool {
	inside := false
	var low byte
	for i := 0; i < len(element); i++ {
		switch c := element[i]; {
		case c == '\\':
			i++
			low = element[i]
		case !inside:
			inside = c == '['
			low = 0
		case c == ']':
			inside = false
		case c != '-':
			low = c
		default:
			// path.Match accepts a - only between two characters.
			if i++; element[i] == '\\' {
				i++
			}
			if !sameKind(low, element[i]) {
				return false
			}
		}
	}
	return true
}

func sameKind(low, high byte) bool {
	for _, kind := range []string{"az", "AZ", "09"} {
		if kind[0] <= low && low <= high && high <= kind[1] {
			return true
		}
	}
	return false
}

// String returns the pattern as it was written; "*" for the zero Pattern.
func (p Pattern) String() string {
	if p.text == "" {
		return "*"
	}
	return p.text
}

// A subject is a name to match with patterns. It keeps the forms of the name that have been
// computed.
type subject struct {
	name  string
	forms [forms][]string // the elements of the name in each form; nil until needed
	runes [][]rune        // the elements of the name in the form `spelled`, as characters; nil until needed
}

func newSubject(name string) *subject { return &subject{name: name} }

// in returns the elements of the name in the form f. In all forms except `exact`, it drops dots and
// spaces at the end of an element, because Windows drops them.
func (n *subject) in(f form) []string {
	if n.forms[f] == nil {
		elements := strings.Split(n.name, "/")
		if f != exact {
			for i, e := range elements {
				elements[i] = strings.TrimRight(f.of(e), " .")
			}
		}
		n.forms[f] = elements
	}
	return n.forms[f]
}

// spelled returns the elements of the name in the form `spelled`, as characters.
func (n *subject) spelled() [][]rune {
	if n.runes == nil {
		for _, e := range n.in(spelled) {
			n.runes = append(n.runes, []rune(e))
		}
	}
	return n.runes
}

// matches reports whether p matches n in the form `last` or in one of the forms before it.
func (p Pattern) matches(n *subject, last form) bool {
	return p.text == "" ||
		p.matchElements(n, func(i, j int) bool { return matchElement(p.elements[i], n.in(exact)[j]) }) ||
		last >= folded && p.matchElements(n, func(i, j int) bool { return matchElement(p.folded[i], n.in(folded)[j]) }) ||
		last >= spelled && (!p.plain || !isASCII(n.name)) && p.matchElements(n, func(i, j int) bool { return matchParts(p.parts[i], n.spelled()[j]) })
}

// matchElements reports whether the elements of p match the elements of a name. match(i, j) compares
// element i of p, which is not **, with element j of the name. After a mismatch, the latest ** is
// extended by one element; earlier ones never are. So the number of comparisons is at most the
// number of elements of p times the number of elements of the name.
func (p Pattern) matchElements(of *subject, match func(i, j int) bool) bool {
	i, j, length := 0, 0, len(of.in(exact))
	// star is the index of the latest ** in the pattern. taken is the index of the first element of
	// the name after the elements that this ** matches.
	star, taken := -1, 0
	for j < length {
		switch {
		case i < len(p.elements) && p.elements[i] == "**":
			star, taken = i, j
			i++
		case i < len(p.elements) && match(i, j):
			i++
			j++
		case star >= 0:
			taken++
			i, j = star+1, taken
		default:
			return false
		}
	}
	for i < len(p.elements) && p.elements[i] == "**" {
		i++
	}
	return i == len(p.elements)
}

func matchElement(pattern, element string) bool {
	ok, err := path.Match(pattern, element)
	return ok && err == nil // err is always nil, because ParsePattern has checked the pattern
}
