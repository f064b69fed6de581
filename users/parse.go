package users

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxFaults is the largest number of faulty lines that an error lists.
const maxFaults = 20

// A parser parses a users file. It does not read the files that the users file names.
type parser struct {
	file   string  // path of the users file, for errors
	line   int     // number of the line that is being parsed
	faults []error // what is wrong with the lines so far

	defaults statement      // the statements before the first user
	users    []*statement   // one for each user, in the order of the file
	byName   map[string]int // maps each name, in lower case, to its index in users

	authorities   []Key   // from statements `authority`
	authorityFile []named // from statements `authorities`
	revokedFile   []named // from statements `revoked`
}

// A statement holds the settings for one user or, before the first user, for all users.
type statement struct {
	user User
	line int             // number of the line that begins with "user"; 0 before the first user
	has  map[string]bool // keywords of the statements that were parsed
}

// A named is the name of a file, as written in the users file, and the number of the line with it.
type named struct {
	name string
	line int
}

// parseFile parses the text of a users file. If the text is invalid, the error lists the first
// faults.
func parseFile(file, text string) (*parser, error) {
	p := &parser{file: file, byName: map[string]int{}, defaults: statement{has: map[string]bool{}}}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("%s: not UTF-8", file)
	}
	keys := 0
	for n, line := range statements(text) {
		p.line = n
		if strings.HasPrefix(line, "key") {
			keys++
		}
		var err error
		switch {
		case len(line) > maxLine:
			err = fmt.Errorf("%d bytes, and a line has %d at most", len(line), maxLine)
		case strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
			err = errors.New("control characters")
		case keys > maxKeys:
			return nil, p.at(p.line, fmt.Errorf("more than %d keys", maxKeys))
		default:
			word, rest := cutSpace(line)
			err = p.statement(word, rest)
		}
		if err != nil {
			p.faults = append(p.faults, p.at(p.line, err))
			if len(p.faults) == maxFaults {
				break
			}
		}
	}
	p.finish()
	if len(p.faults) > 0 {
		return nil, errors.Join(p.faults...)
	}
	return p, nil
}

// statements yields the lines of a text that are neither empty nor comments, with their numbers,
// counted from 1.
func statements(text string) iter.Seq2[int, string] {
	return func(yield func(n int, line string) bool) {
		n := 0
		for line := range strings.Lines(text) {
			n++
			line = strings.Trim(line, " \t\r\n")
			if line != "" && line[0] != '#' && !yield(n, line) {
				return
			}
		}
	}
}

func (p *parser) at(line int, err error) error {
	return &SyntaxError{File: p.file, Line: line, Reason: err.Error()}
}

// statement parses one line: its first word, and the rest of the line.
func (p *parser) statement(word, rest string) error {
	switch word {
	case "user":
		return p.begin(rest)
	case "authority", "authorities", "revoked":
		return p.global(word, rest)
	}
	s := &p.defaults
	if len(p.users) > 0 {
		s = p.users[len(p.users)-1]
	}
	switch word {
	case "password", "key", "disabled":
		if s == &p.defaults {
			return fmt.Errorf("%s before the first user; it is for one user only", word)
		}
	case "keys", "root", "access", "limit", "from", "require":
	default:
		return fmt.Errorf("%q is no keyword", shorten(word))
	}
	if s.has[word] && word != "key" && word != "keys" {
		return fmt.Errorf("%s is given twice", word)
	}
	s.has[word] = true
	if (rest == "") != (word == "disabled") {
		if rest == "" {
			return fmt.Errorf("%s says nothing", word)
		}
		return fmt.Errorf("%s takes nothing behind it", word)
	}
	return p.set(&s.user, word, rest)
}

// begin parses a line with the name of a user. The statements after it are about that user.
func (p *parser) begin(name string) error {
	// Even an invalid name starts a user. Otherwise the following lines would count as statements
	// about the previous user.
	s := &statement{user: User{Name: name}, line: p.line, has: map[string]bool{}}
	p.users = append(p.users, s)
	if err := CheckName(name); err != nil {
		return err
	}
	if len(p.users) > maxUsers {
		return fmt.Errorf("more than %d users", maxUsers)
	}
	// Two names that differ only in case would share a directory on some file systems, and people
	// would confuse the users.
	folded := strings.ToLower(name)
	if i, ok := p.byName[folded]; ok {
		return fmt.Errorf("user %s is there already, as %s in line %d", name, p.users[i].user.Name, p.users[i].line)
	}
	p.byName[folded] = len(p.users) - 1
	return nil
}

// global parses a statement that is not about single users, such as `authority`.
func (p *parser) global(word, rest string) error {
	if len(p.users) > 0 {
		return fmt.Errorf("%s behind the first user; it belongs before", word)
	}
	if word == "authority" {
		k, err := parseAuthority(rest)
		k.where = fmt.Sprintf("%s, line %d", p.file, p.line)
		p.authorities = append(p.authorities, k)
		return err
	}
	if err := checkPath(rest); err != nil {
		return err
	}
	name, err := expand(rest, "\x00")
	if err != nil {
		return err
	}
	if strings.Contains(name, "\x00") {
		return fmt.Errorf("%s is for all users, so it cannot have %%u in it", word)
	}
	n := named{name, p.line}
	if word == "authorities" {
		p.authorityFile = append(p.authorityFile, n)
	} else {
		p.revokedFile = append(p.revokedFile, n)
	}
	return nil
}

// parseAuthority parses a line with the key of an authority, whose certificates are trusted. The
// line may omit the option cert-authority.
func parseAuthority(line string) (Key, error) {
	k, err := parseKey(line)
	if err != nil && strings.Contains(line, "principals=") && k.Public != nil && !k.options.authority {
		k, err = parseKey("cert-authority," + line)
	}
	k.options.authority = true
	return k, err
}

// set parses the statement with the keyword `word` and the value `rest`, and stores it in u.
func (p *parser) set(u *User, word, rest string) (err error) {
	switch word {
	case "password":
		u.Password, err = ParseHash(rest)
	case "key":
		if len(u.Keys) == maxUserKeys {
			return fmt.Errorf("more than %d keys of one user", maxUserKeys)
		}
		var k Key
		k, err = parseKey(rest)
		k.where = fmt.Sprintf("%s, line %d", p.file, p.line)
		u.Keys = append(u.Keys, k)
	case "keys":
		if err := checkPath(rest); err != nil {
			return err
		}
		if _, err := expand(rest, "name"); err != nil {
			return err
		}
		u.KeyFiles = append(u.KeyFiles, rest)
	case "root":
		u.Root = rest
		_, err = expandRoot(rest, "name")
	case "access":
		u.Access, err = ParseAccess(rest)
	case "limit":
		u.Limit, err = parseRate(rest)
	case "from":
		u.From, err = parseNetworks(strings.FieldsSeq(rest))
	case "require":
		u.Require, err = ParseRequire(rest)
	case "disabled":
		u.Disabled = true
	}
	return err
}

// finish applies the defaults to each user, and replaces %u in the user's paths.
func (p *parser) finish() {
	d := &p.defaults.user
	for _, s := range p.users {
		u := &s.user
		if !s.has["keys"] {
			u.KeyFiles = append([]string(nil), d.KeyFiles...)
		}
		if !s.has["root"] {
			u.Root = d.Root
		}
		if !s.has["access"] {
			u.Access = d.Access
		}
		if !s.has["limit"] {
			u.Limit = d.Limit
		}
		if !s.has["from"] {
			u.From = d.From
		}
		if !s.has["require"] {
			u.Require = d.Require
		}
		if len(p.faults) > 0 {
			continue // do not build paths, as names may be invalid
		}
		if err := u.expand(); err != nil {
			p.faults = append(p.faults, p.at(s.line, err))
		}
	}
}

// expand replaces %u in the user's paths by the user's name.
func (u *User) expand() (err error) {
	for i, f := range u.KeyFiles {
		if u.KeyFiles[i], err = expand(f, u.Name); err != nil {
			return err
		}
	}
	if u.Root != "" {
		u.Root, err = expandRoot(u.Root, u.Name)
	}
	return err
}
