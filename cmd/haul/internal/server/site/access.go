package site

import (
	"errors"
	"fmt"
	"strings"
)

// A Rule allows or denies some requests, and leaves others undecided.
type Rule struct {
	Deny        bool // the rule denies the requests; otherwise it allows them
	Read, Write bool // the rule applies to reads, to writes, or to both
	Who         Match
	Name        Pattern // the rule applies to names that match; the zero Pattern matches every name
}

func (r *Rule) covers(write bool) bool { return r.Write && write || r.Read && !write }

var errRule = errors.New(`write "allow" or "deny", then "read", "write" or "all", then whom ("*", "10.0.0.0/8", …), and if need be a pattern such as "/boot/**"`)

// ParseRule reads a rule of three or four words:
//
//	allow|deny  read|write|all  whom  [pattern]
//
// such as "allow read 10.0.0.0/8 /boot/**" or "deny write *". The word whom has the form for
// [ParseMatch], and the pattern the form for [ParsePattern].
func ParseRule(s string) (Rule, error) {
	words := strings.Fields(s)
	if len(words) < 3 || len(words) > 4 {
		return Rule{}, fmt.Errorf("access rule %q has %d words: %w", s, len(words), errRule)
	}
	var r Rule
	switch words[0] {
	case "allow":
	case "deny":
		r.Deny = true
	default:
		return Rule{}, fmt.Errorf("access rule %q: %q: %w", s, words[0], errRule)
	}
	switch words[1] {
	case "read":
		r.Read = true
	case "write":
		r.Write = true
	case "all":
		r.Read, r.Write = true, true
	default:
		return Rule{}, fmt.Errorf("access rule %q: %q: %w", s, words[1], errRule)
	}
	var err error
	if r.Who, err = ParseMatch(words[2]); err != nil {
		return Rule{}, fmt.Errorf("access rule %q: %w", s, err)
	}
	if len(words) == 4 {
		if r.Name, err = ParsePattern(words[3]); err != nil {
			return Rule{}, fmt.Errorf("access rule %q: %w", s, err)
		}
	}
	return r, nil
}

// String returns the rule in the form that [ParseRule] reads. A rule for neither reads nor writes
// cannot be written in that form.
func (r Rule) String() string {
	verb, what := "allow", "none"
	if r.Deny {
		verb = "deny"
	}
	switch {
	case r.Read && r.Write:
		what = "all"
	case r.Read:
		what = "read"
	case r.Write:
		what = "write"
	}
	s := verb + " " + what + " " + r.Who.String()
	if r.Name.text != "" {
		s += " " + r.Name.text
	}
	return s
}
