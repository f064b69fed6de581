package remap

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxRepeat  = 1000 // largest n in {n}, the same as in Go
	maxGroups  = 9
	maxInARow  = 4 // largest number of repetitions of one expression in a row; a{2}{3} has two
	specialsIn = `.^$*+?{[(|)\`
)

var errNothing = errors.New("nothing to repeat before *, +, ? or {")

// A translator turns POSIX syntax, as glibc extends it, into Go's.
type translator struct {
	src    string // the rest of the pattern
	out    []byte
	groups []int // where each open ( begins in out
	opened int   // number of groups so far
	atom   int   // where the last repeatable expression begins in out, or -1
}

// translate returns pattern in Go's syntax.
func translate(pattern string) (string, error) {
	if !utf8.ValidString(pattern) {
		return "", errors.New("not UTF-8")
	}
	t := translator{src: pattern, atom: -1}
	for t.src != "" {
		if err := t.next(); err != nil {
			return "", err
		}
	}
	if len(t.groups) > 0 {
		return "", errors.New("( without )")
	}
	return string(t.out), nil
}

// take removes and returns the first n bytes of src.
func (t *translator) take(n int) string {
	s := t.src[:n]
	t.src = t.src[n:]
	return s
}

// anchor appends s to the output. s matches an empty string, so no repetition may follow it.
func (t *translator) anchor(s string) {
	t.out = append(t.out, s...)
	t.atom = -1
}

// unit appends s to the output. s is a complete expression, which a following *, +, ? or { may
// repeat.
func (t *translator) unit(s string) {
	t.atom = len(t.out)
	t.out = append(t.out, s...)
}

func (t *translator) next() error {
	plain := strings.IndexAny(t.src, specialsIn)
	if plain != 0 {
		_, n := utf8.DecodeRuneInString(t.src)
		t.unit(regexp.QuoteMeta(t.take(n)))
		return nil
	}
	switch c := t.src[0]; c {
	case '\\':
		return t.escape()
	case '[':
		class, err := t.class()
		t.unit(class)
		return err
	case '*', '+', '?', '{':
		return t.repeat()
	case '(':
		t.openGroup()
	case ')':
		t.closeGroup()
	case '^':
		t.take(1)
		t.anchor(`\A`)
	case '$':
		t.take(1)
		t.anchor(`\z`)
	case '|':
		t.anchor(t.take(1))
	default: // .
		t.unit(t.take(1))
	}
	return nil
}

// openGroup begins a group. No replacement can refer to a group beyond the ninth, so the
// translation does not capture such groups.
func (t *translator) openGroup() {
	t.groups = append(t.groups, len(t.out))
	if t.opened++; t.opened <= maxGroups {
		t.anchor(t.take(1))
	} else {
		t.take(1)
		t.anchor("(?:")
	}
}

func (t *translator) closeGroup() {
	t.take(1)
	last := len(t.groups) - 1
	if last < 0 {
		t.unit(`\)`) // in glibc, this is an ordinary character
		return
	}
	t.out = append(t.out, ')')
	t.atom = t.groups[last]
	t.groups = t.groups[:last]
}

func (t *translator) escape() error {
	if len(t.src) == 1 {
		return errors.New(`a \ at the end`)
	}
	_, n := utf8.DecodeRuneInString(t.src[1:])
	what := t.take(1 + n)
	switch c := what[1]; c {
	case 'w', 'W':
		t.unit(what)
	case 's':
		t.unit("[[:space:]]")
	case 'S':
		t.unit("[^[:space:]]")
	case 'b', 'B':
		t.anchor(what)
	case '`':
		t.anchor(`\A`)
	case '\'':
		t.anchor(`\z`)
	case '<', '>':
		return fmt.Errorf(`%s is not supported; \b matches at either end of a word`, what)
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return fmt.Errorf("back references such as %s are not supported", what)
	default:
		if c == '0' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			return fmt.Errorf("%s has no meaning in a POSIX regex; write %c for the character, or a class such as [0-9]", what, c)
		}
		t.unit(regexp.QuoteMeta(what[1:]))
	}
	return nil
}

// repeat translates one or more repetitions in a row.
func (t *translator) repeat() error {
	if t.atom < 0 {
		return errNothing
	}
	for i := 0; t.src != "" && strings.IndexByte("*+?{", t.src[0]) >= 0; i++ {
		if i == maxInARow {
			return fmt.Errorf("more than %d repetitions in a row", maxInARow)
		}
		if i > 0 { // in Go, a** is an error, and a*? has another meaning
			t.out = append(t.out[:t.atom], "(?:"+string(t.out[t.atom:])+")"...)
		}
		if t.src[0] != '{' {
			t.out = append(t.out, t.take(1)...)
		} else if err := t.interval(); err != nil {
			return err
		}
	}
	return nil
}

// interval translates {n}, {n,}, {,m} or {n,m}.
func (t *translator) interval() error {
	end := strings.IndexByte(t.src, '}')
	if end < 0 {
		return errors.New(`{ without }; write \{ for the character`)
	}
	what := t.take(end + 1)
	low, high, comma := strings.Cut(what[1:end], ",")
	if low == "" && comma {
		low = "0"
	}
	n, err := strconv.ParseUint(low, 10, 32)
	m := n
	if err == nil && high != "" {
		m, err = strconv.ParseUint(high, 10, 32)
	}
	switch {
	case err != nil || m < n:
		return fmt.Errorf(`%s is not {n}, {n,}, {,m} or {n,m}; write \{ for the character`, what)
	case m > maxRepeat:
		return fmt.Errorf("%s repeats more than %d times", what, maxRepeat)
	}
	s := strconv.FormatUint(n, 10)
	if comma {
		s += ","
		if high != "" {
			s += strconv.FormatUint(m, 10)
		}
	}
	t.out = append(t.out, "{"+s+"}"...)
	return nil
}

var (
	errUnclosed = errors.New(`[ without ]; write \[ for the character`)
	errRange    = errors.New("in [ ] a - that is not between two characters must come first or last")
)

// classes lists the names of the POSIX character classes. Go has classes with the same names, for
// ASCII.
const classes = " alnum alpha blank cntrl digit graph lower print punct space upper xdigit "

// class reads a bracket expression and returns it in Go's syntax. A backslash in it is an ordinary
// character.
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

// classItem reads a character, a range or a named class, and returns it in Go's syntax.
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

// quoteInClass returns a character in a form that has no other meaning in [ ].
func quoteInClass(r rune) string { return fmt.Sprintf(`\x{%X}`, r) }
