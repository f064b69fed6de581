package remote

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// netrcFile returns the path of the netrc file: the value of NETRC, or otherwise ~/.netrc. It
// returns "" if there is no home directory.
func netrcFile(cfg *Config) string {
	if name := os.Getenv("NETRC"); name != "" {
		return name
	}
	base := ".netrc"
	if runtime.GOOS == "windows" {
		base = "_netrc"
	}
	if cfg.Account != nil {
		return filepath.Join(cfg.Account.HomeDir, base)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, base)
}

// fromNetrc looks up a host in a netrc file. It is no error if the file does not exist.
func fromNetrc(name, host, user string) (login, password string, ok bool, err error) {
	f, err := os.Open(name)
	if name == "" || errors.Is(err, fs.ErrNotExist) {
		return "", "", false, nil
	}
	if err != nil {
		return "", "", false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxNetrc+1))
	if err == nil {
		login, password, ok, err = parseNetrc(text, host, user)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return login, password, ok, err
}

// maxNetrc is the largest size of a netrc file, in bytes.
const maxNetrc = 256 << 10

// parseNetrc returns the login and the password for a host from the text of a netrc file. host has
// no port. It uses the first entry for the host that has a password and, if user is not "", has
// that user; otherwise it uses the default entry. It skips account and macdef. Errors do not repeat
// text of the file, which may be a password.
func parseNetrc(text []byte, host, user string) (login, password string, ok bool, err error) {
	if len(text) > maxNetrc {
		return "", "", false, fmt.Errorf("more than %d bytes", maxNetrc)
	}
	w := netrcWords{rest: string(text), line: 1}
	type entry struct {
		login, password string
		has, fits       bool
	}
	var e entry
	done := func() bool {
		if e.fits && e.has && (user == "" || e.login == user || e.login == "") {
			if e.login == "" {
				e.login = user
			}
			login, password, ok = e.login, e.password, true
		}
		e = entry{}
		return ok
	}
	inside := false
	for {
		word, more, err := w.next()
		if err != nil {
			return "", "", false, err
		}
		if !more {
			done()
			return login, password, ok, nil
		}
		switch word {
		case "machine", "default":
			if done() {
				return login, password, ok, nil
			}
			inside, e.fits = true, true
			if word == "machine" {
				name, err := w.value(word)
				if err != nil {
					return "", "", false, err
				}
				e.fits = strings.EqualFold(name, host)
			}
		case "login", "password", "account":
			value, err := w.value(word)
			if err != nil {
				return "", "", false, err
			}
			switch {
			case !inside:
				return "", "", false, fmt.Errorf("line %d: %s before any machine", w.line, word)
			case word == "login":
				e.login = value
			case word == "password":
				e.password, e.has = value, true
			}
		case "macdef":
			if _, err := w.value(word); err != nil {
				return "", "", false, err
			}
			w.skipMacro()
		default:
			return "", "", false, fmt.Errorf("line %d: a word that is none of machine, default, login, password, account and macdef", w.line)
		}
	}
}

// netrcWords splits the text of a netrc file into words. rest is the part of the text that is not
// read yet.
type netrcWords struct {
	rest string
	line int // number of the line, from 1, in which `rest` begins
}

// next returns the next word. A word in double quotes may contain blanks, and a backslash escapes
// the next character. A # begins a comment up to the end of the line.
func (w *netrcWords) next() (word string, more bool, err error) {
	for {
		trimmed := strings.TrimLeft(w.rest, " \t\r\n")
		w.line += strings.Count(w.rest[:len(w.rest)-len(trimmed)], "\n")
		if w.rest = trimmed; !strings.HasPrefix(trimmed, "#") {
			break
		}
		end := strings.IndexByte(trimmed, '\n')
		if end < 0 {
			end = len(trimmed)
		}
		w.rest = trimmed[end:]
	}
	switch {
	case w.rest == "":
		return "", false, nil
	case w.rest[0] == '"':
		word, err = w.quoted()
		return word, true, err
	}
	end := strings.IndexAny(w.rest, " \t\r\n")
	if end < 0 {
		end = len(w.rest)
	}
	word, w.rest = w.rest[:end], w.rest[end:]
	return word, true, nil
}

func (w *netrcWords) quoted() (string, error) {
	var b strings.Builder
	for i := 1; i < len(w.rest); i++ {
		switch c := w.rest[i]; c {
		case '"':
			w.rest = w.rest[i+1:]
			return b.String(), nil
		case '\n':
			return "", fmt.Errorf("line %d: a quote that is not closed", w.line)
		case '\\':
			if i++; i < len(w.rest) {
				b.WriteByte(w.rest[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", fmt.Errorf("line %d: a quote that is not closed", w.line)
}

// value returns the word that follows the keyword `of`, whose value it is.
func (w *netrcWords) value(of string) (string, error) {
	line := w.line
	// A # does not begin a comment here, because a password may begin with it.
	if trimmed := strings.TrimLeft(w.rest, " \t"); strings.HasPrefix(trimmed, "#") {
		end := strings.IndexAny(trimmed, " \t\r\n")
		if end < 0 {
			end = len(trimmed)
		}
		w.rest = trimmed[end:]
		return trimmed[:end], nil
	}
	word, more, err := w.next()
	if err == nil && !more {
		err = errors.New("the file ends")
	}
	if err != nil {
		return "", fmt.Errorf("line %d: %s without a value: %w", line, of, err)
	}
	return word, nil
}

// skipMacro skips a macro, which ends at an empty line.
func (w *netrcWords) skipMacro() {
	_, w.rest, _ = strings.Cut(w.rest, "\n") // the macro's name
	for w.line++; w.rest != ""; w.line++ {
		var line string
		line, w.rest, _ = strings.Cut(w.rest, "\n")
		if strings.TrimSuffix(line, "\r") == "" {
			w.line++
			return
		}
	}
}
