// Package remap applies the rules of tftpd-hpa's map file (its option -m) to file names. Such a
// file works without changes.
//
// A file is parsed once, and then its rules are applied to each request:
//
//	rules, err := remap.Parse(text)
//	if err != nil {
//		return err // each faulty line, with its number and its fault
//	}
//	name, err := rules.Apply(remap.Query{Name: name, Addr: "192.0.2.7", Hex: "C0000207"})
//
// # The file
//
// A line contains a label, a rule, or neither. Words end at white space. An unescaped # begins a
// comment, even inside a word. A backslash makes the next character part of the word. A line cannot
// continue on the next one.
//
//	:label
//	operation regex replacement
//
// The rules are tried from the top, and every rule that matches a part of the name is applied. An
// operation consists of one or more of these letters:
//
//	r   replace the matched text by the replacement
//	g   with r: repeat from the start of the name, until nothing matches
//	gg  with r: all matches from left to right, as s///g of sed
//	i   ignore case
//	e   end here
//	E   end here if a file of the new name can be transferred; otherwise
//	    undo the replacement and continue
//	s   start over at the first rule
//	a   abort: refuse the request; the replacement is the message
//	j   jump to the label that the replacement names
//	G P only for reads (get), only for writes (put)
//	4 6 only for clients with IPv4, with IPv6
//	~   if the regex does not match
//
// In a replacement, \0 is the matched text, \1 to \9 are its groups, \i is the client's address,
// and \x is the address in hexadecimal. \U and \L convert the letters that follow to upper or lower
// case, and \E ends that. A backslash before any other character is dropped.
//
// tftp-hpa 5.2 has all of this except gg, E, j and labels, which version 6.0 added. Where the two
// versions differ, the package follows their common manual: s begins at the first rule, not at the
// second as in 5.2, and the message of an a rule is only its replacement, without the parts of the
// name around the match. GP, 46 and jumps to missing labels are refused.
//
// # Regular expressions
//
// The regular expressions are POSIX extended regular expressions as in glibc: leftmost-longest, but
// matched in linear time. [Parse] refuses back references, \< and \>, because they cannot be
// matched in linear time. It also refuses escaped letters and digits that have no meaning, such as
// \d. If a match can be divided among groups in several ways, Go's choice may differ from that of
// POSIX: in (a|ab)(c|bcd) on "abcd", \1 is "a". \U, \L and the named classes apply only to ASCII.
//
// # Bounds
//
// The size of a file and the number of its rules are bounded. So are the number of steps, the
// length of the name and the work of matching for each request. So neither a file nor a name can
// make a server loop or run out of memory.
package remap

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// The bounds of one request. A request that exceeds one fails with [ErrLimit].
const (
	// MaxSteps is how many rules may be tried for one request. Each further replacement of a g or
	// gg rule counts too. tftpd-hpa has the same bound, which its option --map-steps sets.
	MaxSteps = 4096

	// MaxName is the greatest length of a name in bytes, after any step.
	MaxName = 4096

	// maxWork bounds the sum of (bytes of the name) × (size of the regex) over all steps. That is one
	// second of matching, or three with the regexes that are slowest in Go.
	maxWork = 1 << 25
)

// ErrLimit says that applying the rules to a request exceeded a bound. tftpd-hpa refuses such a
// request too.
var ErrLimit = errors.New("remap limit reached")

// ErrLabel says that a j rule jumped to a label that does not exist.
var ErrLabel = errors.New("no such label")

// An Abort is the error for a request that an "a" rule refuses.
type Abort struct {
	Line    int    // line of the rule in its file, from 1
	Message string // message for the client; at most MaxName bytes, and may be empty
}

// Error says which rule refused the request, and gives the message if there is one.
func (a *Abort) Error() string {
	if a.Message == "" {
		return fmt.Sprintf("refused by the map file, line %d", a.Line)
	}
	return fmt.Sprintf("refused by the map file, line %d: %s", a.Line, brief(a.Message))
}

// A Query is a request whose name the rules map.
type Query struct {
	Name  string // name as the client sent it
	Write bool   // the request is an upload

	Addr string // the client's address as text, for \i: "192.0.2.7", "2001:db8::1"
	Hex  string // the client's address in upper-case hexadecimal, for \x: "C0000207"
	IPv6 bool   // the client's address is an IPv6 address

	// Exists reports whether the request could use a name, for E rules. A nil Exists means that it
	// never could.
	Exists func(name string) bool
}

// A Step is one rule that matched.
type Step struct {
	Line int    // line of the rule in its file, from 1
	Rule string // text of the rule
	Name string // the name after the rule was applied
	// Then says how the rules continue: "end", "restart", "jump to x", "abort", "undone: no such
	// file". "" means with the next rule.
	Then string
}

// Rules holds the rules of one file. They never change, and any goroutine may use them. The zero
// value has no rules and changes no name.
type Rules struct {
	rules  []rule
	labels map[string]int // by the name of a label: the index of the rule that follows it
}

// An op is a set of the operations of a rule.
type op uint16

const (
	opReplace op = 1 << iota
	opAgain      // g
	opAll        // gg
	opEnd
	opEndFile
	opRestart
	opAbort
	opJump
	opRead
	opWrite
	opIPv4
	opIPv6
	opInvert
	opFold
)

type rule struct {
	line    int
	text    string
	ops     op
	regex   *regexp.Regexp
	cost    int // the approximate number of instructions of regex
	replace string
}

// Len returns the number of rules, not counting labels.
func (r *Rules) Len() int { return len(r.rules) }

// brief quotes the beginning of a string for an error.
func brief(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}
