package remap

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// compile compiles a POSIX extended regular expression as glibc's regcomp(3)
// reads it, and returns about how many instructions it has.
//
// regexp.CompilePOSIX is not it: its ^ and $ match at every line of a name, its
// . leaves out the newline, and \ means something in its brackets.
func compile(pattern string, fold bool) (*regexp.Regexp, int, error) {
	goPattern, err := translate(pattern)
	if err != nil {
		return nil, 0, fmt.Errorf("regex %s: %w", brief(pattern), err)
	}
	flags := "(?s)"
	if fold {
		flags = "(?is)"
	}
	tree, err := syntax.Parse(flags+goPattern, syntax.Perl)
	if err != nil {
		if e, ok := errors.AsType[*syntax.Error](err); ok {
			err = errors.New(e.Code.String()) // its text shows what we made of the pattern
		}
		return nil, 0, fmt.Errorf("regex %s: %w", brief(pattern), err)
	}
	size := sizeOf(tree)
	if size > maxSize {
		return nil, 0, fmt.Errorf("regex %s: too large", brief(pattern))
	}
	re, err := regexp.Compile(flags + goPattern)
	if err != nil {
		return nil, 0, fmt.Errorf("regex %s: %w", brief(pattern), err)
	}
	re.Longest()
	return re, size * (1 + re.NumSubexp()), nil // each group is more to note at each step
}

// sizeOf estimates the number of instructions of a regex, or returns a number
// beyond maxSize if they are more than that.
func sizeOf(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/8 // runes, or pairs of a class, which are searched by halves
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		if n += sizeOf(sub); n > maxSize {
			return maxSize + 1
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, maxSize+1)
}

const (
	maxRepeat  = 1000 // in {n}: Go's own bound
	maxGroups  = 9
	maxInARow  = 4 // repetitions of one thing: a{2}{3}
	specialsIn = `.^$*+?{[(|)\`
)

var errNothing = errors.New("nothing to repeat before *, +, ? or {")

// A translator turns POSIX syntax, as glibc extends it, into Go's.
type translator struct {
	src    string // what is left
	out    []byte
	groups []int // where each open ( began in out
	opened int   // groups so far
	atom   int   // where the last thing that can be repeated begins in out, or -1
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

// take removes and returns the first n bytes of what is left.
func (t *translator) take(n int) string {
	s := t.src[:n]
	t.src = t.src[n:]
	return s
}

// anchor writes what matches an empty string, and cannot be repeated.
func (t *translator) anchor(s string) {
	t.out = append(t.out, s...)
	t.atom = -1
}

// unit writes what may be repeated.
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

// openGroup begins a group. Those beyond the ninth cannot be referred to, so
// the translation need not note what they match.
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
		t.unit(`\)`) // glibc: an ordinary character
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

// repeat reads the repetitions that follow one another, one or more.
func (t *translator) repeat() error {
	if t.atom < 0 {
		return errNothing
	}
	for i := 0; t.src != "" && strings.IndexByte("*+?{", t.src[0]) >= 0; i++ {
		if i == maxInARow {
			return fmt.Errorf("more than %d repetitions in a row", maxInARow)
		}
		if i > 0 { // a** would be a fault, and a*? something else
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

// interval reads {n}, {n,}, {,m} or {n,m}.
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
