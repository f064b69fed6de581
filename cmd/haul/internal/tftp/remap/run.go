package remap

import (
	"errors"
	"fmt"
)

// Apply applies the rules to q.Name. The error is an [*Abort], or wraps [ErrLimit] or [ErrLabel]. In
// each case the request must be refused.
func (r *Rules) Apply(q Query) (string, error) { return r.Trace(q, nil) }

// Trace is like [Rules.Apply], and calls step for each rule that matches, in order. The function
// step may be nil.
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

// A run applies the rules to one request.
type run struct {
	rules       *Rules
	q           Query
	name        string
	report      func(Step)
	steps, work int // steps and matching work so far; bounded by MaxSteps and maxWork
}

// applies reports whether a rule applies to this kind of request.
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

// spend counts n steps with a regex of the given cost over a name of the given length. It returns
// an error if that exceeds a bound.
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

// then executes the operations of rule i. Its replacement has already been made. The argument m is
// the rule's match in `matched`, which is the name before the replacement. It returns the index of
// the next rule.
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

// rewrite returns the name after the replacement of r, whose first match is m.
func (u *run) rewrite(r *rule, m []int) (string, error) {
	switch {
	case r.ops&opAll != 0:
		return u.rewriteAll(r)
	case r.ops&opAgain == 0:
		return u.substitute(r, u.name, [][]int{m})
	}
	name := u.name
	for m != nil {
		var err error
		if name, err = u.substitute(r, name, [][]int{m}); err != nil {
			return "", err
		}
		if err := u.spend(1, r.cost, len(name)); err != nil {
			return "", fmt.Errorf("the regex still matches what it has replaced: %w", err)
		}
		m = r.regex.FindStringSubmatchIndex(name)
	}
	return name, nil
}

// rewriteAll replaces all matches of r from left to right.
func (u *run) rewriteAll(r *rule) (string, error) {
	// Each match may cost a pass over the rest of the name. So find at most one match more than the
	// bounds allow; then spend fails.
	most := 2 + min(MaxSteps-u.steps, (maxWork-u.work)/(r.cost*(len(u.name)+1)))
	all := r.regex.FindAllStringSubmatchIndex(u.name, most)
	if err := u.spend(len(all)-1, r.cost, len(u.name)); err != nil {
		return "", err
	}
	return u.substitute(r, u.name, all)
}

// substitute returns name with the replacement of r in place of the given matches.
func (u *run) substitute(r *rule, name string, matches [][]int) (string, error) {
	var b []byte
	end := 0
	for _, m := range matches {
		b = append(b, name[end:m[0]]...)
		var err error
		if b, err = u.expand(b, r.replace, name, m); err != nil {
			return "", err
		}
		end = m[1]
	}
	if b = append(b, name[end:]...); len(b) > MaxName {
		return "", tooLong()
	}
	return string(b), nil
}

func tooLong() error {
	return fmt.Errorf("the name grows beyond %d bytes: %w", MaxName, ErrLimit)
}

// expand appends a replacement to b. The groups in the replacement come from the match m of name.
// After an inverted match, m is nil and the groups are empty.
func (u *run) expand(b []byte, replacement, name string, m []int) ([]byte, error) {
	var letters func(byte) byte
	put := func(s string) {
		for i := 0; i < len(s) && len(b) <= MaxName; i++ {
			c := s[i]
			if letters != nil {
				c = letters(c)
			}
			b = append(b, c)
		}
	}
	for i := 0; i < len(replacement); i++ {
		c := replacement[i]
		if c != '\\' || i+1 == len(replacement) {
			put(replacement[i : i+1])
			continue
		}
		i++
		switch c = replacement[i]; c {
		case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			if g := 2 * int(c-'0'); g < len(m) && m[g] >= 0 {
				put(name[m[g]:m[g+1]])
			}
		case 'U':
			letters = upper
		case 'L':
			letters = lower
		case 'E':
			letters = nil
		case 'i':
			put(u.q.Addr)
		case 'x':
			put(u.q.Hex)
		default:
			put(replacement[i : i+1])
		}
	}
	if len(b) > MaxName {
		return nil, tooLong()
	}
	return b, nil
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
