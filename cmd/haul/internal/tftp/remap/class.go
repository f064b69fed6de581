package remap

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

var (
	errUnclosed = errors.New(`[ without ]; write \[ for the character`)
	errRange    = errors.New("in [ ] a - that is not between two characters must come first or last")
)

// The named classes of POSIX; Go has the same, for ASCII.
const classes = " alnum alpha blank cntrl digit graph lower print punct space upper xdigit "

// class reads a bracket expression and returns it in Go's syntax. A backslash
// in one is an ordinary character.
func (t *translator) class() (string, error) {
	t.take(1)
	var out strings.Builder
	out.WriteString("[")
	if strings.HasPrefix(t.src, "^") {
		out.WriteString(t.take(1))
	}
	for first := true; first || !strings.HasPrefix(t.src, "]"); first = false {
		item, err := t.classItem(first)
		if err != nil {
			return "", err
		}
		out.WriteString(item)
	}
	t.take(1)
	out.WriteString("]")
	return out.String(), nil
}

// classItem reads a character, a range or a named class.
func (t *translator) classItem(first bool) (string, error) {
	if rest, ok := strings.CutPrefix(t.src, "[:"); ok {
		name, after, ok := strings.Cut(rest, ":]")
		if !ok {
			return "", errUnclosed
		}
		if name == "" || strings.Contains(name, " ") || !strings.Contains(classes, " "+name+" ") {
			return "", fmt.Errorf("[:%s:] is none of the classes%s", name, strings.TrimRight(classes, " "))
		}
		if t.src = after; rangeFollows(after) {
			return "", errRange
		}
		return "[:" + name + ":]", nil
	}
	if !first && strings.HasPrefix(t.src, "-") && !strings.HasPrefix(t.src, "-]") {
		return "", errRange
	}
	low, err := t.classChar()
	if err != nil {
		return "", err
	}
	if !rangeFollows(t.src) {
		return quoteInClass(low), nil
	}
	t.take(1)
	high, err := t.classChar()
	if err != nil {
		return "", err
	}
	if low > high {
		return "", fmt.Errorf("the range %c-%c in [ ] runs backwards", low, high)
	}
	return quoteInClass(low) + "-" + quoteInClass(high), nil
}

// rangeFollows reports whether s continues with a - that makes a range.
func rangeFollows(s string) bool {
	return strings.HasPrefix(s, "-") && !strings.HasPrefix(s, "-]")
}

// classChar reads one character, which may be written [.c.] or [=c=].
func (t *translator) classChar() (rune, error) {
	if t.src == "" {
		return 0, errUnclosed
	}
	for _, mark := range []string{".", "="} {
		rest, ok := strings.CutPrefix(t.src, "["+mark)
		if !ok {
			continue
		}
		name, after, ok := strings.Cut(rest, mark+"]")
		if !ok {
			return 0, errUnclosed
		}
		r, n := utf8.DecodeRuneInString(name)
		if n != len(name) || n == 0 {
			return 0, fmt.Errorf("[%s%s%s] is not supported unless it holds one character", mark, name, mark)
		}
		t.src = after
		return r, nil
	}
	if strings.HasPrefix(t.src, "[:") {
		return 0, errRange
	}
	r, n := utf8.DecodeRuneInString(t.src)
	t.take(n)
	return r, nil
}

// quoteInClass writes a character so that it means nothing else in [ ].
func quoteInClass(r rune) string { return fmt.Sprintf(`\x{%X}`, r) }
