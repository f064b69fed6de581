package remap

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

// maxSize is the size of the largest regex, in about instructions.
const maxSize = 2000

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
