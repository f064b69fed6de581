package subprocess

import (
	"errors"
	"strings"
)

// Split splits a command line into words, as a shell does, but without expansions. White space
// separates words, quotes of both kinds group characters, and a backslash makes the next character
// literal. In double quotes it does so only before a double quote, a backslash, a dollar sign or a
// backquote; in single quotes it is an ordinary character.
func Split(line string) (words []string, err error) {
	var word []byte
	inWord := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t', '\n', '\r':
			if inWord {
				words = append(words, string(word))
			}
			word, inWord = word[:0], false
			continue
		case '\\':
			if i++; i == len(line) {
				return nil, errors.New("it ends in a backslash")
			}
			word = append(word, line[i])
		case '\'', '"':
			quoted, n := unquote(line[i+1:], c)
			if n < 0 {
				return nil, errors.New("a quotation mark is missing")
			}
			word = append(word, quoted...)
			i += n
		default:
			word = append(word, c)
		}
		inWord = true
	}
	if inWord {
		words = append(words, string(word))
	}
	return words, nil
}

// unquote returns the text of s before a quotation mark. n is the length of that text in s,
// including the mark. n is negative if s contains no mark.
func unquote(s string, mark byte) (text []byte, n int) {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == mark:
			return text, i + 1
		case mark == '"' && s[i] == '\\' && i+1 < len(s) && strings.IndexByte("\"\\$`", s[i+1]) >= 0:
			i++
		}
		text = append(text, s[i])
	}
	return nil, -1
}
