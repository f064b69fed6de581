// Package convert converts configuration files of other TFTP servers to files for haul: text in,
// text out. Lines that cannot be converted become comments with the reason. The package opens no
// file and runs no shell.
package convert

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/config"
)

// MaxFile is the size limit of the files that are read and written, in bytes.
const MaxFile = 1 << 20

const (
	maxNotes = 200 // the maximum number of comments in the new file
	maxWords = 80  // the maximum length of the words that a comment repeats from the old file, in characters
)

// A draft is a configuration that is being converted from an old file.
type draft struct {
	file  string // the name of the old file
	given []assignment
	notes []note
	more  int   // number of notes dropped because there were maxNotes already
	err   error // the first error that makes the conversion fail; nil if no error has occurred
}

// An assignment is a setting, and the words of the old file that it comes from.
type assignment struct {
	key   string
	line  int
	words string
	parts []string // the parts of the value; only the value of a list may have several
}

// A note is a comment about a line of the old file, or about the whole file if line is 0.
type note struct {
	line int
	text string
}

// set gives a setting a value, which replaces an earlier value.
func (d *draft) set(key string, line int, words string, parts ...string) {
	if !utf8.ValidString(strings.Join(parts, "")) {
		d.fail(line, "%s: the text is not UTF-8, and a configuration file of haul is", brief(words))
	}
	d.given = slices.DeleteFunc(d.given, func(a assignment) bool { return a.key == key })
	d.given = append(d.given, assignment{key, line, words, parts})
}

// drop removes a setting that has a value, and adds a comment with the reason in its place.
func (d *draft) drop(key, reason string) {
	for _, a := range d.given {
		if a.key == key {
			d.note(a.line, a.words, reason)
		}
	}
	d.given = slices.DeleteFunc(d.given, func(a assignment) bool { return a.key == key })
}

// note adds a comment that repeats some words of the old file and says why they are not converted.
func (d *draft) note(line int, words, reason string) {
	if line > 0 && len(d.notes) >= maxNotes {
		d.more++
		return
	}
	text := d.file
	if line > 0 {
		text = fmt.Sprintf("%s:%d", text, line)
	}
	if words != "" {
		text += ": " + brief(words)
	}
	d.notes = append(d.notes, note{line, console.Visible(text + ": " + reason)})
}

// brief shortens words of the old file to maxWords characters.
func brief(words string) string {
	if utf8.RuneCountInString(words) <= maxWords {
		return words
	}
	return string([]rune(words)[:maxWords]) + "..."
}

// fail makes the conversion fail because of this line. Only the first failure is kept.
func (d *draft) fail(line int, format string, args ...any) {
	if d.err == nil {
		d.err = failure.Usage.Errorf("%s:%d: %w", d.file, line, fmt.Errorf(format, args...))
	}
}

// finish returns the new file. Settings that haul would refuse become comments.
func (d *draft) finish() (string, error) {
	if d.err != nil {
		return "", d.err
	}
	s, refused := d.settings()
	for refused { // each round turns at least one setting into a comment, so the loop ends
		s, refused = d.settings()
	}
	for _, a := range d.given {
		if a.key == user {
			d.note(a.line, a.words, "haul becomes this user if root starts it. haul.service has a user of its own, and starts only without the line on user")
		}
	}
	slices.SortStableFunc(d.notes, func(a, b note) int { return cmp.Compare(a.line, b.line) })
	var b strings.Builder
	fmt.Fprintf(&b, "# Converted from %s.\n", console.Visible(d.file))
	for _, n := range d.notes {
		fmt.Fprintf(&b, "# %s\n", n.text)
	}
	if d.more > 0 {
		fmt.Fprintf(&b, "# There are %d more lines or options that cannot be converted.\n", d.more)
	}
	b.WriteByte('\n')
	if err := s.WriteGiven(&b); err != nil {
		return "", err
	}
	if b.Len() > MaxFile {
		return "", failure.Usage.Errorf("%s: the result has more than %s, which is the most that haul reads", d.file, console.FormatSize(MaxFile))
	}
	return b.String(), nil
}

// settings returns the settings of the new file. It turns each setting that haul refuses into a
// comment, and reports whether it refused any. If so, the caller has to call settings again,
// because the remaining settings may now be refused too.
func (d *draft) settings() (s *config.Settings, refused bool) {
	s = config.New()
	for _, a := range slices.Clone(d.given) {
		if err := s.Set(a.key, d.origin(a), a.parts...); err != nil {
			d.refuse(a, err)
			refused = true
		}
	}
	if refused {
		return s, true
	}
	_, err := s.Resolve(config.Sources{
		Given:  func(string) bool { return false },
		Lookup: func(string) (string, bool) { return "", false },
	})
	var whole []error
	for _, err := range failure.Joined(err) {
		if i := d.fault(s, err); i >= 0 {
			d.refuse(d.given[i], err)
			refused = true
			continue
		}
		whole = append(whole, err)
	}
	for _, err := range whole {
		// After a refusal, err may be a mere consequence of that refusal. If not, the next round
		// finds the same error again.
		if !refused {
			d.note(0, "", err.Error())
		}
	}
	return s, refused
}

// origin returns the position in the old file that a setting comes from.
func (d *draft) origin(a assignment) config.Origin {
	return config.Origin{File: d.file, Line: a.line, Column: 1}
}

// fault returns the index of the assignment that the mistake err is about, or -1 if err is not
// about an assignment.
func (d *draft) fault(s *config.Settings, err error) int {
	mistake, ok := errors.AsType[*failure.Error](err)
	if !ok || mistake.Setting == "" {
		return -1
	}
	return slices.IndexFunc(d.given, func(a assignment) bool {
		return slices.ContainsFunc(s.All(), func(one *config.Setting) bool { return one.Key == a.key && one.Flag == string(mistake.Setting) })
	})
}

// refuse turns a setting that haul refuses into a comment with the error.
func (d *draft) refuse(a assignment, err error) {
	d.drop(a.key, strings.TrimPrefix(err.Error(), d.origin(a).String()+": "))
	if a.key == listen {
		d.hide(a.line, a.words)
	}
}

// hide makes the new file serve TFTP only to this machine, because it is not known which clients
// the old file allows. The default would allow all clients.
func (d *draft) hide(line int, words string) {
	d.note(line, words, "haul serves this machine only, until [tftp] listen has another address")
	d.set(listen, line, words, "127.0.0.1:69")
}

// These are keys that several converters set.
const (
	listen = "tftp.listen"
	user   = "user"
	dirs   = "dirs"
	refuse = "tftp.refuse"
	ports  = "tftp.ports"
)
