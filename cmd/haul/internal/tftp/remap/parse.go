package remap

import (
	"errors"
	"fmt"
	"strings"
)

// The bounds of a map file. [Parse] refuses a file that exceeds one.
const (
	MaxFile  = 1 << 20  // largest file, in bytes
	MaxRules = 4096     // largest number of rules in a file
	maxLine  = 16 << 10 // longest line in bytes, as in tftp-hpa 5.2

	maxTotalSize = 1 << 18 // approximate size of all regexes of a file together, in instructions

	maxFaults = 20 // how many faulty lines an error reports
)

// A SyntaxError is the error for a line of a map file that cannot be used.
type SyntaxError struct {
	Line   int    // number of the line, from 1
	Text   string // the line, without white space around it
	Reason string // what is wrong with it
}

// Error returns the number of the line, the reason, and the line.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("map file, line %d: %s, in %s", e.Line, e.Reason, brief(e.Text))
}

// Parse reads the text of a map file. The error joins a [*SyntaxError] for
// each of the first faulty lines, in their order.
func Parse(text string) (*Rules, error) {
	if len(text) > MaxFile {
		return nil, fmt.Errorf("map file: %d bytes, more than the limit of %d", len(text), MaxFile)
	}
	p := parser{rules: &Rules{labels: map[string]int{}}}
	for line := range strings.Lines(text) {
		p.line++
		p.text = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		p.fault(p.parseLine())
	}
	p.checkJumps()
	if len(p.faults) > 0 {
		return nil, errors.Join(p.faults...)
	}
	return p.rules, nil
}

type parser struct {
	rules  *Rules
	line   int // number of the current line
	text   string
	size   int // size of all regexes so far, in instructions
	faults []error
}

// fault adds err as an error of the current line, if err is not nil.
func (p *parser) fault(err error) {
	if err != nil && len(p.faults) < maxFaults {
		p.faults = append(p.faults, &SyntaxError{Line: p.line, Text: strings.Trim(p.text, space), Reason: err.Error()})
	}
}

// space has the characters that isspace(3) accepts in the C locale.
const space = " \t\n\v\f\r"

// word splits off the first word of a line, and keeps its backslashes. The word is "" at the end of
// the line and before a comment.
func word(line string) (word, rest string) {
	line = strings.TrimLeft(line, space)
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\':
			i++ // the next character does not end the word
		case line[i] == '#' || strings.IndexByte(space, line[i]) >= 0:
			return line[:i], line[i:]
		}
	}
	return line, ""
}

func (p *parser) parseLine() error {
	switch {
	case len(p.text) > maxLine:
		return fmt.Errorf("%d bytes, more than the limit of %d for a line", len(p.text), maxLine)
	case strings.Contains(p.text, "\x00"):
		return errors.New("holds a NUL")
	}
	letters, rest := word(p.text)
	if letters == "" {
		return nil
	}
	if label, ok := strings.CutPrefix(letters, ":"); ok {
		if label == "" {
			label, _ = word(rest)
		}
		return p.label(label)
	}
	ops, err := parseOps(letters)
	if err != nil {
		return err
	}
	pattern, rest := word(rest)
	if pattern == "" {
		return errors.New("the regex is missing; write ^ for one that always matches")
	}
	r := rule{line: p.line, text: strings.Trim(p.text, space), ops: ops}
	r.replace, _ = word(rest) // tftpd-hpa ignores further words
	if r.regex, r.cost, err = compile(pattern, ops&opFold != 0); err != nil {
		return err
	}
	return p.add(r)
}

func (p *parser) add(r rule) error {
	if len(p.rules.rules) == MaxRules {
		return fmt.Errorf("more than %d rules", MaxRules)
	}
	if p.size += r.cost; p.size > maxTotalSize {
		return errors.New("all regexes together are too large")
	}
	p.rules.rules = append(p.rules.rules, r)
	return nil
}

func (p *parser) label(name string) error {
	if name == "" {
		return errors.New("the label has no name")
	}
	// If labels have the same name, a jump finds the first one.
	if _, ok := p.rules.labels[name]; !ok {
		p.rules.labels[name] = len(p.rules.rules)
	}
	return nil
}

// checkJumps records jumps to missing labels. A label that depends on the match is checked only
// when a rule jumps to it.
func (p *parser) checkJumps() {
	for _, r := range p.rules.rules {
		if r.ops&opJump == 0 || strings.Contains(r.replace, `\`) {
			continue
		}
		p.line, p.text = r.line, r.text
		if r.replace == "" {
			p.fault(errors.New("j needs the name of a label after the regex"))
		} else if _, ok := p.rules.labels[r.replace]; !ok {
			p.fault(fmt.Errorf("there is no label :%s", r.replace))
		}
	}
}

var letterOps = map[rune]op{
	'r': opReplace, 'g': opAgain, 'e': opEnd, 'E': opEndFile, 's': opRestart, 'a': opAbort, 'j': opJump,
	'G': opRead, 'P': opWrite, '4': opIPv4, '6': opIPv6, '~': opInvert, 'i': opFold,
}

// conflicts lists letters that cannot be combined. Some other combinations, which tftp-hpa 6.0
// refuses, are accepted as in 5.2. In each of these, one letter has no effect: see effectiveOps.
var conflicts = []struct {
	ops     op
	letters string
}{
	{opReplace | opInvert, "r and ~"}, {opReplace | opJump, "r and j"}, {opAbort | opJump, "a and j"},
	{opEnd | opJump, "e and j"}, {opEndFile | opJump, "E and j"}, {opEnd | opEndFile, "e and E"},
	{opAbort | opEndFile, "a and E"}, {opEndFile | opRestart, "E and s"},
	// Both versions of tftpd-hpa accept these. 5.2 obeys the last letter; 6.0 never applies the rule.
	{opRead | opWrite, "G and P"}, {opIPv4 | opIPv6, "4 and 6"},
}

// parseOps parses the operation, which is the first word of a rule.
func parseOps(letters string) (op, error) {
	var ops op
	for _, c := range letters {
		o, ok := letterOps[c]
		if !ok {
			return 0, fmt.Errorf("operation %s: %q is none of the letters r g i e E s a j G P 4 6 ~", brief(letters), c)
		}
		if o == opAgain && ops&opAgain != 0 {
			o = opAll
		}
		ops |= o
	}
	for _, c := range conflicts {
		if ops&c.ops == c.ops {
			return 0, fmt.Errorf("operation %s: %s cannot be combined", brief(letters), c.letters)
		}
	}
	return effectiveOps(ops), nil
}

// effectiveOps drops operations that have no effect in combination with another one.
func effectiveOps(ops op) op {
	if ops&opAbort != 0 {
		ops &^= opReplace | opEnd | opRestart
	}
	if ops&opEnd != 0 {
		ops &^= opRestart
	}
	if ops&opReplace == 0 {
		ops &^= opAgain | opAll
	}
	return ops
}
