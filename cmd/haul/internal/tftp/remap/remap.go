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

// Apply returns the name that the rules make of q.Name. The error is an
// [*Abort], or wraps [ErrLimit] or [ErrLabel]; in each case the request must be
// refused.
func (r *Rules) Apply(q Query) (string, error) { return r.Trace(q, nil) }

// Trace is [Rules.Apply], and calls step for each rule that matches, in the
// order of their matching. A nil step is not called.
func (r *Rules) Trace(q Query, step func(Step)) (string, error) {
	run := run{rules: r, q: q, name: q.Name, report: step}
	if len(q.Name) > MaxName {
		return "", fmt.Errorf("a name of %d bytes, more than %d: %w", len(q.Name), MaxName, ErrLimit)
	}
	for i := 0; i < len(r.rules); {
		next, err := run.try(i)
		if _, ok := errors.AsType[*Abort](err); ok {
			return "", err
		}
		if err != nil {
			return "", fmt.Errorf("map file, line %d: %w", r.rules[i].line, err)
		}
		i = next
	}
	return run.name, nil
}

// A run is the way of one request through the rules.
type run struct {
	rules       *Rules
	q           Query
	name        string
	report      func(Step)
	steps, work int // done so far
}

// applies reports whether a rule is meant for this kind of request at all.
func (u *run) applies(ops op) bool {
	not := opWrite | opIPv6
	if u.q.Write {
		not ^= opWrite | opRead
	}
	if u.q.IPv6 {
		not ^= opIPv6 | opIPv4
	}
	return ops&not == 0
}

// spend counts n steps of a regex of that cost over a name of that length.
func (u *run) spend(n, cost, length int) error {
	u.steps += n
	u.work += n * cost * (length + 1)
	switch {
	case u.steps > MaxSteps:
		return fmt.Errorf("not done after %d steps, the name being %s: %w", MaxSteps, brief(u.name), ErrLimit)
	case u.work > maxWork:
		return fmt.Errorf("matching takes too long, the name being %s: %w", brief(u.name), ErrLimit)
	}
	return nil
}

// try applies rule i and returns the index of the next rule.
func (u *run) try(i int) (next int, err error) {
	r := &u.rules.rules[i]
	if !u.applies(r.ops) {
		return i + 1, nil
	}
	if err := u.spend(1, r.cost, len(u.name)); err != nil {
		return 0, err
	}
	m := r.regex.FindStringSubmatchIndex(u.name)
	if (m != nil) == (r.ops&opInvert != 0) {
		return i + 1, nil
	}
	name := u.name
	if r.ops&opReplace != 0 {
		if name, err = u.rewrite(r, m); err != nil {
			return 0, err
		}
	}
	if r.ops&opEndFile != 0 && (u.q.Exists == nil || !u.q.Exists(name)) {
		u.record(r, "undone: no such file")
		return i + 1, nil
	}
	matched := u.name
	u.name = name
	return u.then(i, matched, m)
}

// then does what rule i asks for after its replacement. Its match m was found
// in matched.
func (u *run) then(i int, matched string, m []int) (next int, err error) {
	r := &u.rules.rules[i]
	text := ""
	if r.ops&(opAbort|opJump) != 0 {
		b, err := u.expand(nil, r.replace, matched, m)
		if err != nil {
			return 0, err
		}
		text = string(b)
	}
	switch {
	case r.ops&opAbort != 0:
		u.record(r, "abort")
		return 0, &Abort{Line: r.line, Message: text}
	case r.ops&(opEnd|opEndFile) != 0:
		u.record(r, "end")
		return len(u.rules.rules), nil
	case r.ops&opRestart != 0:
		u.record(r, "restart")
		return 0, nil
	case r.ops&opJump != 0:
		to, ok := u.rules.labels[text]
		if !ok {
			return 0, fmt.Errorf("jump to %s: %w", brief(text), ErrLabel)
		}
		u.record(r, "jump to "+text)
		return to, nil
	}
	u.record(r, "")
	return i + 1, nil
}

func (u *run) record(r *rule, then string) {
	if u.report != nil {
		u.report(Step{Line: r.line, Rule: r.text, Name: u.name, Then: then})
	}
}

// brief quotes the beginning of a text for an error.
func brief(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}
