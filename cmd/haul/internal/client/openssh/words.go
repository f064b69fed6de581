package openssh

import (
	"errors"
	"strings"
)

// space contains the characters that separate words, and the characters that end lines.
const space = " \t\r\n"

// splitLine splits a line of ssh_config into its keyword, in lower case, and the rest. White space,
// or one "=" with optional white space, separates them. The keyword is empty for an empty line or a
// comment.
func splitLine(line string) (keyword, rest string) {
	line = strings.TrimRight(line, space+"\f")
	line = strings.TrimLeft(line, space)
	if line == "" || line[0] == '#' {
		return "", ""
	}
	if q, ok := strings.CutPrefix(line, `"`); ok {
		keyword, rest, _ = strings.Cut(q, `"`)
	} else if end := strings.IndexAny(line, space+"="); end >= 0 {
		keyword, rest = line[:end], line[end:]
	} else {
		keyword = line
	}
	rest = strings.TrimLeft(rest, space)
	rest = strings.TrimPrefix(rest, "=")
	return strings.ToLower(keyword), strings.TrimLeft(rest, space)
}

var errQuotes = errors.New("a quotation mark is missing")

// splitArgs splits the arguments of a keyword. Single and double quotes keep words together. A
// backslash escapes quotes, backslashes and, outside of quotes, spaces. If an argument would begin
// with "#", the rest of the line is a comment.
func splitArgs(s string) (args []string, err error) {
	for i := 0; i < len(s); {
		if s[i] == ' ' || s[i] == '\t' {
			i++
			continue
		}
		if s[i] == '#' {
			break
		}
		var arg []byte
		var quote byte
	word:
		for ; i < len(s); i++ {
			switch c := s[i]; {
			case c == '\\' && i+1 < len(s) && escapes(s[i+1], quote):
				i++
				arg = append(arg, s[i])
			case quote == 0 && (c == ' ' || c == '\t'):
				break word
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
			case quote != 0 && c == quote:
				quote = 0
			default:
				arg = append(arg, c)
			}
		}
		if quote != 0 {
			return nil, errQuotes
		}
		args = append(args, string(arg))
	}
	return args, nil
}

// escapes reports whether a backslash escapes the character c. quote is the quotation mark around
// it, or 0 outside quotes.
func escapes(c, quote byte) bool {
	return c == '"' || c == '\'' || c == '\\' || c == ' ' && quote == 0
}
