package users

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Setting is a statement about a user, for [Set]. An empty Value removes the statement; then the
// default of the file applies.
type Setting struct {
	Keyword string // root, access, limit, from or require
	Value   string // the rest of the statement in a users file
}

// Set changes statements about a user in a users file. It does not change anything else in the
// file.
func Set(ctx context.Context, file, name string, settings ...Setting) error {
	return changeUser(ctx, "change a user in", file, name, func(u *userLines) error {
		for _, s := range settings {
			switch s.Keyword {
			case "root", "access", "limit", "from", "require":
				u.replace(s.Keyword, s.Value)
			default:
				return fmt.Errorf("%q cannot be set", s.Keyword)
			}
		}
		return nil
	})
}

// SetPassword sets the password of a user in a users file. The zero Hash removes the password.
func SetPassword(ctx context.Context, file, name string, h Hash) error {
	return changeUser(ctx, "set a password in", file, name, password(h))
}

func password(h Hash) func(*userLines) error {
	return func(u *userLines) error {
		u.replace("password", h.Encoded())
		return nil
	}
}

// SetDisabled disables or enables the logins of a user in a users file.
func SetDisabled(ctx context.Context, file, name string, disabled bool) error {
	return changeUser(ctx, "change a user in", file, name, func(u *userLines) error {
		u.remove(func(word, _ string) bool { return word == "disabled" })
		if disabled {
			u.insert(len(u.lines), "disabled")
		}
		return nil
	})
}

// AddKeys adds keys to a user in a users file. It returns an error if the user already has one of
// the keys, even with other options.
func AddKeys(ctx context.Context, file, name string, keys ...Key) error {
	return changeUser(ctx, "add a key in", file, name, func(u *userLines) error {
		for _, k := range keys {
			at := len(u.lines)
			for i, line := range u.lines {
				word, rest := cutSpace(strings.TrimSpace(line))
				if i == 0 || word != "key" {
					continue
				}
				if old, _ := parseKey(rest); old.blob == k.blob {
					return fmt.Errorf("user %s has the key %s already", name, k.Fingerprint())
				}
				at = i + 1
			}
			u.insert(at, "key "+k.line)
		}
		return nil
	})
}

// RemoveKeys removes the keys of a user in a users file for which the function `which` returns
// true. If there is no such key, it returns an error. It does not look into the files that the
// statement `keys` names.
func RemoveKeys(ctx context.Context, file, name string, which func(Key) bool) error {
	return changeUser(ctx, "remove a key in", file, name, func(u *userLines) error {
		if !u.remove(func(word, rest string) bool {
			k, err := parseKey(rest)
			return word == "key" && (err == nil || k.Public != nil) && which(k)
		}) {
			return fmt.Errorf("user %s has no such key", name)
		}
		return nil
	})
}

// changeUser calls the function `do` to edit the lines of one user, and writes the file. The string
// `what` names the operation in errors.
func changeUser(ctx context.Context, what, file, name string, do func(*userLines) error) error {
	return wrap(what, file, edit(ctx, file, false, changing(name, do)))
}

// changing returns the change that calls the function `do` to edit the lines of one user.
func changing(name string, do func(*userLines) error) change {
	return func(lines []string) ([]string, error) {
		begin, end := block(lines, name)
		if begin < 0 {
			return nil, fmt.Errorf("there is no user %s", name)
		}
		u := &userLines{lines: slices.Clone(lines[begin:end])}
		if err := do(u); err != nil {
			return nil, err
		}
		return slices.Concat(lines[:begin], u.lines, lines[end:]), u.err
	}
}

// userLines holds the lines about one user. The first line contains the user's name.
type userLines struct {
	lines []string // with their line breaks
	err   error    // set if an inserted line was invalid
}

// remove removes the statements for which the function `which` returns true, and reports whether
// there were any.
func (u *userLines) remove(which func(word, rest string) bool) bool {
	before := len(u.lines)
	head := u.lines[:1]
	u.lines = append(head, slices.DeleteFunc(u.lines[1:], func(line string) bool {
		word, rest := cutSpace(strings.TrimSpace(line))
		return which(word, rest)
	})...)
	return len(u.lines) < before
}

// replace sets the value of a keyword. If the user has no statement with that keyword, replace adds
// one after the user's other statements, or before them if it is a password. An empty value removes
// the statement.
func (u *userLines) replace(keyword, value string) {
	at := slices.IndexFunc(u.lines[1:], func(line string) bool {
		word, _ := cutSpace(strings.TrimSpace(line))
		return word == keyword
	}) + 1
	if at > 0 {
		indent := u.lines[at][:strings.Index(u.lines[at], keyword)]
		u.lines = slices.Delete(u.lines, at, at+1)
		if value != "" {
			u.insertIndented(at, indent, keyword+" "+value)
		}
		return
	}
	if at = len(u.lines); keyword == "password" {
		at = 1
	}
	if value != "" {
		u.insert(at, keyword+" "+value)
	}
}

// insert adds a statement at the index `at`, with the same indentation as the user's first statement.
func (u *userLines) insert(at int, statement string) {
	indent := "  "
	if len(u.lines) > 1 && strings.TrimSpace(u.lines[1]) != "" {
		indent = u.lines[1][:len(u.lines[1])-len(strings.TrimLeft(u.lines[1], " \t"))]
	}
	u.insertIndented(at, indent, statement)
}

func (u *userLines) insertIndented(at int, indent, statement string) {
	if strings.ContainsAny(statement, "\r\n") { // text after a line break would become another statement
		u.err = errors.New("a value has a line break in it")
	}
	u.lines = slices.Insert(u.lines, at, indent+statement+ending(u.lines[0]))
}
