package remap

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

// maxSize bounds the approximate number of instructions to which one regex is compiled.
const maxSize = 2000

// compile compiles a POSIX extended regular expression with the syntax of glibc's regcomp(3), and
// returns its approximate number of instructions.
//
// It does not use regexp.CompilePOSIX, whose syntax differs: ^ and $ match at every line of a name,
// . does not match a newline, and a backslash is special in brackets.
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
			err = errors.New(e.Code.String()) // the full text shows the translated pattern
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
	return re, size * (1 + re.NumSubexp()), nil // each group adds work to each step of matching
}

// sizeOf estimates the number of instructions of a regex. If there are more than maxSize, it may
// return any number above maxSize.
func sizeOf(re *syntax.Regexp) int {
	// re.Rune holds the runes of a literal, or the ranges of a class, in which the matcher uses a
	// binary search.
	n := 1 + len(re.Rune)/8
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
