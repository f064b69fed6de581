// Package remap applies the file name rules of tftpd-hpa's map file (its
// option -m), so that such a file can be used as it is.
//
// A file is read once, its rules then applied to each request:
//
//	rules, err := remap.Parse(text)
//	if err != nil {
//		return err // each faulty line, with its number and its fault
//	}
//	name, err := rules.Apply(remap.Query{Name: name, Addr: "192.0.2.7", Hex: "C0000207"})
//
// # The file
//
// A line is a label or a rule, or has neither. Words end at white space, and
// an unescaped # begins a comment, even inside a word; a backslash keeps the
// character after it in the word. No line continues on the next.
//
//	:label
//	operation regex replacement
//
// The rules are tried from the top, and every one that matches some part of
// the name does its work. An operation is one or more of these letters:
//
//	r   replace what matched by the replacement
//	g   with r: again and again from the start of the name, until no match
//	gg  with r: all matches from left to right, as s///g of sed
//	i   ignore case
//	e   end here
//	E   end here if the name now is a file that can be transferred; else
//	    undo the replacement and continue
//	s   start over at the first rule
//	a   abort: refuse the request; the replacement is the message
//	j   jump to the label that the replacement names
//	G P only for reads (get), only for writes (put)
//	4 6 only for clients with IPv4, with IPv6
//	~   if the regex does not match
//
// In a replacement \0 is the text that matched, \1 to \9 are its groups, \i is
// the client's address, \x the same in hexadecimal, \U and \L turn the letters
// that follow into upper or lower case, and \E ends that. Before any other
// character the backslash just goes.
//
// All but gg, E, j and labels are in tftp-hpa 5.2; those came with 6.0. Where
// the two contradict each other the package follows the manual, which they
// share: s begins at the first rule, not the second as in 5.2, and the message
// of an a rule is its replacement alone, without the parts of the name around
// the match. GP, 46 and a jump to a label that the file lacks are refused.
//
// # Regular expressions
//
// They are POSIX extended ones as glibc has them, leftmost-longest, and
// matched in time linear in the name. [Parse] refuses what that cannot do: back
// references, \< and \>, and escaped letters and digits without a meaning, such
// as \d. Of several ways to divide the same match among groups Go's is taken,
// which may differ from POSIX's: in (a|ab)(c|bcd) on "abcd" \1 is "a". \U, \L
// and the named classes know ASCII only.
//
// # Bounds
//
// The size of a file, its rules, the steps taken for one request, the length
// of a name on the way and the work of matching it are all bounded, so that
// neither a file nor a name can make a server loop or swell.
package remap

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// The bounds of one request. Crossing one is an [ErrLimit].
const (
	// MaxSteps is how many rules may be tried for one request, counting each
	// further replacement of a g or gg rule. It is the --map-steps of
	// tftpd-hpa.
	MaxSteps = 4096

	// MaxName is the length of a name in bytes, at any moment.
	MaxName = 4096

	// maxWork bounds the sum of (bytes of the name) × (size of the regex)
	// over all steps. It is a second of matching, or three with the regexes
	// that suit Go's matcher least.
	maxWork = 1 << 25
)

// ErrLimit says that the rules did not come to an end within the bounds.
// tftpd-hpa refuses such a request too.
var ErrLimit = errors.New("remap limit reached")

// ErrLabel says that a j rule led to a label that does not exist.
var ErrLabel = errors.New("no such label")

// An Abort is the error of a request that an a rule refuses.
type Abort struct {
	Line    int    // of the rule in its file, from 1
	Message string // for the client; may be empty, is as long as MaxName at most
}

// Error says which rule refused the request, and with which message.
func (a *Abort) Error() string {
	if a.Message == "" {
		return fmt.Sprintf("refused by the map file, line %d", a.Line)
	}
	return fmt.Sprintf("refused by the map file, line %d: %s", a.Line, brief(a.Message))
}

// A Query is the request whose name is to be mapped.
type Query struct {
	Name  string // as the client sent it
	Write bool   // an upload

	Addr string // the client's address as text, for \i: "192.0.2.7", "2001:db8::1"
	Hex  string // the same in upper-case hexadecimal, for \x: "C0000207"
	IPv6 bool   // it is an IPv6 address

	// Exists reports whether the request could continue with a name: for E
	// rules. nil means that it never could.
	Exists func(name string) bool
}

// A Step is one rule that matched.
type Step struct {
	Line int    // of the rule in its file, from 1
	Rule string // its text
	Name string // the name after it
	Then string // where it leads, unless to the next rule: "end", "restart", "jump to x", "abort", "undone: no such file"
}

// Rules are the rules of one file. They never change, and any goroutine may
// use them. The zero value has no rule and leaves each name as it is.
type Rules struct {
	rules  []rule
	labels map[string]int // index of the rule after the label
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
	cost    int // the size of regex, in about instructions
	replace string
}

// Len returns the number of rules, not counting labels.
func (r *Rules) Len() int { return len(r.rules) }

// brief quotes the beginning of a text for an error.
func brief(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}
