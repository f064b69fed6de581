package convert

import "strings"

// A variable is an assignment to a variable in a shell script.
type variable struct {
	name    string
	value   string
	line    int
	unknown bool // the value is not known, because only a shell could compute it
}

// A shellReader reads the assignments of a shell script, without running it.
type shellReader struct {
	draft *draft
	text  string
	line  int
	found []variable
}

const noShell = "haul runs no shell, so this line has no effect"

// readShell returns the assignments of a script in order. It turns everything else into notes.
func (d *draft) readShell(text string) []variable {
	r := shellReader{draft: d, text: text, line: 1}
	for r.text != "" && d.err == nil {
		r.command()
	}
	return r.found
}

// command reads one command, which ends at the next line feed or semicolon.
func (r *shellReader) command() {
	r.text = strings.TrimLeft(r.text, " \t\r;")
	r.text = strings.TrimPrefix(r.text, "export ")
	switch {
	case r.text == "":
	case r.text[0] == '\n':
		r.skip(1)
	case r.text[0] == '#':
		r.rest()
	default:
		n := strings.IndexFunc(r.text, func(c rune) bool {
			return c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
		})
		if n < 1 || r.text[n] != '=' {
			line := r.line
			r.draft.note(line, r.rest(), noShell)
			return
		}
		v := variable{name: r.text[:n], line: r.line}
		r.skip(n + 1)
		v.value, v.unknown = r.value()
		r.found = append(r.found, v)
	}
}

// skip skips some bytes, and returns them.
func (r *shellReader) skip(n int) string {
	s := r.text[:n]
	r.line += strings.Count(s, "\n")
	r.text = r.text[n:]
	return s
}

// rest skips the rest of the line, and returns it.
func (r *shellReader) rest() string {
	n := strings.IndexByte(r.text+"\n", '\n')
	return strings.TrimSpace(r.skip(n))
}

// value reads one word, and removes its quotes. unknown is true if the value contains $ or a
// backquote.
func (r *shellReader) value() (text string, unknown bool) {
	var b strings.Builder
	var quote byte // the quote that is open, ' or "; 0 outside of quotes
	start := r.line
	for r.text != "" {
		c := r.text[0]
		switch {
		case quote == 0 && strings.IndexByte(" \t\r\n;&|<>()", c) >= 0:
			return b.String(), unknown
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case c == '\\' && quote != '\'' && len(r.text) > 1:
			next := r.text[1]
			if quote == '"' && strings.IndexByte("$`\"\\\n", next) < 0 {
				b.WriteByte(c)
			}
			if next != '\n' {
				b.WriteByte(next)
			}
			r.skip(1)
		case quote != '\'' && (c == '$' || c == '`'):
			unknown = true
		default:
			b.WriteByte(c)
		}
		r.skip(1)
	}
	if quote != 0 {
		r.draft.fail(start, "the quote %c is not closed", quote)
	}
	return b.String(), unknown
}
