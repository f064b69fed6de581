package site

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// The bounds of a pattern. What a name costs to match is the product of their
// lengths, at most.
const (
	maxPattern  = 1024 // bytes
	maxElements = 64   // between slashes
)

// A Pattern describes file names. The zero Pattern matches every name. See
// [ParsePattern].
type Pattern struct {
	text  string
	forms [forms][]string // its elements
	ascii bool
}

// ParsePattern reads a pattern for clean names, those without a leading slash.
//
// Between slashes * stands for any characters, ? for one, [a-z] for one of
// several, and \ takes the meaning from the next character, as in path.Match.
// The element ** stands for any number of elements, none included. A pattern
// that ends in a slash goes on with **.
//
// A pattern with a slash matches from the root: /*.cfg only there, /boot/**
// whatever is below boot. One without matches the last element of a name, in
// any directory: *.key, and * everything.
func ParsePattern(s string) (Pattern, error) {
	p := Pattern{text: s, ascii: isASCII(s)}
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
		for f := range forms {
			inForm := f.of(e)
			if _, err := path.Match(inForm, ""); err != nil || !plainRanges(inForm) {
				return Pattern{}, fmt.Errorf("pattern %q: %q has a [ without ], ends in \\, or has a range that is not within a-z, A-Z or 0-9", s, e)
			}
			p.forms[f] = append(p.forms[f], inForm)
		}
	}
	return p, nil
}

// plainRanges reports whether all ranges of an element that path.Match accepts
// can be folded, end by end.
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
			// path.Match takes no - that is not between two.
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

// String returns the pattern as it was written; that of the zero Pattern is "*".
func (p Pattern) String() string {
	if p.text == "" {
		return "*"
	}
	return p.text
}

// A subject is a name to be matched.
type subject struct {
	name  string
	forms [forms][]string // its elements; filled when needed
	ascii bool
}

func newSubject(name string) *subject { return &subject{name: name, ascii: isASCII(name)} }

// in returns the elements of the name in a form. Windows drops dots and spaces from
// the end of an element, so that another form has none.
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

// matches reports whether p matches n in one of the forms up to last.
func (p Pattern) matches(n *subject, last form) bool {
	if p.text == "" {
		return true
	}
	if p.ascii && n.ascii {
		last = min(last, folded) // further ones are the same
	}
	for f := range last + 1 {
		if matchElements(p.forms[f], n.in(f)) {
			return true
		}
	}
	return false
}

// matchElements matches the elements of a name with those of a pattern. Where
// they part, only the latest ** need take one element more: so it costs no more
// than the product of their numbers.
func matchElements(pattern, name []string) bool {
	p, n := 0, 0
	star, taken := -1, 0 // the latest **, and where what follows it was last tried
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			star, taken = p, n
			p++
		case p < len(pattern) && matchElement(pattern[p], name[n]):
			p++
			n++
		case star >= 0:
			taken++
			p, n = star+1, taken
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}

func matchElement(pattern, element string) bool {
	ok, err := path.Match(pattern, element)
	return ok && err == nil // ParsePattern has seen that there is no error
}
