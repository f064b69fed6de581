package remap

import "fmt"

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
	// Each match may cost a walk through the rest of the name. One more is
	// looked for than the bounds allow, and makes spend fail.
	most := 2 + min(MaxSteps-u.steps, (maxWork-u.work)/(r.cost*(len(u.name)+1)))
	all := r.regex.FindAllStringSubmatchIndex(u.name, most)
	if err := u.spend(len(all)-1, r.cost, len(u.name)); err != nil {
		return "", err
	}
	return u.substitute(r, u.name, all)
}

// substitute returns name with the replacement of r in place of its matches.
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

// expand appends a replacement to b. Its groups are those of the match m of
// name; after an inverted match, where m is nil, they are empty.
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
